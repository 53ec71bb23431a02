"""Charging: holds money for a chat request at admission, and settles or releases the hold when the request ends.

Imports ``billing`` and ``keys``; of ``completions`` the catalog, pricing, ``request``, the models and ``chat``. It imports
nothing of the relay, which calls it.

- ``admission``      admits a request: the refusals in order, then the hold
- ``early_refusal``  refuses large requests before their bodies are read
- ``own_keys``       narrows offers to what the account's own keys of providers serve
- ``oldest_hold``    says in a refusal for money since when running requests hold some
- ``trial``          tries a request for support: the decision, of which nothing is written
- ``batch``          the transaction that concurrent admissions and settlements share
- ``resolution``     how a completion ends: its usage is charged, or its hold is released
- ``records``        the values of a completion's row, and their SQL
- ``idempotency``    idempotency keys and the replies stored for them
- ``stored_responses`` the responses that later requests may continue from
- ``stored_rows``    deletes what an account has stored, and counts its bytes
- ``recovery``       what is owed that the database does not know, after it, a process or a disk failed
"""
