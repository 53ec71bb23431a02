"""Forms that were sent: a form that is sent twice does its act once, as its token is stored in the transaction of the act."""

from django.db import connection

from gateway_project.db import cell


def use(token: str) -> bool:
    """Store the token of a form, in the transaction of its act. Return False if it was acted on before."""
    assert connection.in_atomic_block
    return bool(cell.execute("INSERT INTO activity_sentform (token) VALUES (%s) ON CONFLICT DO NOTHING RETURNING 1", [token]))
