"""What many clients were told of one account, what its book said meanwhile, and whether both can be true.

Written from what the gateway promises, and fed over HTTP alone: nothing here knows how it is made. A law yields a sentence for
each breach. Where a client cannot know what became of its request, as it left before its reply came, the book may have one
debit of it or none.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

Entry = dict[str, Any]  # as GET /api/billing/ledger shows it

NANOS_PER_DOLLAR, NANOS_PER_CENT = 10**9, 10**7


@dataclass(frozen=True)
class Call:
    """One request and all that its client was told. Times are seconds of one clock that all clients share."""

    name: str
    key: str
    model: str
    called_at: float
    replied_at: float = math.inf  # when the last byte came, if it did
    status: int | None = None  # None: the client left before it came
    completion_id: str | None = None
    prompt_tokens: int | None = None  # None: it was told no usage
    completion_tokens: int | None = None
    max_tokens: int | None = None
    retry_key: str | None = None  # its Idempotency-Key
    is_replayed: bool = False

    @property
    def is_unknown(self) -> bool:
        return self.completion_id is None and self.status in (None, 200)


@dataclass(frozen=True)
class BookReading:
    """The whole ledger, oldest entry first, as of some moment between the two times."""

    began_at: float
    ended_at: float
    entries: list[Entry]


@dataclass(frozen=True)
class BalanceReading:
    began_at: float
    ended_at: float
    cents: int


@dataclass(frozen=True)
class History:
    """Books and balances in the order of their reading, by one reader; the last of each was read when all had ended.

    ``prices`` are dollars a token, of the prompt and of the reply; ``limits_cents`` what keys may spend.
    """

    opening_cents: int
    prices: dict[str, tuple[Decimal, Decimal]]
    calls: list[Call]
    books: list[BookReading]
    balances: list[BalanceReading]
    limits_cents: dict[str, int]

    @property
    def book(self) -> list[Entry]:
        return self.books[-1].entries

    @property
    def debits(self) -> list[Entry]:
        return [entry for entry in self.book if entry["type"] == "USAGE_DEBIT"]

    @cached_property
    def told(self) -> dict[str, list[Call]]:
        """The calls by the completion that they were told of. Who was told nothing, but asked for the same, is among them."""
        known = {call.retry_key: call.completion_id for call in self.calls if call.retry_key and call.completion_id}
        told: dict[str, list[Call]] = {}
        for call in self.calls:
            if completion_id := call.completion_id or (call.is_unknown and known.get(call.retry_key)):
                told.setdefault(completion_id, []).append(call)
        return told

    @cached_property
    def spans(self) -> list[tuple[float, float]]:
        """For each entry: it was not there before the first time, and it was from the second on."""
        spans = []
        for entry in self.book:
            calls = self.told.get(_completion_id(entry), [])
            begun = min((call.called_at for call in calls), default=-math.inf)
            there = min((call.replied_at for call in calls), default=math.inf)
            spans.append((begun, there if entry["type"] == "USAGE_DEBIT" else -math.inf))
        return spans

    def lengths(self, reading: BookReading | BalanceReading) -> range:
        """How many entries it may have seen: all that were acknowledged before it, none that was asked for after it."""
        least = max((place for place, (_, there) in enumerate(self.spans, 1) if there < reading.began_at), default=0)
        least = max([least, *(len(book.entries) for book in self.books if book.ended_at < reading.began_at)])
        most = min((place for place, (begun, _) in enumerate(self.spans) if begun > reading.ended_at), default=len(self.book))
        return range(least, most + 1)


def violations(history: History) -> list[tuple[str, str]]:
    """The laws that are broken, by name, and how."""
    return [(law.__name__, sentence) for law in LAWS for sentence in law(history)]


# --- The book by itself ------------------------------------------------------------------------------------------


def the_book_is_never_rewritten(history: History) -> Iterator[str]:
    for earlier, later in zip(history.books, history.books[1:], strict=False):
        if later.entries[: len(earlier.entries)] != earlier.entries:
            yield f"what was read by {earlier.ended_at} is not how the book of {later.began_at} begins"


def entries_are_unique(history: History) -> Iterator[str]:
    for entry_id, count in Counter(entry["id"] for entry in history.book).items():
        if count > 1:
            yield f"{entry_id} is {count} times in the book"


def amounts_chain(history: History) -> Iterator[str]:
    before = 0
    for entry in history.book:
        if before + entry["amountInCents"] != entry["balanceAfterInCents"]:
            yield f"{before} and {entry['amountInCents']} do not make {entry['balanceAfterInCents']} in {entry['id']}"
        before = entry["balanceAfterInCents"]


def shown_cents_are_the_floor_of_the_exact_balance(history: History) -> Iterator[str]:
    exact_nanos = 0
    for entry in history.book:
        exact_nanos += _nanos(entry)
        if exact_nanos // NANOS_PER_CENT != entry["balanceAfterInCents"]:
            yield f"{exact_nanos} nanodollars are shown as {entry['balanceAfterInCents']} cents in {entry['id']}"


def no_balance_is_below_zero(history: History) -> Iterator[str]:
    yield from (f"{entry['id']} leaves {cents}" for entry in history.book if (cents := entry["balanceAfterInCents"]) < 0)
    yield from (f"{reading.cents} was read at {reading.began_at}" for reading in history.balances if reading.cents < 0)


def times_never_run_back(history: History) -> Iterator[str]:
    for earlier, later in zip(history.book, history.book[1:], strict=False):
        if earlier["createdAt"] > later["createdAt"]:
            yield f"{later['id']} says {later['createdAt']}, after {earlier['createdAt']}"


def debits_cost_what_the_price_list_says(history: History) -> Iterator[str]:
    for entry in history.debits:
        facts = entry["metadata"]
        prompt, reply = history.prices[facts["model"]]
        cost_nanos = math.ceil((facts["promptTokens"] * prompt + facts["completionTokens"] * reply) * NANOS_PER_DOLLAR)
        if cost_nanos != -_nanos(entry) or facts["tokens"] != facts["promptTokens"] + facts["completionTokens"]:
            yield f"{entry['id']} costs {facts['costInDollars']} for {facts['tokens']} tokens, not {cost_nanos} nanodollars"


def money_is_conserved(history: History) -> Iterator[str]:
    credited = [entry["amountInCents"] for entry in history.book if entry["type"] != "USAGE_DEBIT"]
    if credited != [history.opening_cents]:
        yield f"{history.opening_cents} cents were credited, but the book has {credited}"
    left_nanos = history.opening_cents * NANOS_PER_CENT + sum(_nanos(entry) for entry in history.debits)
    if left_nanos // NANOS_PER_CENT != history.balances[-1].cents:
        yield f"{left_nanos} nanodollars must be left, but the balance is {history.balances[-1].cents} cents"


# --- The book and what clients were told -------------------------------------------------------------------------


def an_acknowledged_completion_is_debited_once(history: History) -> Iterator[str]:
    debited = Counter(_completion_id(entry) for entry in history.debits)
    for completion_id, calls in history.told.items():
        if debited[completion_id] != 1:
            yield f"{completion_id}, which {calls[0].name} was told of, is debited {debited[completion_id]} times"


def nothing_else_is_debited(history: History) -> Iterator[str]:
    """Above all no request that was refused."""
    unexplained = Counter(entry["metadata"]["model"] for entry in history.debits if _completion_id(entry) not in history.told)
    explained = {call.name for calls in history.told.values() for call in calls}
    possible = {
        call.retry_key or call.name: call.model for call in history.calls if call.is_unknown and call.name not in explained
    }
    for model, count in (unexplained - Counter(possible.values())).items():
        yield f"{count} debits for {model} that nobody can have caused"


def debits_say_what_clients_were_told(history: History) -> Iterator[str]:
    for entry in history.debits:
        facts = entry["metadata"]
        charged = (facts["model"], facts["promptTokens"], facts["completionTokens"])
        for call in history.told.get(_completion_id(entry), []):
            if call.prompt_tokens is not None and (call.model, call.prompt_tokens, call.completion_tokens) != charged:
                yield f"{call.name} was told {call.prompt_tokens} and {call.completion_tokens} tokens of {call.model}: {facts}"
            if call.max_tokens is not None and facts["completionTokens"] > call.max_tokens:
                yield f"{call.name} allowed {call.max_tokens} tokens: {facts}"


def a_retry_is_the_same_completion(history: History) -> Iterator[str]:
    told: dict[str, set[str]] = {}
    first = Counter(call.retry_key for call in history.calls if call.retry_key and call.completion_id and not call.is_replayed)
    for call in history.calls:
        if call.retry_key and call.completion_id:
            told.setdefault(call.retry_key, set()).add(call.completion_id)
    yield from (f"{retry_key} became {ids}" for retry_key, ids in told.items() if len(ids) > 1)
    yield from (f"{retry_key} ran {count} times" for retry_key, count in first.items() if count > 1)


def keys_spend_within_their_limits(history: History) -> Iterator[str]:
    spent_nanos: Counter[str] = Counter()
    for entry in history.debits:
        spenders = {call.key for call in history.told.get(_completion_id(entry), []) if not call.is_replayed}
        if len(spenders) == 1:  # who left may have been the one, or the other who asked for the same
            spent_nanos[spenders.pop()] -= _nanos(entry)
    for key, limit_cents in history.limits_cents.items():
        if spent_nanos[key] > limit_cents * NANOS_PER_CENT:
            yield f"{key} spent {spent_nanos[key]} nanodollars of {limit_cents} cents"


# --- Time --------------------------------------------------------------------------------------------------------


def entries_stand_in_the_order_of_time(history: History) -> Iterator[str]:
    """Who was answered before another asked stands before it."""
    latest_begun = -math.inf
    for entry, (begun, there) in zip(history.book, history.spans, strict=True):
        if there < latest_begun:
            yield f"{entry['id']} was acknowledged at {there} and stands behind what was asked for at {latest_begun}"
        latest_begun = max(latest_begun, begun)


def books_show_what_was_acknowledged_and_nothing_of_the_future(history: History) -> Iterator[str]:
    for book in history.books:
        lengths = history.lengths(book)
        if len(book.entries) not in lengths:
            yield f"the book of {book.began_at} has {len(book.entries)} entries, not {lengths.start} to {lengths.stop - 1}"


def balances_are_those_of_the_book(history: History) -> Iterator[str]:
    after = [0, *(entry["balanceAfterInCents"] for entry in history.book)]
    for reading in history.balances:
        lengths = history.lengths(reading)
        if reading.cents not in [after[length] for length in lengths]:
            yield f"{reading.cents} cents at {reading.began_at} are not what any of the entries {lengths} left"


LAWS: list[Callable[[History], Iterator[str]]] = [
    the_book_is_never_rewritten,
    entries_are_unique,
    amounts_chain,
    shown_cents_are_the_floor_of_the_exact_balance,
    no_balance_is_below_zero,
    times_never_run_back,
    debits_cost_what_the_price_list_says,
    money_is_conserved,
    an_acknowledged_completion_is_debited_once,
    nothing_else_is_debited,
    debits_say_what_clients_were_told,
    a_retry_is_the_same_completion,
    keys_spend_within_their_limits,
    entries_stand_in_the_order_of_time,
    books_show_what_was_acknowledged_and_nothing_of_the_future,
    balances_are_those_of_the_book,
]


def _completion_id(entry: Entry) -> str:
    return str(entry["metadata"].get("completionId", ""))


def _nanos(entry: Entry) -> int:
    """Signed. Debits say it to the nanodollar; credits are whole cents."""
    if entry["type"] == "USAGE_DEBIT":
        return -int(Decimal(entry["metadata"]["costInDollars"]) * NANOS_PER_DOLLAR)
    return int(entry["amountInCents"]) * NANOS_PER_CENT
