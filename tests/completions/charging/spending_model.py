"""Predicts what accounts and their keys may spend, in integers and without any product code."""

import math
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta

ABANDONED_AFTER = timedelta(seconds=60)
HOLDS_LAST = timedelta(minutes=20)
STORED_FOR = timedelta(hours=24)


@dataclass(eq=False)
class AccountModel:
    balance: int = 0
    entries: list[int] = field(default_factory=list)
    retries: dict[str, "StoredKey"] = field(default_factory=dict)
    threshold: int | None = None
    crossings: int = 0  # how often an entry took the balance below the threshold

    def add_entry(self, nanos: int) -> None:
        before, self.balance = self.balance, self.balance + nanos
        if self.threshold is not None and before >= self.threshold > self.balance:
            self.crossings += 1
        self.entries.append(nanos)


@dataclass
class StoredKey:
    """A request of an account under an Idempotency-Key, with its latest run."""

    body: str
    completion: "CompletionModel"
    until: datetime
    reply: bytes | None = None


@dataclass(eq=False)
class KeyModel:
    account: AccountModel
    limit: int | None = None
    period: str | None = None
    passed: list[int] = field(default_factory=list)  # percents of its limit, as they were reached

    def spend(self, before: int, after: int) -> None:
        self.passed += [mark for mark in (80, 100) if self.limit and before * 100 < self.limit * mark <= after * 100]

    def counts(self, day: date, today: date) -> bool:
        """Return whether a day's spending counts today. A later day counts, too: the clock may be set back over midnight."""
        match self.period:
            case "DAILY":
                return day >= today
            case "WEEKLY":
                return day.isocalendar()[:2] >= today.isocalendar()[:2]
            case "MONTHLY":
                return (day.year, day.month) >= (today.year, today.month)
        return True

    def resets_at(self, now: datetime) -> datetime | None:
        if self.period is None:
            return None
        today = now.date()
        later = (today + timedelta(days=days) for days in range(1, 32))
        return datetime.combine(next(day for day in later if not self.counts(today, day)), time.min, UTC)


@dataclass(eq=False)
class CompletionModel:
    key: KeyModel
    held: int
    began_at: datetime
    retry: str | None = None
    earlier: "CompletionModel | None" = None  # under the same key, until its process died
    cost: int = 0  # as far as the hold and the earlier charges pay for it
    relayed: int | None = None
    seen_at: datetime | None = None
    state: str = "HELD"
    settled: int | None = None
    is_recovered: bool = False

    @property
    def runs(self) -> list["CompletionModel"]:
        """This run and the earlier ones that it goes on with."""
        return [self, *(self.earlier.runs if self.earlier else [])]

    @property
    def charged(self) -> int:
        return sum(each.settled or 0 for each in self.runs)

    @property
    def before(self) -> int:
        return self.earlier.charged if self.earlier else 0

    @property
    def day(self) -> date:
        return self.began_at.date()

    def is_abandoned(self, now: datetime) -> bool:
        last = self.seen_at or self.began_at
        return self.state == "HELD" and (now - last > ABANDONED_AFTER or now - self.began_at > HOLDS_LAST)


class Model:
    """A token costs one nanodollar, whether it is read or written."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.completions: list[CompletionModel] = []

    # --- State ---

    def held(self, account: AccountModel) -> int:
        return sum(each.held for each in self.completions if each.key.account is account and each.state == "HELD")

    def running(self, account: AccountModel) -> int:
        return sum(each.key.account is account and each.state == "HELD" for each in self.completions)

    def running_lately(self, key: KeyModel) -> int:
        """Return how many completions of yesterday or later run."""
        yesterday = self.now.date() - timedelta(days=1)
        return sum(each.key is key and each.state == "HELD" and each.day >= yesterday for each in self.completions)

    def window(self, key: KeyModel) -> tuple[int, int]:
        """Return what the key spent and holds in the current window."""
        counted = [each for each in self.completions if each.key is key and key.counts(each.day, self.now.date())]
        held = sum(each.held for each in counted if each.state == "HELD")
        return sum(each.settled or 0 for each in counted), held

    def days(self) -> dict[tuple[int, date], tuple[int, int, int]]:
        """Return what each key, by its ``id()``, spent and holds of each day, and how many completions of it run.

        Days without any of these are left out.
        """
        found: defaultdict[tuple[int, date], tuple[int, int, int]] = defaultdict(lambda: (0, 0, 0))
        for each in self.completions:
            spent, held, running = found[id(each.key), each.day]
            is_held = each.state == "HELD"
            sums = spent + (each.settled or 0), held + (each.held if is_held else 0), running + is_held
            found[id(each.key), each.day] = sums
        return {place: sums for place, sums in found.items() if sums != (0, 0, 0)}

    def left(self, key: KeyModel, *, ignores_holds: bool) -> int:
        """Return what the key may still hold; with ``ignores_holds``, what it could hold if all holds were released."""
        spent, held = self.window(key)
        free, of_limit = key.account.balance - self.held(key.account), (key.limit or 0) - spent - held
        if ignores_holds:
            free, of_limit = key.account.balance, of_limit + held
        return free if key.limit is None else min(free, of_limit)

    # --- Admissions ---

    def stored(self, key: KeyModel, retry: str | None) -> StoredKey | None:
        stored = key.account.retries.get(retry or "")
        return stored if stored and stored.until > self.now else None

    def earlier(self, key: KeyModel, retry: str | None) -> CompletionModel | None:
        """Return the run that a repetition goes on with, whose process died."""
        stored = self.stored(key, retry)
        return stored.completion if stored and stored.reply is None else None

    def due(self, key: KeyModel, need: int, retry: str | None) -> int:
        earlier = self.earlier(key, retry)
        return max(need - (earlier.charged if earlier else 0), 0)

    def refusal(self, key: KeyModel, need: int, retry: str | None, body: str) -> str | None:
        """Return the name of the error; None when the request is admitted, or its stored reply repeated."""
        if stored := self.stored(key, retry):
            if stored.body != body:
                return "InvalidRequest"
            if stored.reply is not None:
                return None
            if stored.completion.state == "HELD":
                return "RequestInProgress"
        need = self.due(key, need, retry)
        spent, held = self.window(key)
        if key.limit is not None and need and need > key.limit - spent - held:
            return "SpendingLimitReached" if need > key.limit - spent else "TiedUp"
        if need > key.account.balance - self.held(key.account):
            return "InsufficientQuota" if need > key.account.balance else "TiedUp"
        return None

    def admit(self, key: KeyModel, need: int, retry: str | None, body: str) -> CompletionModel:
        completion = CompletionModel(key, self.due(key, need, retry), self.now, retry, self.earlier(key, retry))
        self.completions.append(completion)
        if retry:
            key.account.retries[retry] = StoredKey(body, completion, self.now + STORED_FOR)
        return completion

    # --- Settlements ---

    def settle(self, completion: CompletionModel, cost: int, reply: bytes | None, *, is_recovered: bool = False) -> int | None:
        """Return what is charged; None when the completion had ended before."""
        if completion.state != "HELD":
            return None
        completion.cost = min(cost, completion.held + completion.before)
        spent_before, _ = self.window(completion.key)
        completion.state, completion.settled = "SETTLED", max(completion.cost - completion.before, 0)
        completion.key.spend(spent_before, self.window(completion.key)[0])
        completion.key.account.add_entry(-completion.settled)
        if reply is None:
            completion.is_recovered = is_recovered
            self._end_key(completion, is_recovered=is_recovered)
        else:
            for stored in completion.key.account.retries.values():
                stored.reply = reply if stored.completion is completion else stored.reply
        return completion.settled

    def free(self, completion: CompletionModel, state: str) -> int | None:
        if completion.state != "HELD":
            return None
        completion.state = state
        self._end_key(completion)
        return 0

    def recover(self, completion: CompletionModel, prompt: int, relayed: int) -> int | None:
        """Four bytes are a token."""
        return self.settle(completion, prompt + math.ceil(relayed / 4), None, is_recovered=True)

    def _end_key(self, completion: CompletionModel, *, is_recovered: bool = False) -> None:
        """Let a repetition run: as a request of its own, or as another run of one whose process died."""
        if is_recovered or completion.state == "EXPIRED" or completion.earlier:
            return
        retries = completion.key.account.retries
        for name in [name for name, stored in retries.items() if stored.completion is completion]:
            del retries[name]

    def delete_expired_keys(self, accounts: list[AccountModel]) -> int:
        old = [(each, name) for each in accounts for name, stored in each.retries.items() if stored.until < self.now]
        for account, name in old:
            del account.retries[name]
        return len(old)
