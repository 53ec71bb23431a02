"""What owners see and do of the account as a whole: its settings.

- ``activity``        what was done to the account, in the words of its owners
- ``activity_pages``  /dashboard/settings/activity/, with its CSV file
- ``pages``           /dashboard/settings/, which leads to the others
- ``page_urls``       their paths
"""
