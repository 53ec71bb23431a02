"""Recovery: what is owed that the database does not know, because it, a process or a disk failed.

- ``checkpoints``    how far running completions have come, for the case that their process dies
- ``sweeper``        settles or releases what a dead process left
- ``corrections``    corrects what the sweeper charged, when the settlement comes late
- ``readmission``    admits completions again that the database has forgotten
- ``outbox``         settlements stored on disk while the database is unavailable
- ``file_lock``      a lock that processes of a host take on a directory; makes renames in it durable
- ``reserve``        room on the disk for the outbox, and refusals when there is none
- ``journal``        charges of the last minutes on disk, in case that the database loses them in a failover
- ``owed``           settles what waited, or corrects what the sweeper charged instead, and counts every charge
- ``dead_letters``   settlements on disk that cannot be applied, for an operator
"""
