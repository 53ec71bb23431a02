"""API keys: whose key a request carries, whether it is valid, and how much it may spend and ask.

Owns keys with their secrets, authentication, spending limits, limits per minute, and the dashboard where owners manage keys.
May import ``billing`` and ``gateway_project``. In reading order:

- ``spending_limit``     an amount, a type and a period: what is a limit, when it resets, how it is said
- ``models``             ApiKey; FormerSecret, of before a rotation; SpendingDay, what a key spent on one UTC day; Run, Budget
- ``secret``             the format of a secret: mint, parse, digest, compare; pure
- ``authentication``     ``Authorization: Bearer`` -> caller, or account and key; caches whose key it is, never its status
- ``locks``              row locks of keys, taken after those of their accounts
- ``limits``             money per period, requests and tokens per minute, requests in flight: decide, count, report
- ``budgets``            what the requests of a run may spend together, and an account, a tag or a member in a month
- ``refusal_history``    what each key was refused, hour by hour and one by one, for support
- ``lifetimes``          for how long keys work at most
- ``lifecycle``          issue a key, change it, set its spending limit, pause and revoke it
- ``rotation``           give a key a new secret, end the former ones, find the key of a secret
- ``management_keys``    issue, find and revoke keys that manage keys and cannot use models
- ``key_api``            /api/keys: what programs do with keys by a management key
- ``usage``              the body of GET /v1/usage
- ``summaries``          keys and their spending as the pages show them
- ``acts``               what people do with keys, recorded in the activity log; how many keys an account may have
- ``forms``              HTML forms for a spending limit, a new key, and what an owner changes of one
- ``pages``              the dashboard, with management keys; ``page_urls`` are its addresses
- ``key_pages``          its pages of one key
- ``budget_pages``       its pages of monthly budgets
- ``desk``               what keys contribute to the support desk
- ``admin``              the support pages of keys
- ``audit``              invariants of keys, which ``billing.ledger.audit`` checks
- ``tasks``              scheduled work: deletes old refusals, and old replies to management keys
- ``openapi``            the security schemes and the rate-limit headers of the API description
- ``management``         commands: create_key, revoke_key, prepare_quickstart

Which key and account a secret belongs to never changes, so it is cached. Whether the key may be used, and with this secret, is
read in the transaction that admits the request: a paused or revoked key and an ended secret stop working at once.
"""
