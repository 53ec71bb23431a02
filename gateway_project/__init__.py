"""The base of the apps: configuration, addresses, errors, and access to databases, networks and the web framework.

The apps import each other downwards only, and this package imports none of them:

    rankings     imports only ``completions.models`` of the other apps
    completions
    keys
    billing
    gateway_project

The modules that configure and start the project (``settings``, ``urls``, ``celery``, ``checks``, ``apps``, ``startup``,
``wsgi``, ``command_line`` and ``local``) name the apps by dotted path. No app imports them, but for ``celery``, on which
modules of tasks declare theirs. All other modules here import no app. import-linter checks this and the layers inside each
package: the contracts are in pyproject.toml.

- ``db``                PostgreSQL below the ORM
- ``net``               outbound HTTP and sockets
- ``web``               middleware, replies to errors, probes and parsing of requests
- ``cells``             where accounts have their rows; one cell, until an operator adds another
- ``activity``          the log of what staff and owners did; the base classes of admin pages
- ``desk``              the support desk: what the admin shows of several apps
- ``monitoring``        what operators watch: last runs of tasks, running processes, facts of the database
- ``local``             ``make run``: the whole gateway on one machine
- ``urls``              which app serves a path, for each kind of host
- ``command_line``      ``model-gateway`` and ``manage.py``
- ``text``              how values are written: amounts, times, JSON, CSV; and web addresses read
- ``app_config``        the base class of the apps: what each adds to the desk, the metrics, the audit and exports
- ``bar_chart``         bar charts as plain values
- ``cache``             an in-process cache whose entries expire
- ``deadline``          deadlines of waits, looked at a few times per second
- ``environment``       typed readers of environment variables
- ``errors``            every error reply of the API
- ``formats``           how Django writes times and days
- ``identifiers``       UUIDv7 ids
- ``installation``      where templates, configuration and data are; how the processes start
- ``large_work``        CPU work of large requests, in slices, one request at a time
- ``logs``              log lines: their format, and what the line of a request tells
- ``mail``              where mail goes
- ``management``        the command ``migrate``
- ``metrics``           Prometheus metrics
- ``openapi``           the description of a serializer field, for drf-spectacular
- ``operator_command``  the base class of management commands
- ``passwords``         password hashing that does not delay other requests
- ``secretbox``         encryption of stored secrets
- ``speedups``          what is replaced inside of libraries, so that a completion takes fewer calls
- ``templatetags``      filters of templates: how pages show amounts
"""

import gc

# In every process of the gateway: reference counts free nearly all objects, so the collector may run less often than it would.
# By default it takes a quarter of a start, and a sixth of a completion.
gc.set_threshold(20_000, 50, 100)
