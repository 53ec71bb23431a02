"""A state machine that admits, settles and changes limits in any order, at any time; ``spending_model`` predicts the results.

It calls what the gateway calls: admission, settlement, the sweeper, checkpoints, the lifecycle of keys and the ledger.
"""

import contextlib
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import transaction
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from msgspec.structs import replace

from billing.models import Account, AccountAlert, Hold, LedgerEntry
from completions import tasks
from completions.catalog import lookup
from completions.charging import admission, batch
from completions.charging.admission import Admitted
from completions.charging.idempotency import IdempotencyKey, Replay, StoredRequest
from completions.charging.recovery import checkpoints
from completions.models import Completion, IdempotentRequest
from completions.pricing.usage import Usage
from completions.request import schema
from gateway_project import errors, identifiers
from gateway_project.db import pipelined_transaction
from gateway_project.text import timestamps
from keys import lifecycle
from keys.authentication import Caller
from keys.limits import refusal_cache, spending
from keys.limits.spending import SpendingWindow
from keys.models import SpendingDay
from keys.spending_limit import SpendingLimit
from tests import cells, factories, state_machines, stepped_clock, usage
from tests.completions import settlements
from tests.completions.charging.spending_model import AccountModel, CompletionModel, KeyModel, Model
from tests.ledger_audit import assert_ledger_is_consistent

CENT = 10_000_000
NEED_MIN = 3  # nanodollars, at one per token: two tokens of prompt, and one that may be generated
PROMPT_TOKENS = 2  # the estimate for the word below
FIELDS = {"model": "demo/echo", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 1}
REPLY = b'{"id": "chatcmpl-1"}'

# Shortly before the ends of days, weeks, months, a leap February and a year, in a future after the start of every price.
STARTS = [
    datetime(2042, 12, 29, 23, 59, tzinfo=UTC),
    datetime(2044, 2, 27, 12, tzinfo=UTC),
    datetime(2042, 6, 30, 22, tzinfo=UTC),
]
EDGES = ["midnight", "Monday", "the first"]

which_key = st.integers(0, 3)
which = st.integers(0, 7)  # counted from the last admission back
limits = st.one_of(
    st.none(), *[st.tuples(st.integers(0, 2), st.just(period)) for period in (None, "DAILY", "WEEKLY", "MONTHLY")]
)
retries = st.sampled_from([None, "a", "b"])
bodies = st.sampled_from(["one", "another"])
endings = st.sampled_from(["settle", "settle", "settle", "break off", "release", "expire", "recover"])
# Share 0: this many nanodollars. Else a share of what may be held, with or without open holds, plus or minus a nanodollar.
sizes = st.one_of(
    st.tuples(st.just(0), st.booleans(), st.integers(NEED_MIN, CENT)),
    st.tuples(st.integers(1, 3), st.booleans(), st.integers(-1, 1)),
)
all_or_more = st.tuples(st.just(1), st.booleans(), st.integers(0, 1))
# Quarters of the held amount, and nanodollars to add.
costs = st.tuples(st.integers(0, 4), st.integers(-1, 1))

Size = tuple[int, bool, int]
Cost = tuple[int, int]


def run_batch(operations: list[batch.Operation], *, is_rerun: bool) -> list[Any]:
    """Return the outcomes of the operations, whether they are on disk already or not."""
    outcomes = batch._committers[cells.NUMBER]._run_batch(operations, is_rerun)
    return [each.outcome if isinstance(each, batch._NotOnDisk) else each for each in outcomes]


class BatchStateMachine(state_machines.StateMachine):
    """Two accounts, each with two keys."""

    def __init__(self) -> None:
        super().__init__()
        factories.make_model("demo/echo", input="0.001", output="0.001", context_window=10**9, max_output_tokens=10**9)
        self.offer = lookup.find_offer("demo/echo")
        self.accounts = [factories.make_account(name) for name in ("one", "two")]
        self.keys = [factories.make_key(account)[0] for account in self.accounts for _ in range(2)]
        self.account_models = [AccountModel(), AccountModel()]
        self.key_models = [KeyModel(self.account_models[place // 2]) for place in range(4)]
        self.admitted: list[tuple[Admitted, CompletionModel]] = []
        self.model = Model(STARTS[0])
        stepped_clock.step(STARTS[0])

    @initialize(start=st.sampled_from(STARTS), cents=st.integers(1, 6), given=st.tuples(limits, limits, limits, limits))
    def begin(self, start: datetime, cents: int, given: Any) -> None:
        self.set_clock(start)
        for place, of_key in enumerate(given):
            self.limit(place, of_key)
        for account in range(2):
            self.set_threshold(account, 2)
            self.buy(account, cents)

    # --- Time ---

    def set_clock(self, now: datetime) -> None:
        self.model.now = now
        stepped_clock.step(now)

    # Not backwards: the audit takes admissions in the order of the database's clock. test_gcra.py has steps back.
    @rule(seconds=st.sampled_from([1, 30, 61, 3_600, 23 * 3_600]))
    def let_time_pass(self, seconds: int) -> None:
        self.set_clock(self.model.now + timedelta(seconds=seconds))

    @rule(edge=st.sampled_from(EDGES), microseconds=st.integers(-1, 1))
    def go_to_the_edge(self, edge: str, microseconds: int) -> None:
        """Set the clock to the start of a new window, or to a microsecond before or after."""
        days = (self.model.now.date() + timedelta(days=days) for days in range(1, 33))
        begins = {"midnight": lambda day: True, "Monday": lambda day: day.weekday() == 0, "the first": lambda day: day.day == 1}
        first = next(day for day in days if begins[edge](day))
        self.set_clock(datetime.combine(first, time.min, UTC) + timedelta(microseconds=microseconds))

    # --- Money and limits ---

    @rule(account=st.integers(0, 1), cents=st.integers(1, 3))
    def buy(self, account: int, cents: int) -> None:
        payment = identifiers.short_uuid7()
        for _ in range(2):
            usage.buy(self.accounts[account], cents, payment)
        self.account_models[account].add_entry(cents * CENT)

    @rule(account=st.integers(0, 1), cents=st.integers(1, 3))
    def refund(self, account: int, cents: int) -> None:
        usage.refund(self.accounts[account], cents, identifiers.short_uuid7())
        self.account_models[account].add_entry(-cents * CENT)

    @rule(key=which_key, given=limits)
    def limit(self, key: int, given: tuple[int, str | None] | None) -> None:
        cents, period = given or (None, None)
        type = None if cents is None else "RECURRING" if period else "FIXED"
        lifecycle.set_spending_limit(self.keys[key], SpendingLimit(cents, type, period))
        self.key_models[key].limit = None if cents is None else cents * CENT
        self.key_models[key].period = period

    @rule(account=st.integers(0, 1), cents=st.sampled_from([None, 1, 2, 4]))
    def set_threshold(self, account: int, cents: int | None) -> None:
        Account.objects.filter(pk=self.accounts[account].pk).update(warning_threshold_cents=cents)
        self.account_models[account].threshold = None if cents is None else cents * CENT

    # --- Admissions ---

    def need(self, key: int, size: Size) -> int:
        share, ignores_holds, more = size
        there_is = self.model.left(self.key_models[key], ignores_holds=ignores_holds) // share if share else 0
        return max(there_is + more, NEED_MIN)

    def admission_call(self, key: int, need: int, retry: str | None, body: str) -> Callable[[], Any]:
        request = replace(schema.parse(FIELDS), prompt_tokens_max=need - 1)
        caller = Caller(key_id=self.keys[key].pk, account_id=self.keys[key].account_id)
        idempotency_key = IdempotencyKey(retry, body) if retry else None
        return lambda: admission.admit(admission.prepare(request, [self.offer], caller, idempotency_key))

    @rule(key=which_key, size=sizes, retry=retries, body=bodies)
    def ask(self, key: int, size: Size, retry: str | None, body: str) -> None:
        need = self.need(key, size)
        self.check_admission(key, need, retry, body, outcome_of(self.admission_call(key, need, retry, body)))

    @precondition(lambda self: self.admitted)
    @rule(place=which, neighbour=st.integers(0, 1), body=bodies)
    def ask_again(self, place: int, neighbour: int, body: str) -> None:
        """Send a request with a used Idempotency-Key, with the same body or another one, with either API key of the account."""
        self.repeat(self.admitted_at(place)[1], neighbour, body)

    @precondition(lambda self: self.admitted)
    @rule(place=which, neighbour=st.integers(0, 1), cost=costs)
    def die_and_ask_again(self, place: int, neighbour: int, cost: Cost) -> None:
        """Recover a request and send it again, with either API key of the account."""
        self.end(place, "recover", cost, 1)
        self.repeat(self.admitted_at(place)[1], neighbour, "one")

    def repeat(self, completion: CompletionModel, neighbour: int, body: str) -> None:
        key = self.key_models.index(completion.key) // 2 * 2 + neighbour
        retry = completion.retry or "a"
        need = max(completion.held + completion.before, NEED_MIN)
        self.check_admission(key, need, retry, body, outcome_of(self.admission_call(key, need, retry, body)))

    @rule(key=which_key, microseconds=st.integers(-1, 1), size=sizes)
    def ask_at_the_edge(self, key: int, microseconds: int, size: Size) -> None:
        """Send a request when the key's window ends, or a microsecond before or after."""
        self.go_to_its_edge(self.key_models[key], microseconds)
        self.ask(key, size, None, "one")

    def go_to_its_edge(self, key: KeyModel, microseconds: int) -> None:
        self.go_to_the_edge({"WEEKLY": "Monday", "MONTHLY": "the first"}.get(key.period or "", "midnight"), microseconds)

    def check_admission(self, key: int, need: int, retry: str | None, body: str, outcome: Any) -> None:
        """Assert that the outcome is what the model predicts."""
        of_key = self.key_models[key]
        if refusal := self.model.refusal(of_key, need, retry, body):
            assert type(outcome).__name__ == refusal, f"{refusal} was expected, not {outcome!r}"
            if refusal == "SpendingLimitReached":
                self.check_reset(of_key, outcome)
        elif (stored := self.model.stored(of_key, retry)) and stored.reply is not None:
            assert outcome == Replay(stored.reply, is_stream=False)
        else:
            assert isinstance(outcome, Admitted), f"it should be admitted: {outcome!r}"
            assert (outcome.held_nanos, outcome.completion.created_at) == (self.model.due(of_key, need, retry), self.model.now)
            self.admitted.append((outcome, self.model.admit(of_key, need, retry, body)))

    def check_reset(self, key: KeyModel, refusal: errors.SpendingLimitReached) -> None:
        resets_at = key.resets_at(self.model.now)
        assert (refusal.details or {}).get("resets_at") == (resets_at and timestamps.iso_millis(resets_at))

    # --- Settlements ---

    def admitted_at(self, place: int) -> tuple[Admitted, CompletionModel]:
        return self.admitted[-1 - place % len(self.admitted)]

    def ending_call(self, place: int, ending: str, cost: int) -> Callable[[], Any]:
        admitted, _ = self.admitted_at(place)
        row = Completion.objects.select_related("price").get(pk=admitted.completion.id)
        tokens = Usage(cost // 2, cost - cost // 2)
        calls: dict[str, Callable[[], Any]] = {
            "settle": lambda: settlements.settle(admitted, tokens, Completion.Settlement.REPORTED, reply=REPLY),
            "break off": lambda: settlements.settle(admitted, tokens, Completion.Settlement.ESTIMATED),
            "release": lambda: settlements.release(admitted),
            "expire": lambda: settlements.expire(row),
            "recover": lambda: settlements.recover(row, cost),
        }
        return calls[ending]

    def model_ending(self, place: int, ending: str, cost: int) -> int | None:
        """End the completion in the model. Return what is charged; None when it had ended before."""
        completion = self.admitted_at(place)[1]
        match ending:
            case "settle":
                return self.model.settle(completion, cost, REPLY)
            case "break off":
                return self.model.settle(completion, cost, None)
            case "recover" if cost:  # of which nothing was relayed expires
                return self.model.recover(completion, PROMPT_TOKENS, cost)
        return self.model.free(completion, "RELEASED" if ending == "release" else "EXPIRED")

    def cost(self, place: int, cost: Cost) -> int:
        completion = self.admitted_at(place)[1]
        return max((completion.held + completion.before) * cost[0] // 4 + cost[1], 0)

    @precondition(lambda self: self.admitted)
    @rule(place=which, ending=endings, cost=costs, times=st.integers(1, 2))
    def end(self, place: int, ending: str, cost: Cost, times: int) -> None:
        """End the completion, or end it a second time, which changes nothing. ``test_corrections`` ends what was swept."""
        completion = self.admitted_at(place)[1]
        if (completion.is_recovered or completion.state == "EXPIRED") and ending in ("settle", "break off", "release"):
            return
        for _ in range(times):
            outcome = self.ending_call(place, ending, self.cost(place, cost))()
            charged = self.model_ending(place, ending, self.cost(place, cost))
            assert outcome == (charged if ending in ("settle", "break off") else charged is not None)

    @precondition(lambda self: self.admitted)
    @rule(place=which, relayed=st.one_of(st.none(), st.integers(0, CENT)))
    def write_checkpoint(self, place: int, relayed: int | None) -> None:
        """Write a checkpoint, as every process does every few seconds for what it runs."""
        admitted, completion = self.admitted_at(place)
        with checkpoints.track(admitted.completion) as checkpoint:
            checkpoint.relayed_bytes = relayed
            checkpoint.served = SimpleNamespace(served_by=settlements.served_by(admitted))
            checkpoints.write()
        if completion.state == "HELD":
            completion.relayed, completion.seen_at = relayed, self.model.now

    @rule()
    def sweep(self) -> None:
        abandoned = [each for each in self.model.completions if each.is_abandoned(self.model.now)]
        assert tasks.release_expired_holds() == len(abandoned)
        for each in abandoned:
            if not each.relayed:  # no text reached the caller
                self.model.free(each, "EXPIRED")
            else:
                self.model.recover(each, PROMPT_TOKENS, each.relayed)

    @rule()
    def delete_expired_keys(self) -> None:
        assert tasks.forget_idempotent_requests() == self.model.delete_expired_keys(self.account_models)

    # --- Batches ---

    @rule(
        settling=st.lists(st.tuples(which, endings, costs), max_size=2),
        admitting=st.lists(st.tuples(which_key, sizes, retries, bodies), max_size=3),
        is_lost=st.booleans(),
    )
    def share_a_batch(self, settling: list[Any], admitting: list[Any], is_lost: bool) -> None:
        """Settlements are applied before admissions, in any order of arrival. After a lost answer a rerun changes nothing."""
        endings = [(place, ending, self.cost(place, cost)) for place, ending, cost in settling if self.admitted]
        # A retry in the batch that settles its request conflicts, though its reply is stored a moment later: so none here.
        admissions = [(key, self.need(key, size), None if endings else retry, body) for key, size, retry, body in admitting]
        operations = [operation_of(self.admission_call(*each)) for each in admissions]
        operations += [operation_of(self.ending_call(*each)) for each in endings]
        outcomes = run_batch(operations, is_rerun=False) if operations else []
        charged = [self.model_ending(*each) for each in endings]
        assert outcomes[len(admissions) :] == charged
        for each, outcome in zip(admissions, outcomes, strict=False):
            self.check_admission(*each, outcome.open() if isinstance(outcome, StoredRequest) else outcome)
        if is_lost and operations:
            self.rerun(operations, outcomes, len(admissions))

    @precondition(lambda self: self.admitted)
    @rule(place=which, ending=endings, cost=costs, size=all_or_more, is_later=st.booleans())
    def settle_and_ask(self, place: int, ending: str, cost: Cost, size: Size, is_later: bool) -> None:
        """Settle while the same key sends a request, perhaps in the next window, in which the freed money does not count."""
        key = self.admitted_at(place)[1].key
        if is_later:
            self.go_to_its_edge(key, 0)
        self.share_a_batch([(place, ending, cost)], [(self.key_models.index(key), size, None, "one")], False)

    def rerun(self, operations: list[Any], outcomes: list[Any], admission_count: int) -> None:
        again = run_batch(operations, is_rerun=True)
        assert again[admission_count:] == [None] * len(again[admission_count:])
        for first, second in zip(outcomes[:admission_count], again, strict=False):
            if isinstance(first, Admitted):
                assert (second.completion, second.held_nanos) == (first.completion, first.held_nanos)

    # --- Invariants ---

    @invariant()
    def check_everything(self) -> None:
        self.check_rows()
        self.check_windows()
        self.check_idempotency_keys()
        self.check_runs()
        self.check_warnings()

    def check_rows(self) -> None:
        usage.check_deferred()
        refusal_cache.process_cache.clear()  # time does not pass between two steps, so it would not expire
        rows = Account.objects.order_by("pk").values_list("balance_nanos", "held_nanos", "open_holds")
        assert list(rows) == [(each.balance, self.model.held(each), self.model.running(each)) for each in self.account_models]
        entries = LedgerEntry.objects.order_by("account_id", "amount_nanos").values_list("amount_nanos", flat=True)
        # The sweeper may resolve in any order, so the entries are sorted; the audit checks that they chain.
        assert list(entries) == [nanos for model in self.account_models for nanos in sorted(model.entries)]
        holds = {pk: rest for pk, *rest in Hold.objects.values_list("pk", "state", "amount_nanos", "settled_nanos")}
        assert holds == {admitted.completion.id: [each.state, each.held, each.settled] for admitted, each in self.admitted}

    def check_windows(self) -> None:
        """Compare the spending windows as the next batch would read them."""
        of_row = {key.pk: id(model) for key, model in zip(self.keys, self.key_models, strict=True)}
        days = SpendingDay.objects.values_list("key_id", "day", "spent_nanos", "held_nanos", "open_holds")
        there_are = {(of_row[key_id], day): tuple(sums) for key_id, day, *sums in days if any(sums)}
        assert there_are == self.model.days()
        sums = pipelined_transaction.execute(spending.select_spending_statement(list(of_row)))
        running = {of_row[key_id]: number for key_id, number in spending.build_open_holds(sums).items()}
        assert running == {id(key): self.model.running_lately(key) for key in self.key_models}
        windows = spending.build_windows(self.keys, sums)
        for key, model in zip(self.keys, self.key_models, strict=True):
            self.check_window(windows[key.pk], model)

    def check_window(self, window: SpendingWindow | None, model: KeyModel) -> None:
        assert (window is None) == (model.limit is None)
        if window:
            assert (window.limit_nanos, window.spent_nanos, window.held_nanos) == (model.limit, *self.model.window(model))
            assert window.resets_at == model.resets_at(self.model.now)

    def check_idempotency_keys(self) -> None:
        ids = {id(completion): admitted.completion.id for admitted, completion in self.admitted}
        rows = IdempotentRequest.objects.values_list("account_id", "key", "completion_id", "sealed_reply")
        assert {(account, key): (completion, bool(sealed)) for account, key, completion, sealed in rows} == {
            (account.pk, name): (ids[id(stored.completion)], stored.reply is not None)
            for account, model in zip(self.accounts, self.account_models, strict=True)
            for name, stored in model.retries.items()
        }

    def check_warnings(self) -> None:
        """Each crossing of a threshold, and each mark of a limit that was passed, is one warning."""
        kinds = AccountAlert.Kind
        low = Counter(AccountAlert.objects.filter(kind=kinds.BALANCE_LOW).values_list("account_id", flat=True))
        assert [low[account.pk] for account in self.accounts] == [model.crossings for model in self.account_models]
        of_keys = AccountAlert.objects.filter(kind__in=(kinds.KEY_NEAR_LIMIT, kinds.KEY_AT_LIMIT))
        passed = [(each.data["key_id"], each.data["percent"]) for each in of_keys]
        keys = zip(self.keys, self.key_models, strict=True)
        assert sorted(passed) == sorted((key.pk, percent) for key, model in keys for percent in model.passed)

    def check_runs(self) -> None:
        """All runs under an Idempotency-Key, of which processes died, cost together what the dearest of them costs."""
        charged = dict(Completion.objects.values_list("pk", "cost_nanos"))
        ids = {id(completion): admitted.completion.id for admitted, completion in self.admitted}
        for _, completion in self.admitted:
            runs = [charged[ids[id(each)]] or 0 for each in completion.runs]
            assert sum(runs) == max(each.cost for each in completion.runs)

    def finish(self) -> None:
        self.sweep()
        self.check_everything()
        for key, model in zip(self.keys, self.key_models, strict=True):
            self.check_window(spending.read_window(key), model)  # as the owner of the key sees it
        assert_ledger_is_consistent()


def outcome_of(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except errors.ApiError as refusal:
        return refusal


class _Caught(BaseException):
    pass


def operation_of(call: Callable[[], Any]) -> Any:
    """Return the operation that the call would commit."""
    sent: list[Any] = []

    def catch(operation: Any) -> None:
        sent.append(operation)
        raise _Caught

    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(_Caught):
        patch.setattr(batch, "commit", catch)
        call()
    return sent[0]


@pytest.mark.one_cell
def test_batches_do_what_the_model_says(db):
    with transaction.atomic():
        stepped_clock.make()
        state_machines.run(BatchStateMachine, runs=10, steps=40)
