"""The ledger: entries, balances and holds, how they are read, and the audit of all of it. Imports no feature.

- ``writer``         the only writer of entries and balances
- ``holds``          money reserved for usage: place; then settle, release or expire, once
- ``movements``      the SQL that writes holds, entries and their accounts; alerts of a balance that an entry makes low
- ``credits``        what is left of each credit, used first in, first out; numbers what was taken back of payments
- ``reading``        read the entries of an account, one page or batch at a time
- ``statement``      entries as the pages show them, and as a CSV file
- ``archived_days``  since when details of completions are kept
- ``audit``          what an invariant is, and the check that finds violations
- ``signed_days``    the nightly audit: what was booked since, and days that it signs off
- ``moves``          moves an account to another cell
"""
