"""The ground: accounts and their members, money, the book, holds, the audit.

Owns every cent. Imports no other app: it has never heard of keys, models or providers.

- ``money``      units and the two roundings: nanodollars inside, cents at the edge
- ``models``     User, Account, LedgerEntry, Hold; the database refuses what the invariants forbid
- ``accounts``   opened for a person, found by a person's e-mail address
- ``locks``      the only way to a row that money changes; accounts in id order
- ``ledger``     the only writer of entries and balances
- ``holds``      money set aside: place, then settle, release or expire, once
- ``books``      reading an account's book, a page at a time
- ``statement``  the book as people read it
- ``audit``      questions to the whole book that must return no rows

To programs it speaks in ``views`` (JSON by ``serializers``, CSV by ``spreadsheet``), to an account's members in ``pages``, to
support in ``admin`` with its ``forms``, to operators in commands, to the clock in ``tasks``.

A balance changes only by an entry, in the same transaction; an entry is never changed. ``balance - held`` is never
negative through usage; only a refund may push a balance below zero.
"""
