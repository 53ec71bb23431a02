"""Who is speaking, and how much may this key do.

Owns API keys: their secrets, authentication, spending limits and rate limits, and the dashboard where owners manage them.
May import ``billing`` and the leaves of ``gateway_project``.

- ``secret``          pure: mint, split, digest, compare
- ``authentication``  Authorization: Bearer -> account and key; identity may be cached, status never
- ``periods``         pure: which UTC days a spending limit counts
- ``spending``        a key's spending days: reserve at admission, commit or release at settlement
- ``rate_limits``     pure: requests and tokens per minute over the state on the key's row
- ``rates``           a key's limits per minute, as an admission meets them: which apply, count, refuse, tell
- ``standings``       where keys stood with them when their rows were read last, for replies that read none
- ``refusals``        a flood of refused requests is answered from memory
- ``locks``           keys after accounts, spending days after keys
- ``keyring``         what owners, support and operators do to keys: issue, limit, revoke
- ``usage``           what a key used and has left, as GET /v1/usage tells it
- ``summaries``       keys and their spending as pages show them
- ``forms``           a limit and a new key, as people type them
- ``pages``           the dashboard
- ``audit``           what keys ask the whole book

A key's identity (secret -> key, account) never changes. Whether it may still be used is read in the transaction that
lets it spend: a revoked key stops at once.
"""
