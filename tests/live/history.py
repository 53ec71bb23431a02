"""A history: what many clients of one account were told, and what its ledger said meanwhile. Its rules say if both can be true.

Written from the gateway's documented promises and fed over HTTP alone: independent of the implementation. A rule yields a
sentence for each violation. A client that disconnected before its reply cannot know how its request ended: the ledger may
have one debit for it or none.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

EntryJson = dict[str, Any]  # as GET /api/billing/ledger shows it

NANOS_PER_DOLLAR, NANOS_PER_CENT = 10**9, 10**7


@dataclass(frozen=True)
class Call:
    """One request and everything in its reply. Times are in seconds, by one clock that all clients share."""

    name: str
    key: str
    model: str
    called_at: float
    replied_at: float = math.inf  # when the last byte arrived, if it did
    status: int | None = None  # None: the client disconnected before it
    completion_id: str | None = None
    prompt_tokens: int | None = None  # None: the reply had no usage
    completion_tokens: int | None = None
    max_tokens: int | None = None
    retry_key: str | None = None  # its Idempotency-Key
    is_replayed: bool = False

    @property
    def is_whole(self) -> bool:
        return self.replied_at < math.inf

    @property
    def is_unknown(self) -> bool:
        return self.completion_id is None and self.status in (None, 200)


@dataclass(frozen=True)
class LedgerReading:
    """The whole ledger, oldest entry first, as it was at some moment between the two times."""

    began_at: float
    ended_at: float
    entries: list[EntryJson]


@dataclass(frozen=True)
class BalanceReading:
    began_at: float
    ended_at: float
    cents: int


@dataclass(frozen=True)
class History:
    """The calls, and the ledger and balance readings of one reader in their order. The last of each came after all calls ended.

    ``prices`` are dollars per token of the prompt and of the reply; ``limits_cents`` is what keys may spend.
    """

    opening_cents: int
    prices: dict[str, tuple[Decimal, Decimal]]
    calls: list[Call]
    ledgers: list[LedgerReading]
    balances: list[BalanceReading]
    limits_cents: dict[str, int]

    @property
    def ledger(self) -> list[EntryJson]:
        return self.ledgers[-1].entries

    @property
    def debits(self) -> list[EntryJson]:
        return [entry for entry in self.ledger if entry["type"] == "USAGE_DEBIT"]

    @cached_property
    def by_completion_id(self) -> dict[str, list[Call]]:
        """The calls by completion id, including those without one that have the same Idempotency-Key."""
        known = {call.retry_key: call.completion_id for call in self.calls if call.retry_key and call.completion_id}
        calls: dict[str, list[Call]] = {}
        for call in self.calls:
            if completion_id := call.completion_id or (call.is_unknown and known.get(call.retry_key)):
                calls.setdefault(completion_id, []).append(call)
        return calls

    @cached_property
    def spans(self) -> list[tuple[float, float]]:
        """For each entry, a time before which it did not exist, and a time after which it did."""
        spans = []
        for entry in self.ledger:
            calls = self.by_completion_id.get(_completion_id(entry), [])
            begun = min((call.called_at for call in calls), default=-math.inf)
            there = min((call.replied_at for call in calls), default=math.inf)
            spans.append((begun, there if entry["type"] == "USAGE_DEBIT" else -math.inf))
        return spans

    def lengths(self, reading: LedgerReading | BalanceReading) -> range:
        """The possible lengths of a reading: with all entries acknowledged before it, and none requested after it."""
        least = max((place for place, (_, there) in enumerate(self.spans, 1) if there < reading.began_at), default=0)
        least = max([least, *(len(ledger.entries) for ledger in self.ledgers if ledger.ended_at < reading.began_at)])
        most = min((place for place, (begun, _) in enumerate(self.spans) if begun > reading.ended_at), default=len(self.ledger))
        return range(least, most + 1)


def violations(history: History) -> list[tuple[str, str]]:
    """Return the violated rules: the name, and a sentence for each violation."""
    return [(rule.__name__, sentence) for rule in RULES for sentence in rule(history)]


# --- The ledger by itself ----------------------------------------------------------------------------------------


def the_ledger_is_never_rewritten(history: History) -> Iterator[str]:
    for earlier, later in zip(history.ledgers, history.ledgers[1:], strict=False):
        if later.entries[: len(earlier.entries)] != earlier.entries:
            yield f"what was read by {earlier.ended_at} is not how the ledger of {later.began_at} begins"


def entries_are_unique(history: History) -> Iterator[str]:
    for entry_id, count in Counter(entry["id"] for entry in history.ledger).items():
        if count > 1:
            yield f"{entry_id} is {count} times in the ledger"


def amounts_chain(history: History) -> Iterator[str]:
    before = 0
    for entry in history.ledger:
        if before + entry["amountInCents"] != entry["balanceAfterInCents"]:
            yield f"{before} and {entry['amountInCents']} do not make {entry['balanceAfterInCents']} in {entry['id']}"
        before = entry["balanceAfterInCents"]


def shown_cents_are_the_floor_of_the_exact_balance(history: History) -> Iterator[str]:
    exact_nanos = 0
    for entry in history.ledger:
        exact_nanos += _nanos(entry)
        if exact_nanos // NANOS_PER_CENT != entry["balanceAfterInCents"]:
            yield f"{exact_nanos} nanodollars are shown as {entry['balanceAfterInCents']} cents in {entry['id']}"


def no_balance_is_negative(history: History) -> Iterator[str]:
    yield from (f"{entry['id']} leaves {cents}" for entry in history.ledger if (cents := entry["balanceAfterInCents"]) < 0)
    yield from (f"{reading.cents} was read at {reading.began_at}" for reading in history.balances if reading.cents < 0)


def timestamps_never_decrease(history: History) -> Iterator[str]:
    for earlier, later in zip(history.ledger, history.ledger[1:], strict=False):
        if earlier["createdAt"] > later["createdAt"]:
            yield f"{later['id']} says {later['createdAt']}, after {earlier['createdAt']}"


def debits_cost_what_the_prices_say(history: History) -> Iterator[str]:
    for entry in history.debits:
        facts = entry["metadata"]
        prompt, reply = history.prices[facts["model"]]
        cost_nanos = math.ceil((facts["promptTokens"] * prompt + facts["completionTokens"] * reply) * NANOS_PER_DOLLAR)
        if cost_nanos != -_nanos(entry) or facts["tokens"] != facts["promptTokens"] + facts["completionTokens"]:
            yield f"{entry['id']} costs {facts['costInDollars']} for {facts['tokens']} tokens, not {cost_nanos} nanodollars"


def money_is_conserved(history: History) -> Iterator[str]:
    credited = [entry["amountInCents"] for entry in history.ledger if entry["type"] != "USAGE_DEBIT"]
    if credited != [history.opening_cents]:
        yield f"{history.opening_cents} cents were credited, but the ledger has {credited}"
    left_nanos = history.opening_cents * NANOS_PER_CENT + sum(_nanos(entry) for entry in history.debits)
    if left_nanos // NANOS_PER_CENT != history.balances[-1].cents:
        yield f"{left_nanos} nanodollars must be left, but the balance is {history.balances[-1].cents} cents"


# --- The ledger and what clients were told -----------------------------------------------------------------------


def an_acknowledged_completion_is_debited_once(history: History) -> Iterator[str]:
    debited = Counter(_completion_id(entry) for entry in history.debits)
    for completion_id, calls in history.by_completion_id.items():
        if debited[completion_id] != 1:
            yield f"{completion_id}, which {calls[0].name} was told of, is debited {debited[completion_id]} times"


def nothing_else_is_debited(history: History) -> Iterator[str]:
    """Nothing else is debited, in particular no refused request."""
    unexplained = Counter(
        entry["metadata"]["model"] for entry in history.debits if _completion_id(entry) not in history.by_completion_id
    )
    explained = {call.name for calls in history.by_completion_id.values() for call in calls}
    possible = {
        call.retry_key or call.name: call.model for call in history.calls if call.is_unknown and call.name not in explained
    }
    for model, count in (unexplained - Counter(possible.values())).items():
        yield f"{count} debits for {model} that no request can have caused"


def debits_match_what_clients_were_told(history: History) -> Iterator[str]:
    for entry in history.debits:
        facts = entry["metadata"]
        charged = (facts["model"], facts["promptTokens"], facts["completionTokens"])
        for call in history.by_completion_id.get(_completion_id(entry), []):
            if call.prompt_tokens is not None and (call.model, call.prompt_tokens, call.completion_tokens) != charged:
                yield f"{call.name} was told {call.prompt_tokens} and {call.completion_tokens} tokens of {call.model}: {facts}"
            if call.max_tokens is not None and facts["completionTokens"] > call.max_tokens:
                yield f"{call.name} allowed {call.max_tokens} tokens: {facts}"


def a_retry_is_the_same_completion(history: History) -> Iterator[str]:
    ids_by_key: dict[str, set[str]] = {}
    first = Counter(call.retry_key for call in history.calls if call.retry_key and call.completion_id and not call.is_replayed)
    for call in history.calls:
        if call.retry_key and call.completion_id:
            ids_by_key.setdefault(call.retry_key, set()).add(call.completion_id)
    yield from (f"{retry_key} became {ids}" for retry_key, ids in ids_by_key.items() if len(ids) > 1)
    yield from (f"{retry_key} ran {count} times" for retry_key, count in first.items() if count > 1)


def keys_spend_within_their_limits(history: History) -> Iterator[str]:
    spent_nanos: Counter[str] = Counter()
    for entry in history.debits:
        spenders = {call.key for call in history.by_completion_id.get(_completion_id(entry), []) if not call.is_replayed}
        if len(spenders) == 1:  # of two calls with one Idempotency-Key, either may be the one that ran
            spent_nanos[spenders.pop()] -= _nanos(entry)
    for key, limit_cents in history.limits_cents.items():
        if spent_nanos[key] > limit_cents * NANOS_PER_CENT:
            yield f"{key} spent {spent_nanos[key]} nanodollars of {limit_cents} cents"


# --- Time --------------------------------------------------------------------------------------------------------


def entries_are_in_the_order_of_time(history: History) -> Iterator[str]:
    """An entry acknowledged before another was requested precedes it."""
    latest_begun = -math.inf
    for entry, (begun, there) in zip(history.ledger, history.spans, strict=True):
        if there < latest_begun:
            yield f"{entry['id']} was acknowledged at {there} but follows an entry requested at {latest_begun}"
        latest_begun = max(latest_begun, begun)


def readings_show_all_acknowledged_entries_and_no_future_ones(history: History) -> Iterator[str]:
    for reading in history.ledgers:
        lengths, count = history.lengths(reading), len(reading.entries)
        if count not in lengths:
            yield f"the ledger of {reading.began_at} has {count} entries, not {lengths.start} to {lengths.stop - 1}"


def balances_are_those_of_the_ledger(history: History) -> Iterator[str]:
    after = [0, *(entry["balanceAfterInCents"] for entry in history.ledger)]
    for reading in history.balances:
        lengths = history.lengths(reading)
        if reading.cents not in [after[length] for length in lengths]:
            yield f"{reading.cents} cents at {reading.began_at} are not what any of the entries {lengths} left"


RULES: list[Callable[[History], Iterator[str]]] = [
    the_ledger_is_never_rewritten,
    entries_are_unique,
    amounts_chain,
    shown_cents_are_the_floor_of_the_exact_balance,
    no_balance_is_negative,
    timestamps_never_decrease,
    debits_cost_what_the_prices_say,
    money_is_conserved,
    an_acknowledged_completion_is_debited_once,
    nothing_else_is_debited,
    debits_match_what_clients_were_told,
    a_retry_is_the_same_completion,
    keys_spend_within_their_limits,
    entries_are_in_the_order_of_time,
    readings_show_all_acknowledged_entries_and_no_future_ones,
    balances_are_those_of_the_ledger,
]


def _completion_id(entry: EntryJson) -> str:
    return str(entry["metadata"].get("completionId", ""))


def _nanos(entry: EntryJson) -> int:
    """Return the signed amount. Debits state it to the nanodollar; credits are whole cents."""
    if entry["type"] == "USAGE_DEBIT":
        return -int(Decimal(entry["metadata"]["costInDollars"]) * NANOS_PER_DOLLAR)
    return int(entry["amountInCents"]) * NANOS_PER_CENT
