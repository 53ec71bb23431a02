"""Recovery: what is owed that the database does not know, because it, a process or a disk failed.

Kept while completions run and end:

- ``checkpoints``    how far running completions have come, for the case that their process dies
- ``outbox``         settlements stored on disk while the database is unavailable
- ``journal``        charges of the last minutes on disk, in case that the database loses them in a failover
- ``record``         one completion's end, as both have it on disk
- ``reserve``        room on the disk for the outbox, and refusals when there is none
- ``file_lock``      a lock that processes of a host take on a directory; makes renames in it durable

Read when something failed:

- ``sweeper``        settles or releases what a dead process left
- ``drains``         reads the outbox, and settles what waits there
- ``owed``           decides: settle, admit again what the database has forgotten, correct, or a dead letter
- ``corrections``    corrects what the sweeper charged, when the settlement comes late
"""
