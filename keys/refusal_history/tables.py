"""The SQL of the history of refusals: statements that write the counts of a process, write alerts, and delete old rows."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models.functions import Now

from gateway_project.db.pipelined_transaction import Statement
from keys import secret
from keys.budgets import counts
from keys.limits import limit_marks
from keys.models import RefusalCount, RefusedRequest

LATEST_MAX = 50  # of each key
MESSAGE_CHARACTERS_MAX = 500
MODEL_CHARACTERS_MAX = 200


class Kind(NamedTuple):
    """Refusals of a key that are counted together."""

    hour: datetime
    status: int
    code: str
    error: str


class Refusal(NamedTuple):
    """``error`` is the class of the error; ``message`` is "" where it quotes the request."""

    at: datetime
    request_id: str
    status: int
    code: str
    error: str
    message: str
    model: str

    @property
    def kind(self) -> Kind:
        return Kind(self.at.replace(minute=0, second=0, microsecond=0), self.status, self.code, self.error)


_TELL = {
    "key": limit_marks.TELL_KEYS,
    "run": counts.tell_runs(limit_marks.CHANGED),
    "budget": counts.tell_months(limit_marks.CHANGED),
}
Reached = Mapping[str, Any]
OfEachKey = Collection[tuple[str, Mapping[Kind, int], Collection[Refusal]]]  # key id, counts, the last refusals


def write_statement(of_each_key: OfEachKey) -> Statement:
    """SQL that adds the counts, inserts the last refusals, and deletes those that each of these keys has too many.

    All processes write rows in the same order, so they cannot deadlock. A statement whose answer was lost may run again: it
    inserts no refusal twice. Deleted keys are left out. Citus plans no subquery here that refers to rows around it.
    """
    return Statement(
        """
        WITH given AS (SELECT $1::json AS refusals),
        counted AS (
            INSERT INTO keys_refusalcount (key_id, hour, status, code, error, number)
            SELECT key_id, hour, status, code, error, number
            FROM given, json_to_recordset(refusals -> 'counts') AS count (key_id text, hour timestamptz, status smallint,
                code text, error text, number bigint)
            JOIN keys_apikey AS key ON key.id = key_id
            ORDER BY key_id, hour, error, code
            ON CONFLICT (key_id, hour, error, code) DO UPDATE SET number = keys_refusalcount.number + EXCLUDED.number
        ),
        latest AS (
            SELECT latest.*
            FROM given, json_to_recordset(refusals -> 'latest') AS latest (key_id text, at timestamptz, request_id text,
                status smallint, code text, error text, message text, model text)
            JOIN keys_apikey AS key ON key.id = key_id
        ),
        inserted AS (
            INSERT INTO keys_refusedrequest (key_id, at, request_id, status, code, error, message, model)
            SELECT key_id, at, request_id, status, code, error, message, model FROM latest ORDER BY request_id
            ON CONFLICT (request_id) DO NOTHING
        ),
        outdated AS (
            SELECT id
            FROM (
                SELECT id, number, row_number() OVER (PARTITION BY key_id ORDER BY at DESC) AS place
                FROM (SELECT key_id, count(*) AS number FROM latest GROUP BY key_id) AS added
                JOIN keys_refusedrequest USING (key_id)
            ) AS old
            JOIN given ON place > (refusals ->> 'kept_max')::integer - number
        )
        DELETE FROM keys_refusedrequest WHERE id IN (
            SELECT id FROM keys_refusedrequest WHERE id = ANY (ARRAY(SELECT id FROM outdated)) FOR UPDATE SKIP LOCKED
        )
        """,
        {
            "kept_max": LATEST_MAX,
            "counts": [
                {"key_id": key_id, **kind._asdict(), "number": number}
                for key_id, counts, _ in of_each_key
                for kind, number in counts.items()
            ],
            "latest": [{"key_id": key_id, **_cleaned(refusal)} for key_id, _, latest in of_each_key for refusal in latest],
        },
    )


def tell_statements(reached: Collection[Reached]) -> list[Statement]:
    """Return SQL that writes alerts of limits and budgets which refused requests when most was spent, each alert once."""
    of_source = {source: [each for each in reached if each["source"] == source] for source in _TELL}
    return [Statement(_TELL[source], rows) for source, rows in of_source.items() if rows]


def _cleaned(refusal: Refusal) -> dict[str, object]:
    return {**refusal._asdict(), "message": _presentable(refusal.message), "model": _presentable(refusal.model)}


def _presentable(text: str) -> str:
    """Return the text without secrets of keys, and without what PostgreSQL accepts in no text."""
    return "".join(character if character.isprintable() else " " for character in secret.mask_all(text))


def delete_old() -> int:
    """Delete what is older than RETENTION_REFUSAL_DAYS. Return how many rows."""
    kept_since = Now() - timedelta(days=settings.RETENTION_REFUSAL_DAYS)
    counts, _ = RefusalCount.objects.filter(hour__lt=kept_since).delete()
    requests, _ = RefusedRequest.objects.filter(at__lt=kept_since).delete()
    return counts + requests
