"""The catalog: providers, models, dated prices and routes; which of them serve a request, and how they are changed.

Imports ``billing``, ``keys.authentication`` and ``gateway_project``; of ``completions`` the models, ``statistics``,
``providers``, ``request``, ``estimates``, ``chat`` and ``pricing``. ``charging`` and ``relay`` import it, never the other
way round.

- ``lookup``       finds what is offered under a model id, with a short cache; lists the models that callers see
- ``data_demands`` what requests, keys and accounts demand about data, and which routes promise it
- ``eligibility``  selects the models and routes that can serve a request
- ``file``         loads catalog files: reads TOML, then writes what differs
- ``tables``       the tables of a catalog file, validated by pydantic
- ``price_gaps``   what a price of a file probably leaves out
- ``rules``        which ids, addresses and variable names are accepted, from files and from staff
- ``markup``       what is added to providers' prices that files and lists have
- ``writes``       the catalog's lock, and setting a price: shared by ``file`` and ``sync``
- ``sync``         proposals from providers' own lists of models
- ``access_words`` how a provider is reached, in words
- ``forms``        the admin's forms: keys are only written, prices are entered in dollars
- ``price_changes`` staff's changes of prices: what changes in percent is shown and confirmed
- ``price_requests`` prices that staff ask for, which a second person approves
- ``change_alerts`` tells accounts what changes of models that they used
- ``previews``     shows what a form would change before it is saved
- ``route_calls``  one short request to a route, by hand
- ``provider_check`` asks a provider for what is wrong with it
- ``provider_faults`` the meaning of its failures, with advice
- ``price_admin``  the admin's pages of prices that wait, of what providers charge, and of margins
- ``admin``        the admin's pages of providers, models, prices, routes and aliases
- ``catalog.toml`` the built-in catalog
"""
