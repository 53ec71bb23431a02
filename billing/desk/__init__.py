"""What billing contributes to the support desk.

- ``search``  finds accounts, people, ledger entries and holds
- ``panels``  credits and the audit of the book, on the home page
"""
