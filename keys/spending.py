"""What a key spends against its limit: reserved at admission, spent or given back at settlement.

The window of a limit is the sum of the key's days in it, so changing a limit, its type or its period means what it says at
once: the new limit applies to what was really spent in the new window. ``reserve_spending_statement`` and
``settle_spending_statement`` build the SQL that writes what was decided with the key locked.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from operator import add
from typing import Any, NamedTuple

from django.db.models import Sum

from gateway_project import dollars, errors
from gateway_project.db.pipelined_transaction import Statement
from keys import periods
from keys.models import ApiKey, SpendingDay


@dataclass
class SpendingWindow:
    """A key's limit, and what of it is spent and held in the window that now is in, kept true while a batch decides."""

    limit_nanos: int
    spent_nanos: int
    held_nanos: int
    first_day: date
    resets_at: datetime | None

    @property
    def unspent_nanos(self) -> int:
        """What is left when every running request should turn out free."""
        return max(self.limit_nanos - self.spent_nanos, 0)

    @property
    def available_nanos(self) -> int:
        """What a new request may still hold."""
        return max(self.limit_nanos - self.spent_nanos - self.held_nanos, 0)

    def settle(self, day: date, *, held_nanos: int, spent_nanos: int) -> None:
        """What was held for a completion that counts on ``day`` is so no longer, and this much was spent."""
        if day >= self.first_day:
            self.held_nanos -= held_nanos
            self.spent_nanos += spent_nanos


def read_window(key: ApiKey, now: datetime) -> SpendingWindow | None:
    """The window of the key's limit, or None when it has no limit."""
    if key.spending_limit_nanos is None:
        return None
    days = SpendingDay.objects.filter(key=key, day__gte=periods.first_day(key.spending_period, now.date()))
    sums = days.aggregate(spent=Sum("spent_nanos", default=0), held=Sum("held_nanos", default=0))
    return _window(key, now, sums["spent"], sums["held"])


def select_spending_statement(key_ids: Collection[str]) -> Statement:
    """What the limited ones of these keys spent and hold in their windows: key id, spent, held. ``build_windows`` reads it.

    Ask after the keys are locked, or the sums may be older than the locks.
    """
    return Statement(
        """
        SELECT json_build_array(key_id, sum(spent_nanos), sum(held_nanos))
        FROM keys_spendingday JOIN keys_apikey ON keys_apikey.id = key_id
        WHERE key_id = ANY (ARRAY(SELECT json_array_elements_text($1::json)))
            AND spending_limit_cents IS NOT NULL AND day >= CASE spending_period
            WHEN 'DAILY' THEN (statement_timestamp() AT TIME ZONE 'UTC')::date
            WHEN 'WEEKLY' THEN date_trunc('week', statement_timestamp() AT TIME ZONE 'UTC')::date
            WHEN 'MONTHLY' THEN date_trunc('month', statement_timestamp() AT TIME ZONE 'UTC')::date
            ELSE '-infinity' END
        GROUP BY key_id
        """,
        list(key_ids),
    )


def build_windows(keys: Collection[ApiKey], found: Iterable[Sequence[Any]], now: datetime) -> dict[str, SpendingWindow | None]:
    """The window of each key, None for one without a limit."""
    spent_and_held = {key_id: (spent, held) for key_id, spent, held in found}
    return {
        key.pk: None if key.spending_limit_nanos is None else _window(key, now, *spent_and_held.get(key.pk, (0, 0)))
        for key in keys
    }


def _window(key: ApiKey, now: datetime, spent_nanos: int, held_nanos: int) -> SpendingWindow:
    assert key.spending_limit_nanos is not None
    return SpendingWindow(
        limit_nanos=key.spending_limit_nanos,
        spent_nanos=int(spent_nanos),
        held_nanos=int(held_nanos),
        first_day=periods.first_day(key.spending_period, now.date()),
        resets_at=periods.resets_at(key.spending_period, now.date()),
    )


def require_available(window: SpendingWindow | None, need_nanos: int, now: datetime) -> None:
    """Raises TiedUp (429) when running requests hold the rest of the limit, SpendingLimitReached (429) when it is reached."""
    if window is None or window.available_nanos >= need_nanos:
        return
    if window.unspent_nanos >= need_nanos:
        raise errors.TiedUp("The key's spending limit would do, but running requests hold it. Try again in a moment.")
    headers = errors.retry_after(window.resets_at - now) if window.resets_at else {}
    raise errors.SpendingLimitReached(
        f"The key's spending limit of ${dollars.format_plain(window.limit_nanos)} is reached:"
        f" ${dollars.format_plain(window.spent_nanos)} is spent"
        f" and this request may cost up to ${dollars.format_plain(need_nanos)}.",
        headers=headers,
    )


class SpendingChange(NamedTuple):
    """What a completion, or all of a batch, does to a key's day."""

    key_id: str
    day: date
    held_nanos: int
    spent_nanos: int = 0
    completions: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


def reserve_spending_statement(changes: Sequence[SpendingChange]) -> Statement:
    """Write what was reserved. The first of a day makes the day's row."""
    return Statement(
        """
        INSERT INTO keys_spendingday
            (key_id, day, spent_nanos, held_nanos, completions, prompt_tokens, completion_tokens)
        SELECT key_id, day, 0, held_nanos, 0, 0, 0
        FROM json_to_recordset($1::json) AS change (key_id text, day date, held_nanos bigint)
        ON CONFLICT (key_id, day) DO UPDATE SET held_nanos = keys_spendingday.held_nanos + EXCLUDED.held_nanos
        """,
        _days(changes),
    )


def settle_spending_statement(changes: Sequence[SpendingChange]) -> Statement:
    """Write what was spent of what was reserved; ``held_nanos`` is what the day holds no longer."""
    return Statement(
        """
        UPDATE keys_spendingday SET
            held_nanos = keys_spendingday.held_nanos - change.held_nanos,
            spent_nanos = keys_spendingday.spent_nanos + change.spent_nanos,
            completions = keys_spendingday.completions + change.completions,
            prompt_tokens = keys_spendingday.prompt_tokens + change.prompt_tokens,
            completion_tokens = keys_spendingday.completion_tokens + change.completion_tokens
        FROM json_to_recordset($1::json) AS change (key_id text, day date, held_nanos bigint, spent_nanos bigint,
            completions bigint, prompt_tokens bigint, completion_tokens bigint)
        WHERE keys_spendingday.key_id = change.key_id AND keys_spendingday.day = change.day
        """,
        _days(changes),
    )


def _days(changes: Sequence[SpendingChange]) -> list[dict[str, Any]]:
    """One row for each day of each key: an INSERT may not meet a row twice, and so each is written once a batch."""
    days: dict[tuple[str, date], tuple[int, ...]] = {}
    for key_id, day, *amounts in changes:
        known = days.get((key_id, day))
        days[key_id, day] = tuple(map(add, known, amounts)) if known else tuple(amounts)
    return [SpendingChange(key_id, day, *amounts)._asdict() for (key_id, day), amounts in days.items()]
