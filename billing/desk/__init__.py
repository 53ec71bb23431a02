"""What billing contributes to the support desk.

- ``search``  finds accounts, people, ledger entries and holds
"""
