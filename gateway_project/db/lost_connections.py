"""Tells connections that the server has closed from those that work, and the errors of the first kind from others."""

import select

from gevent import monkey
from psycopg import pq

# gevent's own poll would let other greenlets run. This one does not wait.
_poll = monkey.get_original("select", "poll")

_FATAL = {b"FATAL", b"PANIC"}


def has_ended(descriptor: int) -> bool:
    """Return whether the server has closed an idle connection, or is about to. A notice counts as that, too."""
    poll = _poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def ends_connection(result: pq.abc.PGresult) -> bool:
    """Return whether the server closes the connection with this error, as it does when it restarts (57P01 and others)."""
    return result.error_field(pq.DiagnosticField.SEVERITY_NONLOCALIZED) in _FATAL
