"""How a provider is reached: the addresses of its APIs, and the credential that each request shows.

Owns what a catalog file says in ``auth``, ``headers``, ``query``, ``paths`` and ``platform``. Imports ``completions.chat``,
``masking`` and ``gateway_project``. The libraries of the clouds are extras: each is imported for a provider that needs it.

- ``endpoints``  the target of a route: its addresses, its headers, its key
- ``platforms``  how the clouds serve the APIs of makers: other paths, other fields
- ``keeper``     keeps a credential that expires, and renews it ahead of time
- ``given``      the credential of an account's own key
- ``google``, ``aws``, ``azure``  fetch the credential of a cloud
"""
