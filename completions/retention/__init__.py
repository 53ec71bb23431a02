"""Drops details of completions after a time that the operator sets, into an archive or for good. The ledger stays.

- ``archive``   which days are due; writes the rows of a day to a file, deletes them, and restores them
- ``files``     the files of the archive: JSON lines, compressed, with a manifest
- ``usage``     drops sums of usage after a time of their own
"""
