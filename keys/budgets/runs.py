"""Runs: requests of a key that name one ``x-gateway-run`` share a budget and a deadline, which the first admitted one decides.

Others with the same name may say something else: it changes nothing, and replies say what is in force.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import msgspec

from billing import money
from gateway_project import errors
from gateway_project.db.pipelined_transaction import Statement
from gateway_project.text import dollars, timestamps
from keys.budgets.shared import SharedBudget
from keys.models import Run

HEADER, BUDGET_HEADER, DEADLINE_HEADER = "x-gateway-run", "x-gateway-run-budget", "x-gateway-run-deadline"
LEFT_HEADER = "x-gateway-run-left"
_META = ("HTTP_X_GATEWAY_RUN", "HTTP_X_GATEWAY_RUN_BUDGET", "HTTP_X_GATEWAY_RUN_DEADLINE")
META_NAMES = frozenset(_META)
NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._:-]{{0,{Run.NAME_CHARACTERS_MAX - 1}}}", re.ASCII)
_DOLLARS = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)
_SECONDS = re.compile(r"[1-9]\d{0,8}", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)

RunPlace = tuple[str, str]  # the id of a key, and the name of its run


class AskedRun(msgspec.Struct, frozen=True):
    """The run that a request names. ``deadline`` is a time, or how long after the admission it is."""

    name: str
    budget_nanos: int | None
    deadline: datetime | timedelta | None


@dataclass
class RunState(SharedBudget):
    """A run that is in force, or one that a request would begin."""

    deadline: datetime | None = None
    has_begun: bool = True
    source: ClassVar[str] = "run"
    advice: ClassVar[str] = (
        "Sending it again does not help. End here, or begin another run: a new x-gateway-run with an x-gateway-run-budget."
    )

    def __str__(self) -> str:
        return f"budget of {dollars.format_usd(self.limit_nanos)} of the run {self.id}"

    def headers(self, freed_nanos: int = 0) -> dict[str, str]:
        """Return the headers of a reply. ``freed_nanos``: of its own hold, what it did not cost."""
        deadline = {DEADLINE_HEADER: timestamps.iso_millis(self.deadline)} if self.deadline else {}
        budget, left = map(dollars.format_plain, (self.limit_nanos, self.available_nanos + freed_nanos))
        return {HEADER: self.id, BUDGET_HEADER: budget, LEFT_HEADER: left, **deadline}

    def require_time(self, now: datetime) -> None:
        """Raises BudgetExceeded when the deadline has passed."""
        if self.deadline and self.deadline <= now:
            message = f"The run {self.id} had time until {timestamps.in_words(self.deadline)}."
            raise self.refusal(errors.BudgetExceeded, message)

    def refusal(self, error: type[errors.MoneyRefused], message: str) -> errors.MoneyRefused:
        refusal = SharedBudget.refusal(self, error, message)
        refusal.headers |= self.headers() if self.has_begun else {}
        return refusal


def read_headers(meta: Mapping[str, Any]) -> AskedRun | None:
    """Return what a request's headers, under Django's names, say of its run; None without any. Raises InvalidRequest."""
    name, budget, deadline = map(meta.get, _META)
    if name is None:
        if budget is None and deadline is None:
            return None
        raise errors.wrong(HEADER, f"must name a run where there is {BUDGET_HEADER} or {DEADLINE_HEADER}")
    if not NAME.fullmatch(name):
        characters = "letters, digits, '.', '_', ':' or '-', the first a letter or a digit"
        raise errors.wrong(HEADER, f"must be 1 to {Run.NAME_CHARACTERS_MAX} {characters}")
    return AskedRun(name, _read_budget(budget), _read_deadline(deadline))


def _read_budget(text: str | None) -> int | None:
    if text is None:
        return None
    nanos = dollars.read_usd(text, decimals_max=9) if _DOLLARS.fullmatch(text) else None
    if not nanos or nanos > money.NANOS_MAX:
        raise errors.wrong(
            BUDGET_HEADER, "must be US dollars above 0, such as 2.50, with up to 9 digits on each side of the point"
        )
    return nanos


def _read_deadline(text: str | None) -> datetime | timedelta | None:
    if text is None:
        return None
    try:
        if _SECONDS.fullmatch(text):
            return timedelta(seconds=int(text))
        if _TIME.fullmatch(text):
            return datetime.fromisoformat(text).astimezone(UTC)  # PostgreSQL reads no zone beyond 15:59
    except (ValueError, OverflowError):
        pass
    whole = "a whole number of seconds from now, from 1 to 999999999,"
    raise errors.wrong(DEADLINE_HEADER, f"must be {whole} or a time such as 2026-12-31T18:00:00Z")


def begin(asked: AskedRun, now: datetime) -> RunState:
    """Return a new run, as its first request asks for it. Raises InvalidRequest without a budget."""
    if asked.budget_nanos is None:
        raise errors.wrong(BUDGET_HEADER, f"must be sent with the first request of a run: the key has no run {asked.name}")
    deadline = now + asked.deadline if isinstance(asked.deadline, timedelta) else asked.deadline
    return RunState(asked.budget_nanos, 0, 0, asked.name, True, deadline, has_begun=False)


def select_runs_statement(places: Collection[RunPlace]) -> Statement:
    """SQL for ``build_runs``. Run it with the accounts locked."""
    return Statement(
        """
        SELECT json_build_array(run.key_id, budget_nanos, spent_nanos, held_nanos, run.name, deadline)
        FROM json_to_recordset($1::json) AS asked (key_id text, name text)
        JOIN keys_run AS run ON run.key_id = asked.key_id AND run.name = asked.name
        """,
        [{"key_id": key_id, "name": name} for key_id, name in set(places)],
    )


def build_runs(rows: Iterable[Sequence[Any]]) -> dict[RunPlace, RunState]:
    return {
        (key_id, name): RunState(budget, spent, held, name, True, deadline and datetime.fromisoformat(deadline))
        for key_id, budget, spent, held, name, deadline in rows
    }
