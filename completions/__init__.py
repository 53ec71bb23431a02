"""Chat completions under /v1: from the bytes of a request to the ledger entry that charges it.

Owns the catalog (providers, models, dated prices, routes), the request schema, admission, the relay to providers and
settlement. May import ``keys``, ``billing`` and the modules of ``gateway_project`` that
import no app.

The path of a request, module after module:

    inbound.completion_view -> request.schema -> catalog.eligibility -> charging.admission (committed)
          -> relay.attempts -> providers -> relay.stream or relay.whole -> relay.charge
          -> charging.resolution -> reply

The layers, from top to bottom. A layer imports only layers below it; import-linter checks this, by pyproject.toml:

- ``urls``, ``page_urls``, ``apps``  the paths under /v1 and /dashboard; the app's registration with Django
- ``admin``                the staff pages. Also ``checks``, the system checks, and ``management``, the commands
- ``public``               the landing page, the list of models and a page for each, for everybody
- ``tracing``              traces of completions, where the operator wants them
- ``playground``           the page from which members send completions
- ``desk``                 what completions contribute to the support desk
- ``inbound``              the languages of callers, and the way of a completion, which all of them share
- ``tasks``                scheduled work
- ``facts``                what operators watch of routes, outbox and dead letters
- ``history``              the owner's pages of past requests, and the words for how one went
- ``own_keys``             the owner's pages of the account's own keys of providers
- ``relay``                sends an admitted request to its routes and relays the reply, whole or streamed
- ``retention``            drops details of completions after a time, into an archive or for good
- ``charging``             holds the money before the request, and charges or releases it once afterwards
- ``catalog``              what is offered under a model id; ``catalog.sync`` compares it with the providers' own lists
- ``bills``                what providers billed, beside what was expected and charged
- ``statistics``   what all completions of an hour or day add up to: spending, speed, uptime, margins
- ``usage``                what accounts used, by hour: the sums, the page of an account, its files
- ``audit``, ``models``    the questions that completions add to the audit of the ledger; the tables
- ``providers``            one adapter for each kind of provider, behind one interface
- ``estimates``            pure: what a request costs at most, how many tokens it may generate
- ``request``              parses and validates the JSON of a request into a ``ChatRequest``
- ``chat``         pure: the frozen dataclasses that the layers pass on
- ``pricing``              pure: the rates of a price, and what a usage costs at them
"""
