"""Accounts and their money: members, the ledger, holds, the audit.

Owns every balance. Imports no other app and knows nothing of keys, models or providers. In reading order:

- ``models``             the tables; constraints refuse what breaks invariants
- ``email_addresses``    one spelling of each address
- ``money``              units and every rounding: nanodollars inside, cents at the edge; pure
- ``locks``              the only way to lock a row that holds money; the order of locks
- ``ledger``             entries, balances, holds, and the audit: a package that knows nothing of what follows
- ``proof``              hashes and signed roots, by which customers prove what they were told
- ``accounts``           accounts, the roles of their members, and the frame of members' pages
- ``staff_permissions``  whom and what staff may change
- ``sign_in``            signing in: sessions, second factors, mails, limits on attempts
- ``members``            invitations, changes of role, and the page of an account's members
- ``staff``              what staff may do only with a second person
- ``alerts``             what members are told, such as a low balance
- ``payments``           credit bought from a processor, refunds, disputes, receipts
- ``account_settings``   the account as a whole, for its owners: activity, emails, export, closing
- ``desk``               what billing contributes to the support desk
- ``serializers``        the JSON of the API; cents and camelCase only here
- ``views``              GET /api/billing/..., with its query parameters; ``urls`` are its addresses
- ``forms``              parts of forms: amounts in dollars, and the selected account
- ``statement_pages``    the statement and its CSV file; ``page_urls`` are the addresses of all pages
- ``audit``              invariants of the ledger, holds and payments
- ``admin``              the support pages of accounts, entries and holds
- ``tasks``              the nightly audit; payments, mails and webhooks that are due; what is forgotten after its time
- ``facts``              what operators watch of the ledger and its holds
- ``management``         commands: create_account, grant_credit, verify_ledger

A balance changes only by an entry, in the same transaction, and an entry is never changed. Usage never spends more than the
balance less what is held. Only refunds and corrections can make a balance negative.
"""
