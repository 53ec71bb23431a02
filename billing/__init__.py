"""The ground: accounts and their members, money, the book, holds, the audit.

Owns every cent. Imports no other app: it has never heard of keys, models or providers.

- ``money``   units and the two roundings: nanodollars inside, cents at the edge
- ``models``  Account, LedgerEntry, Hold; the database refuses what the invariants forbid
- ``locks``   the only way to a row that money changes; accounts in id order
- ``ledger``  the only writer of entries and balances
- ``holds``   money set aside: place, then settle, release or expire, once
- ``audit``   questions to the whole book that must return no rows

A balance changes only by an entry, in the same transaction; an entry is never changed. ``balance - held`` is never
negative through usage; only a refund may push a balance below zero.
"""
