"""The activity log: what staff did, and owners with keys and members. Append-only, in the transaction of the act itself.

A Django app of its own, because every app records what is done on its pages.

- ``models``       Activity, a row for each act; triggers refuse to change or delete one. SentForm
- ``log``          the only writer of the log, which deletes what the operator no longer keeps; which acts staff may read
- ``outdated_pages``  finds what changed since a change form was opened
- ``admin_pages``  base classes of admin pages, which record what is done on them
- ``staff_groups``  ready groups of staff, which migrations of the apps fill
- ``keyset``       base class of the pages of large tables: paged by keys, never counted
- ``list_values``  what lists show: links between rows, and times
- ``admin``        the log in the admin, and its CSV file
"""
