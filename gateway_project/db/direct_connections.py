"""Opens connections with the parameters of Django's, but apart from it and from the request pool; tells which have ended."""

import select
from typing import Any

import psycopg
from django.db import connection
from gevent import monkey
from psycopg.conninfo import make_conninfo

# gevent's own poll would let other greenlets run. This one does not wait.
_poll = monkey.get_original("select", "poll")

_NOT_OF_LIBPQ = {"context", "cursor_factory", "pool", "prepare_threshold"}


def connect(**changed: Any) -> psycopg.Connection[Any]:
    """Open a connection in autocommit mode. Raises psycopg's errors."""
    return psycopg.connect(**_parameters() | changed, autocommit=True)


def refusal() -> str:
    """Try to connect. Return the server's reason if that fails, otherwise "". A pool only reports how long it waited."""
    try:
        connect().close()
    except psycopg.Error as error:
        return str(error).strip()
    return ""


def session_sql(*names: str) -> str:
    """Return SQL that all our connections run first: SESSION of the database's settings, then the settings of these names."""
    session: dict[str, str] = {}
    for name in ("SESSION", *names):
        session |= connection.settings_dict[name]
    return "; ".join(f"SET {name} = '{value}'" for name, value in session.items())


def are_shared() -> bool:
    """Return whether a pooler lends connections of the server for single transactions. Raises psycopg's errors."""
    with connect() as first, connect() as second:
        asked = [[each.execute("SELECT pg_backend_pid()").fetchone() for each in (first, second)] for _ in range(3)]
    return len(set(map(tuple, asked))) > 1 or any(one == other for one, other in asked)


def conninfo(**changed: Any) -> str:
    """Return the parameters as libpq's own functions take them."""
    return make_conninfo(**_parameters() | changed)


def _parameters() -> dict[str, Any]:
    """Return Django's connection parameters, without those that only its own connections understand."""
    return {name: value for name, value in connection.get_connection_params().items() if name not in _NOT_OF_LIBPQ}


def has_ended(descriptor: int) -> bool:
    """Return whether the server has closed an idle connection, or is about to. A notice counts as that, too."""
    poll = _poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
