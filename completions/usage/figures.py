# ruff: noqa: S608  the parts that statements are put together of are constants of this package
"""Reads an account's usage: the sums by hour, and the entries booked since. One statement reads both, at one moment.

A statement reads at most LIVE_MAX entries that are not summed up yet. More of them exist only if the task is late: then the
newest are missing, and ``is_behind`` says so.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, NamedTuple
from uuid import UUID

from billing.models import Account
from completions.models import UsageMark
from completions.usage import sums
from completions.usage.ranges import Range
from gateway_project.db import cell

LIVE_MAX = 10_000
VALUES_SHOWN = 8  # as many as there are colours
NAMES_SHOWN = 20


class Kind(Enum):
    """The kind of a group of requests."""

    TOLD = "told"  # one value
    OTHER = "other"  # the values that are not among the dearest
    NONE = "none"  # no such label


class Sums(NamedTuple):
    """The columns of ``sums.COLUMNS``, in their order."""

    requests: int = 0
    errors: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_nanos: int = 0
    first_tokens: int = 0
    first_token_ms: int = 0

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    @property
    def mean_first_token_ms(self) -> int | None:
        """How long streams took to their first token on average; None without any."""
        return round(self.first_token_ms / self.first_tokens) if self.first_tokens else None

    def plus(self, other: "Sums") -> "Sums":
        return Sums(*map(sum, zip(self, other, strict=True)))


@dataclass(frozen=True)
class Grouping:
    """The grouping of requests: a column of ``completions_usagehour``, or the name of a label."""

    column: str | None = None
    label_name: str | None = None


MODEL, KEY = Grouping(column="model_id"), Grouping(column="key_id")
END_USER, RUN = Grouping(label_name=sums.END_USER), Grouping(label_name=sums.RUN)


class Group(NamedTuple):
    """A value that requests are grouped by; it is empty where there is none."""

    kind: Kind
    value: str


@dataclass(frozen=True)
class Figures:
    """The sums of each group in a range, the dearest first, by the beginning of a bar."""

    groups: dict[Group, dict[datetime, Sums]]

    def of_group(self, group: Group) -> Sums:
        return add_up(self.groups[group].values())

    @property
    def total(self) -> Sums:
        return add_up(self.of_group(group) for group in self.groups)


def add_up(parts: Iterable[Sums]) -> Sums:
    total = Sums()
    for part in parts:
        total = total.plus(part)
    return total


def read(account: Account, shown: Range, grouping: Grouping) -> Figures:
    """Return the VALUES_SHOWN dearest values of the range; the others are one group."""
    groups: dict[Group, dict[datetime, Sums]] = {}
    values = {"step": shown.step, "shown": VALUES_SHOWN}
    for kind, value, bucket, *columns in _select(_RANKED, account.pk, shown.since, shown.until, grouping, values):
        groups.setdefault(Group(Kind(kind), value), {})[bucket] = Sums(*columns)
    return Figures({group: groups[group] for group in groups if any(any(part) for part in groups[group].values())})


def read_total(account: Account, since: datetime, until: datetime) -> Sums:
    """Return the sum of a time."""
    return add_up(read_steps(account, since, until, "month").values())


def read_steps(account: Account, since: datetime, until: datetime, step: str) -> dict[datetime, Sums]:
    """Return the sums of each hour, day or month of a time that has any."""
    rows = _select(_STEPS, account.pk, since, until, MODEL, {"step": step})
    return {at: Sums(*columns) for at, *columns in rows}


def read_groups(account: Account, since: datetime, until: datetime, grouping: Grouping) -> list[tuple[Group, Sums]]:
    """Return all groups of a time, the dearest first."""
    rows = _select(_ALL, account.pk, since, until, grouping)
    found = [(Group(Kind(kind), value), Sums(*columns)) for kind, value, *columns in rows]
    return [(group, used) for group, used in found if any(used)]


def read_keys_with_models(account: Account, since: datetime, until: datetime) -> list[tuple[str, str, Sums]]:
    """Return what each key used of each model in a time: key id, model id and sums."""
    rows = _select(_KEYS_WITH_MODELS, account.pk, since, until, MODEL)
    return [(key_id, model_id, Sums(*columns)) for key_id, model_id, *columns in rows]


def read_tag_names(account: Account) -> list[str]:
    """Return names of tags that the account used, at most NAMES_SHOWN, in order. Each name is one step in an index."""
    return [name for (name,) in cell.execute(_TAG_NAMES, {"account": account.pk, "run": sums.RUN, "names": NAMES_SHOWN})]


def is_behind(account: Account) -> bool:
    """Say whether some of what is booked is neither summed up nor read."""
    mark = UsageMark.objects.filter(account=account).first()
    return account.last_seq - (mark.last_seq if mark else 0) > LIVE_MAX


def _select(
    query: str, account_id: UUID, since: datetime, until: datetime, grouping: Grouping, values: dict[str, Any] | None = None
) -> list[Any]:
    told = _TOLD_BY_COLUMN[grouping.column] if grouping.column else _TOLD_BY_LABEL
    given = {"account": account_id, "since": since, "until": until, "name": grouping.label_name, "entries_max": LIVE_MAX}
    return cell.execute(f"WITH {told} {query}", {**given, **(values or {})})


_COLUMNS = ", ".join(sums.COLUMNS)
_LESS = ", ".join(f"-{column}" for column in sums.COLUMNS)
_IN_RANGE = "hour >= %(since)s AND hour < %(until)s"
_STORED = f"account_id = %(account)s AND {_IN_RANGE}"
# ``everything`` has a row for each hour, key and model, and for each request since; ``told`` has what has a value.
_EVERYTHING = f"""
    span AS MATERIALIZED ({sums.SPAN} WHERE account.id = %(account)s),
    live AS MATERIALIZED (SELECT * FROM ({sums.ENDED}) AS ended WHERE {_IN_RANGE}),
    everything AS (
        SELECT hour, key_id, model_id, {_COLUMNS} FROM completions_usagehour WHERE {_STORED}
        UNION ALL SELECT hour, key_id, model_id, {_COLUMNS} FROM live
    )
"""
_TOLD_BY_COLUMN = {
    column: f"{_EVERYTHING}, told AS NOT MATERIALIZED (SELECT {column} AS value, hour, {_COLUMNS} FROM everything)"
    for column in (MODEL.column, KEY.column)
}
# Days are whole ones: of a time that begins or ends within a day, the hours are kept.
_TOLD_BY_LABEL = f"""{_EVERYTHING},
    told AS NOT MATERIALIZED (
        SELECT value, hour, {_COLUMNS} FROM completions_labelhour WHERE {_STORED} AND name = %(name)s
        UNION ALL
        SELECT value, day::timestamp AT TIME ZONE 'UTC', {_COLUMNS} FROM completions_labelday
        WHERE account_id = %(account)s AND name = %(name)s
            AND day >= (%(since)s::timestamptz AT TIME ZONE 'UTC')::date
            AND day < (%(until)s::timestamptz AT TIME ZONE 'UTC')::date
        UNION ALL
        SELECT label.value, hour, {_COLUMNS} FROM live CROSS JOIN LATERAL ({sums.LABELS}) AS label WHERE label.name = %(name)s
    )
"""
_DEAREST_FIRST = "sum(cost_nanos) DESC, sum(requests) DESC, value"
_STEPS = f"SELECT date_trunc(%(step)s, hour, 'UTC') AS bucket, {sums.SUMS} FROM everything GROUP BY bucket"
_KEYS_WITH_MODELS = f"""
    SELECT key_id, model_id, {sums.SUMS} FROM everything GROUP BY key_id, model_id
    ORDER BY sum(cost_nanos) DESC, key_id, model_id
"""
# The sum without a value is the total less the sums with one.
_ALL = f"""
    , groups AS MATERIALIZED (SELECT value, {sums.SUMS} FROM told GROUP BY value ORDER BY {_DEAREST_FIRST})
    SELECT 'told', value, {_COLUMNS} FROM groups
    UNION ALL
    SELECT 'none', '', {sums.SUMS} FROM (
        SELECT {_COLUMNS} FROM everything UNION ALL SELECT {_LESS} FROM groups
    ) AS untold HAVING count(*) > 0
"""
# ``told`` is read twice, and not kept in between: it may have millions of rows, and ``bars`` has a few for each bucket.
_RANKED = f"""
    , top AS MATERIALIZED (
        SELECT value, row_number() OVER (ORDER BY {_DEAREST_FIRST}) AS place FROM told GROUP BY value
        ORDER BY place LIMIT %(shown)s
    ), bars AS MATERIALIZED (
        SELECT place, top.value, date_trunc(%(step)s, hour, 'UTC') AS bucket, {sums.SUMS}
        FROM told LEFT JOIN top USING (value) GROUP BY place, top.value, bucket
    ), untold AS (
        SELECT date_trunc(%(step)s, hour, 'UTC') AS bucket, {_COLUMNS} FROM everything
        UNION ALL SELECT bucket, {_LESS} FROM bars
    )
    SELECT kind, value, bucket, {_COLUMNS} FROM (
        SELECT CASE WHEN place IS NULL THEN 2 ELSE 1 END AS part, CASE WHEN place IS NULL THEN 'other' ELSE 'told' END AS kind,
            place, coalesce(value, '') AS value, bucket, {_COLUMNS} FROM bars
        UNION ALL SELECT 3, 'none', NULL, '', bucket, {sums.SUMS} FROM untold GROUP BY bucket
    ) AS shown ORDER BY part, place, bucket
"""


def _next_name(name: str) -> str:
    found = [
        f"(SELECT min(name) FROM {table} WHERE account_id = %(account)s AND name > {name})"
        for table in ("completions_labelhour", "completions_labelday")
    ]
    return f"least({', '.join(found)})"


_TAG_NAMES = f"""
    WITH RECURSIVE found AS (
        SELECT {_next_name("%(run)s")} AS name
        UNION ALL SELECT {_next_name("found.name")} FROM found WHERE found.name IS NOT NULL
    )
    SELECT name FROM found WHERE name IS NOT NULL LIMIT %(names)s
"""
