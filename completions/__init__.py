"""One chat request, from the bytes that come in to the cent that is booked.

Owns the catalog (providers, models, dated prices, routes), the request schema, admission, the attempts, the relay and
settlement.
May import ``keys``, ``billing`` and the leaves of ``gateway_project``.

A request, a file after a file:

    views -> schema -> matching -> admission (committed) -> attempts -> providers -> relay -> settlement -> reply

- ``chat``          what is passed inward: frozen dataclasses
- ``schema``        JSON -> ChatRequest, or an error that names the field; ``messages`` is the part of it with that name, and
                    ``fields`` reads single ones
- ``catalog``       model id -> what is offered under it, or model_not_found
- ``matching``      which models and which of their routes can answer the request, before any money is held
- ``pricing``       pure: what a request may cost at most, what it did cost
- ``sizing``        pure: how many tokens a request may generate
- ``idempotency``   a retry under the same Idempotency-Key gets the same reply, and pays once
- ``admission``     who is let in: every refusal in order, then the hold
- ``door``          who comes in and who goes out share a transaction, in two round trips
- ``records``       the row of a completion: as it begins, who answers it, how it ends
- ``attempts``      the routes in turn, again where that may help, until one answers
- ``circuits``      which routes rest because they fail again and again
- ``providers``     a file each, behind one small interface
- ``relay``         the reply, whole or streamed, settled on every way out
- ``checkpoints``   what running completions have done so far, for when their process dies
- ``resolution``    how a completion ends, decided at the door: hold -> ledger entry, or release
- ``settlement``    the way out: resolved once, and tried again while the database is away
- ``spool``         what could not be settled while the database was away, on disk until it is back
- ``sse``           pure: framing of event streams, both ways

Beside the way of a request:

- ``catalog_file``  the catalog as TOML: validated as a whole, then written (``toml_table`` and ``catalog_rules`` read it)
- ``proposals``     what a provider's own list says otherwise: written down, approved or applied by the rule (``list_request``
                    asks, ``upstream_list`` reads, ``catalog_sync`` compares; ``catalog_rows`` is shared with the files)
- ``admin``         completions for staff; ``catalog_admin`` (with its ``forms``) and ``proposals_admin`` the catalog
- ``tasks``         the sweeper: what a killed worker left behind is settled or released
- ``audit``         what completions ask the whole book
"""
