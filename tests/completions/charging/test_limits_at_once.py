"""Of 200 requests at once exactly as many are served as a limit a minute allows, while the database's clock stands still."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection

from billing.models import Hold, LedgerEntry
from completions.models import Completion
from gateway_project.db.pipelined_transaction import PipelinedConnection
from tests import chat, factories
from tests.conftest import client_for
from tests.ledger_audit import assert_ledger_is_consistent

ASKED, ALLOWED = 200, 40
STREAMED = chat.body(max_tokens=10, stream=True)

_CLOCK = """
    CREATE SCHEMA frozen;
    CREATE FUNCTION frozen.statement_timestamp() RETURNS timestamptz STABLE LANGUAGE sql
        AS $$ SELECT '{now}'::timestamptz $$;
    ALTER DATABASE {database} SET search_path = frozen, pg_catalog, public
"""


@pytest.fixture
def _frozen(transactional_db: None) -> Iterator[None]:
    """Stop the clock of the database for all sessions that begin now. Otherwise time would allow further requests."""
    factories.make_model("demo/echo")
    database = connection.ops.quote_name(connection.settings_dict["NAME"])
    with connection.cursor() as cursor:
        cursor.execute("SELECT now() + interval '1 minute'")  # later than the price
        cursor.execute(_CLOCK.format(now=cursor.fetchone()[0], database=database))
    _reconnect()
    yield
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {database} RESET search_path; DROP SCHEMA frozen CASCADE")
    _reconnect()


def _reconnect() -> None:
    PipelinedConnection.close_all()
    connection.close()


def ask(secret: str) -> Any:
    try:
        return chat.send(client_for(secret), STREAMED)
    finally:
        connection.close()


@pytest.mark.usefixtures("_frozen")
@pytest.mark.parametrize("limit", ["requests_per_minute", "tokens_per_minute"])
@pytest.mark.one_cell
def test_exactly_as_many_of_200_are_served_as_the_limit_allows(alice, limit):
    counted = 1 if limit == "requests_per_minute" else 14  # tokens of the prompt, and the most of the reply
    secret = factories.make_key(alice, **{limit: ALLOWED * counted}, requests_in_flight_max=ASKED)[1]
    with ThreadPoolExecutor(20) as threads:
        replies = list(threads.map(ask, [secret] * ASKED))  # none is read before all are admitted or refused
    assert Counter(reply.status_code for reply in replies) == {200: ALLOWED, 429: ASKED - ALLOWED}
    for reply in replies:
        if reply.status_code == 429:
            chat.assert_error(reply, 429, "rate_limit_exceeded")
        else:
            assert chat.events(reply)[-1] == "[DONE]"
    assert LedgerEntry.objects.filter(type="USAGE_DEBIT").count() == Completion.objects.count() == ALLOWED
    assert set(Hold.objects.values_list("state", flat=True)) == {"SETTLED"}
    assert_ledger_is_consistent()
