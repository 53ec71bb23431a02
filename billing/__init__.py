"""Accounts and their money: members, the ledger, holds, the audit.

Owns every balance. Imports no other app and knows nothing of keys, models or providers. In reading order:

- ``models``         User, Account, Membership, LedgerEntry, Hold; constraints refuse what the invariants forbid
- ``money``          units and every rounding: nanodollars inside, cents at the edge; pure
- ``accounts``       open an account for a person, find it by a member's e-mail address
- ``locks``          the only way to lock a row that holds money; the order of locks
- ``ledger``         the only writer of entries and balances
- ``holds``          money reserved for usage: place; then settle, release or expire, once
- ``ledger_pages``   read the entries of an account, one page or batch at a time
- ``statement``      one entry as the pages show it
- ``audit``          invariants of the whole ledger, and the check that finds violations
- ``serializers``    the JSON of the API; cents and camelCase only here
- ``filters``        the query parameters of the ledger
- ``ledger_csv``     the ledger as a CSV file
- ``views``          GET /api/billing/...; ``urls`` are its addresses
- ``forms``          HTML forms for amounts, credits and users
- ``pages``          sign-in, choice of account and statement; ``page_urls`` are their addresses
- ``admin``          the support pages: users, accounts, entries, holds
- ``tasks``          the nightly audit
- ``management``     commands: create_account, grant_credit, verify_ledger

A balance changes only by an entry, in the same transaction, and an entry is never changed. Usage never makes a balance less
what is held negative; only a refund may.
"""
