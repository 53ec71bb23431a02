"""Pages of the account as a whole: its settings.

- ``activity``    what was done to the account, in the words of its owners
- ``closing``     closes an account and opens it again; pays back what is left; erases personal data some time after
- ``own_tables``  the tables of an export; what the models say of it and of erasure: a file or a reason, deleted or what else
- ``exports``     makes the export of all data, and forgets it after some days
- ``pages``       /dashboard/settings/: the overview, which emails are sent, the export, the closing, the activity
"""
