"""Which app serves a path, for each kind of host. ``gateway_project.web.hosts`` selects the module.

- ``health``   every host: probes and metrics, and the handlers of errors outside views
- ``api``      the host of the completion API
- ``base``     the host of the pages and of the other APIs
- ``both``     an address that serves all of these
- ``metrics``  the address of GATEWAY_METRICS_BIND
"""
