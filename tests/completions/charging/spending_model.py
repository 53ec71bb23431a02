"""What must come of what accounts and their keys do, in integers and in the plainest words. It knows nothing of the code."""

import math
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta

ABANDONED_AFTER = timedelta(seconds=60)
HOLDS_LAST = timedelta(minutes=20)
KEPT_FOR = timedelta(hours=24)


@dataclass(eq=False)
class AccountModel:
    balance: int = 0
    entries: list[int] = field(default_factory=list)
    retries: dict[str, "Known"] = field(default_factory=dict)

    def book(self, nanos: int) -> None:
        self.balance += nanos
        self.entries.append(nanos)


@dataclass
class Known:
    """What an account asked for under an Idempotency-Key."""

    body: str
    completion: "CompletionModel"
    until: datetime
    reply: bytes | None = None


@dataclass(eq=False)
class KeyModel:
    account: AccountModel
    limit: int | None = None
    period: str | None = None

    def counts(self, day: date, today: date) -> bool:
        """Whether what a day spent counts today; or tomorrow, where the clock was set back over midnight."""
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
    relayed: int | None = None
    seen_at: datetime | None = None
    state: str = "HELD"
    settled: int | None = None

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

    # --- What there is ---

    def held(self, account: AccountModel) -> int:
        return sum(each.held for each in self.completions if each.key.account is account and each.state == "HELD")

    def window(self, key: KeyModel) -> tuple[int, int]:
        """What the key spent and holds in the window that now is in."""
        counted = [each for each in self.completions if each.key is key and key.counts(each.day, self.now.date())]
        held = sum(each.held for each in counted if each.state == "HELD")
        return sum(each.settled or 0 for each in counted), held

    def days(self) -> dict[tuple[int, date], tuple[int, int]]:
        """What each key, by its identity, spent and holds of each day; days of nothing are left out."""
        found: defaultdict[tuple[int, date], tuple[int, int]] = defaultdict(lambda: (0, 0))
        for each in self.completions:
            spent, held = found[id(each.key), each.day]
            found[id(each.key), each.day] = spent + (each.settled or 0), held + (each.held if each.state == "HELD" else 0)
        return {place: sums for place, sums in found.items() if sums != (0, 0)}

    def left(self, key: KeyModel, *, is_held_too: bool) -> int:
        """What the key may still hold; or could, if what is held were to cost nothing."""
        spent, held = self.window(key)
        free, of_limit = key.account.balance - self.held(key.account), (key.limit or 0) - spent - held
        if is_held_too:
            free, of_limit = key.account.balance, of_limit + held
        return free if key.limit is None else min(free, of_limit)

    # --- Who comes ---

    def known(self, key: KeyModel, retry: str | None) -> Known | None:
        known = key.account.retries.get(retry or "")
        return known if known and known.until > self.now else None

    def refusal(self, key: KeyModel, need: int, retry: str | None, body: str) -> str | None:
        """By the name of the error; None lets it in, or repeats the reply that is known."""
        if known := self.known(key, retry):
            if known.body != body:
                return "InvalidRequest"
            return "RequestInProgress" if known.reply is None else None
        spent, held = self.window(key)
        if key.limit is not None and need > key.limit - spent - held:
            return "SpendingLimitReached" if need > key.limit - spent else "TiedUp"
        if need > key.account.balance - self.held(key.account):
            return "InsufficientQuota" if need > key.account.balance else "TiedUp"
        return None

    def let_in(self, key: KeyModel, need: int, retry: str | None, body: str) -> CompletionModel:
        completion = CompletionModel(key, need, self.now, retry)
        self.completions.append(completion)
        if retry:
            key.account.retries[retry] = Known(body, completion, self.now + KEPT_FOR)
        return completion

    # --- Who goes ---

    def settle(self, completion: CompletionModel, cost: int, reply: bytes | None) -> int | None:
        """What is charged; None when it had ended before."""
        if completion.state != "HELD":
            return None
        completion.state, completion.settled = "SETTLED", min(cost, completion.held)
        completion.key.account.book(-completion.settled)
        if reply is None:
            self._forget(completion)
        else:
            for known in completion.key.account.retries.values():
                known.reply = reply if known.completion is completion else known.reply
        return completion.settled

    def give_back(self, completion: CompletionModel, state: str) -> int | None:
        if completion.state != "HELD":
            return None
        completion.state = state
        self._forget(completion)
        return 0

    def recover(self, completion: CompletionModel, prompt: int, relayed: int) -> int | None:
        """Four bytes are a token."""
        return self.settle(completion, prompt + math.ceil(relayed / 4), None)

    def _forget(self, completion: CompletionModel) -> None:
        retries = completion.key.account.retries
        for name in [name for name, known in retries.items() if known.completion is completion]:
            del retries[name]

    def forget_old_retries(self, accounts: list[AccountModel]) -> int:
        old = [(each, name) for each in accounts for name, known in each.retries.items() if known.until < self.now]
        for account, name in old:
            del account.retries[name]
        return len(old)
