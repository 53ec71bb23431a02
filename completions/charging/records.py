"""The values of a completion's row, and the SQL that counts, inserts and updates it."""

from collections.abc import Collection, Iterable, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple, NotRequired, TypedDict
from uuid import UUID

import msgspec

from completions.models import Completion
from gateway_project.db.pipelined_transaction import Statement


class CompletionRecord(msgspec.Struct, frozen=True):
    """An admitted completion: a plain value, as every request makes one. The fields are named like the columns of its row.

    ``run_deadline`` has no column: it makes the row of its run, also when a crash forgot both.
    """

    id: str
    account_id: UUID
    key_id: str
    model_id: str
    price_id: int
    provider_id: str
    is_stream: bool
    spending_day: date
    counted_tokens: int
    prompt_estimate: int
    images: int
    limit_nanos: int | None
    limit_since: date | None
    created_at: datetime
    repeats: str | None = None  # the earlier run under its Idempotency-Key, if it went on after a process died
    charged_before_nanos: int = 0  # for the runs before it; it is charged only what it costs more
    request_id: str | None = None
    service_tier: str | None = None
    end_user: str | None = None
    tags: dict[str, str] | None = None
    data_demanded: dict[str, Any] | None = None
    own_key_fee: int | None = None
    counts_price: bool | None = None
    provider_held_nanos: int = 0
    run: str | None = None
    run_budget_nanos: int | None = None
    budgets: dict[str, int | None] | None = None  # ids of monthly ones; the amount of one that stops, None of one that warns
    run_deadline: datetime | None = None

    def due_nanos(self, cost_nanos: int) -> int:
        """Return what is to be charged for a cost: all runs under one key cost together what the dearest of them costs."""
        return max(cost_nanos - self.charged_before_nanos, 0)

    @classmethod
    def from_row(cls, completion: Completion) -> "CompletionRecord":
        return cls(**{name: getattr(completion, name) for name in _COLUMNS})


class ModelOfKey(NamedTuple):
    account_id: UUID
    key_id: str
    model_id: str


class FailedAttempt(TypedDict):
    """An attempt that failed: the provider's status, None where it sent none, and its reason, "" where it may not be kept."""

    provider: str
    status: int | None
    reason: str
    own_key: NotRequired[bool]  # of the account


class ServedBy(NamedTuple):
    """Which model of which provider serves a completion, at which price, after how many attempts.

    Of a stream also the milliseconds to the first text, and from there to the last. ``failed_attempts`` is None when none
    failed, and empty when no provider was asked because of failures before. ``provider_request_id`` is that of the latest
    attempt. ``data_promised`` is None where nothing was demanded about data.
    """

    model_id: str
    price_id: int
    provider_id: str
    attempts: int | None
    first_token_ms: int | None = None
    streamed_ms: int | None = None
    failed_attempts: list[FailedAttempt] | None = None
    provider_request_id: str | None = None
    data_promised: dict[str, Any] | None = None
    own_key_fee: int | None = None  # see ``Offer``
    counts_price: bool | None = None  # see ``Route``

    @classmethod
    def from_row(cls, completion: Completion) -> "ServedBy":
        served = completion.model_id, completion.price_id, completion.provider_id, completion.attempts
        return cls(*served, own_key_fee=completion.own_key_fee, counts_price=completion.counts_price)


_COLUMNS = tuple(name for name in CompletionRecord.__struct_fields__ if name != "run_deadline")
# How a completion ended, and which model of which provider served it.
_ENDED = (
    *("id", *ServedBy._fields, "settlement"),
    *("prompt_tokens", "cached_tokens", "cache_write_tokens", "cache_write_1h_tokens", "completion_tokens"),
    *("cost_nanos", "service_tier", "web_searches", "other_counts", "provider_nanos"),
)
_SQL_TYPES = {
    **{"CharField": "text", "SlugField": "text", "BooleanField": "boolean", "UUIDField": "uuid"},
    **{"DateField": "date", "DateTimeField": "timestamptz", "JSONField": "jsonb"},
    **dict.fromkeys(("BigAutoField", "BigIntegerField", "IntegerField"), "bigint"),
    **dict.fromkeys(("PositiveIntegerField", "PositiveSmallIntegerField"), "bigint"),
}


def _typed_columns(names: Iterable[str]) -> str:
    """Return columns of a completion with their types in SQL."""
    fields = {field.attname: getattr(field, "target_field", field) for field in Completion._meta.concrete_fields}
    return ", ".join(f"{name} {_SQL_TYPES[fields[name].get_internal_type()]}" for name in names)


_INSERT = f"""
    INSERT INTO completions_completion ({", ".join(_COLUMNS)}, held_nanos)
    SELECT begun.*, (SELECT amount_nanos FROM billing_hold WHERE reference = begun.id)
    FROM json_to_recordset($1::json) AS begun ({_typed_columns(_COLUMNS)})
    """  # noqa: S608  names of this code
_UPDATE = f"""
    UPDATE completions_completion SET {", ".join(f"{name} = ended.{name}" for name in _ENDED[1:])},
        finished_at = statement_timestamp()
    FROM json_to_recordset($1::json) AS ended ({_typed_columns(_ENDED)})
    WHERE completions_completion.id = ended.id
    """  # noqa: S608  names of this code


def insert_completions_statement(completions: Sequence[CompletionRecord]) -> Statement:
    return Statement(_INSERT, [{name: getattr(each, name) for name in _COLUMNS} for each in completions])


def update_completions_statement(ended: Sequence[tuple[Any, ...]]) -> Statement:
    """SQL that ends completions: each is given as the values of ``_ENDED``."""
    return Statement(_UPDATE, [dict(zip(_ENDED, values, strict=True)) for values in ended])


def select_running_statement(asked: Collection[ModelOfKey]) -> Statement:
    """SQL for ``build_running``: how many completions of these keys and models have open holds. Run it with the keys locked."""
    return Statement(
        """
        SELECT json_build_array(completion.key_id, completion.model_id, count(*))
        FROM json_to_recordset($1::json) AS asked (account_id uuid, key_id text, model_id text)
        JOIN billing_hold AS hold ON hold.account_id = asked.account_id AND hold.state = 'HELD'
        JOIN completions_completion AS completion ON completion.id = hold.reference
        WHERE completion.key_id = asked.key_id AND completion.model_id = asked.model_id
        GROUP BY completion.key_id, completion.model_id
        """,
        [each._asdict() for each in set(asked)],
    )


def build_running(rows: Iterable[Sequence[Any]]) -> dict[tuple[str, str], int]:
    return {(key_id, model_id): number for key_id, model_id, number in rows}
