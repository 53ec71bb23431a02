"""Accounts and their money: members, the ledger, holds, the audit.

Owns every balance. Imports no other app and knows nothing of keys, models or providers. In reading order:

- ``models``             the tables; constraints refuse what breaks invariants
- ``money``              units and every rounding: nanodollars inside, cents at the edge; pure
- ``locks``              the only way to lock a row that holds money; the order of locks
- ``accounts``           open an account for a person, find it by a member's email address, close it when nobody can manage it
- ``ledger``             the only writer of entries and balances
- ``warnings``           what members are warned of, such as a low balance
- ``credits``            what is left of each credit, used first in, first out
- ``staff_permissions``  whom and what staff may change
- ``approvals``          acts of staff that wait for a second person, of whatever kind
- ``support_credit``     credits that staff book: caps for each time and each day, and what needs approval
- ``owners``             owners of accounts that staff make, with approval
- ``second_factor_removals``  lost second factors that support asks to remove, with approval
- ``standing``           whether an account ever paid, and how much work it left unpaid of late
- ``holds``              money reserved for usage: place; then settle, release or expire, once
- ``movements``          the SQL that writes holds, entries and their accounts
- ``ledger_pages``       read the entries of an account, one page or batch at a time
- ``statement``          one entry as the pages show it
- ``archived_days``      since when details of completions are kept
- ``audit``              invariants of the whole ledger, and the check that finds violations
- ``signed_days``        the nightly audit: what was booked since, and days that it signs off
- ``serializers``        the JSON of the API; cents and camelCase only here
- ``filters``            the query parameters of the ledger
- ``ledger_csv``         the ledger as a CSV file
- ``views``              GET /api/billing/...; ``urls`` are its addresses
- ``forms``              HTML forms for amounts, credits, users and memberships
- ``sign_in``            limits on attempts to sign in
- ``list_forms``         filters of members' lists; ``spenders``: the names of those who spent, told by other apps
- ``pages``              who is signed in, and the choice of account; ``page_urls`` are the addresses
- ``statement_pages``    the statement and its CSV file
- ``members``            roles, invitations, and the page of an account's members
- ``payments``           credit bought from a processor, refunds, disputes, receipts
- ``account_settings``   the account as a whole, for its owners: activity, emails, export, closing
- ``desk``               what billing contributes to the support desk
- ``people_admin``       the support pages of users, groups and memberships
- ``approval_admin``     the support pages of what waits for a second person: credits, owners and second factors
- ``admin``              the support pages of accounts, entries and holds
- ``tasks``              the nightly audit; forgetting attempts to sign in
- ``facts``              what operators watch of the ledger and its holds
- ``management``         commands: create_account, grant_credit, verify_ledger

A balance changes only by an entry, in the same transaction, and an entry is never changed. Usage never makes a balance less
what is held negative; only a refund may.
"""
