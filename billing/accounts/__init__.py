"""Accounts: their life, what each role may do in them, and the frame of every page that a member sees.

- ``lifecycle``     open an account for a person, find it by a member's email address, close it when it has no active member
- ``unpaid_work``   whether an account ever paid, and how much work it left unpaid within the last hour
- ``roles``         what each role may do, for every page
- ``member_pages``  who is signed in, and the choice of account
- ``list_forms``    filters of members' lists
"""
