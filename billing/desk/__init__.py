"""Billing's part of the support desk.

- ``search``    finds accounts, people, ledger entries and holds
- ``sections``  holds, ledger, members and acts of staff on an account's page
- ``acts``      what staff do with an account, each a form that does what it says; ``money_acts`` move money
- ``pages``     their pages, which ``admin`` adds to an account's
- ``panels``    credits and the audit of the book, on the home page
- ``site``      the admin as a site: home page, search, sign-in, a recent password before changes; ``apps``, ``urls``: its place
"""
