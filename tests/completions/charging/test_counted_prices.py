"""Limits and budgets count the price of an own key's provider, where the owner chose that; the account is charged the fee."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, OperationalError, connection, transaction
from django.db.models import Sum

from billing.ledger import audit
from billing.models import Account
from completions.catalog import lookup
from completions.charging.batch import AdmissionLost
from completions.charging.recovery import drains, outbox, record, sweeper
from completions.charging.recovery.drains import Outcome
from completions.charging.resolution import Resolution
from completions.models import Completion, OwnKey, Provider
from completions.relay import charge
from gateway_project.db.pipelined_transaction import PipelinedTransaction
from keys.budgets import monthly
from keys.models import BudgetMonth, Run, SpendingDay
from tests import factories
from tests.billing import guards
from tests.cases import undone
from tests.chat import assert_error, everything_written
from tests.completions.charging.recovery.outbox_files import forget
from tests.completions.own_key_rows import THEIRS, add_own_key
from tests.completions.rows import abandon, ask, ask_streamed, begin, events, text
from tests.conftest import client_for
from tests.ledger_audit import assert_ledger_is_consistent
from tests.pages import dashboard_pages
from tests.pages.conftest import owner_of, signed_in
from tests.upstream import KEY_ENV, refusal, streamed, whole

pytestmark = pytest.mark.usefixtures("large")

PRICE = 9 * 3_000 + 2 * 15_000  # of the reply of the scripted provider
FEE = -(-PRICE * 5 // 100)
CENT = 10_000_000
RUN = {"x-gateway-run": "nightly", "x-gateway-run-budget": "1"}
MORE_THAN_ASKED = {"prompt_tokens": 9, "completion_tokens": 400, "total_tokens": 409}


@pytest.fixture
def own(alice):
    return add_own_key(alice, counts_price=True)


@pytest.fixture
def limited(alice):
    """A client whose key may spend five cents."""
    return client_for(factories.make_key(alice, limit_cents=5, type="FIXED")[1])


def done():
    return Completion.objects.get()


def prompt_nanos(api):
    """Return what is held for the prompt alone, as ours would serve it."""
    assert ask(api, max_tokens=1).status_code == 200
    [completion] = Completion.objects.all()
    return completion.held_nanos - 15_000


def day_sums():
    names = ("spent_nanos", "provider_spent_nanos", "held_nanos", "provider_held_nanos")
    return tuple(SpendingDay.objects.aggregate(*map(Sum, names)).values())


def post(api, run=None, **fields: Any) -> Any:
    body = {"model": "acme/large", "messages": [{"role": "user", "content": "Say hello, please."}], **fields}
    return api.post("/v1/chat/completions", body, headers=RUN if run is None else run)


@pytest.mark.parametrize("stream", [False, True])
def test_the_account_is_charged_the_fee_and_the_limit_counts_the_price_beside(alice, own, limited, upstream, stream):
    if stream:
        upstream.will(streamed())
        assert text(events(ask_streamed(limited))) == "Hello you"
    else:
        assert ask(limited).status_code == 200
    ended = done()
    assert (ended.cost_nanos, ended.provider_nanos, ended.counts_price, ended.own_key_fee) == (FEE, PRICE, True, 500)
    alice.refresh_from_db()
    assert (alice.balance_nanos, alice.held_nanos) == (1_000 * CENT - FEE, 0)
    assert day_sums() == (FEE, PRICE, 0, 0)
    told = limited.get("/v1/key").json()["data"]
    assert (told["usage"], told["byok_usage"], told["include_byok_in_limit"]) == (FEE / 1e9, PRICE / 1e9, True)
    assert told["limit_remaining"] == pytest.approx(told["limit"] - told["usage"] - told["byok_usage"])
    limit = limited.get("/v1/usage").json()["limit"]
    assert (limit["spentInDollars"], limit["heldInDollars"]) == (f"{(FEE + PRICE) / 1e9:.9f}".rstrip("0"), "0.00")
    assert_ledger_is_consistent()


def test_the_choice_off_counts_the_fee_and_tells_the_price(alice, limited, upstream):
    add_own_key(alice)
    assert ask(limited).status_code == 200
    ended = done()
    assert (ended.cost_nanos, ended.provider_nanos, ended.provider_held_nanos, ended.counts_price) == (FEE, PRICE, 0, False)
    assert day_sums() == (FEE, 0, 0, 0)
    described = limited.get(f"/v1/completions/{ended.pk}").json()["usage"]
    assert (described["cost"], described["cost_details"]) == (FEE / 1e9, {"upstream_inference_cost": PRICE / 1e9})
    generation = limited.get(f"/v1/generation?id={ended.pk}").json()["data"]
    assert (generation["is_byok"], generation["upstream_inference_cost"]) == (True, PRICE / 1e9)
    assert_ledger_is_consistent()


def test_what_ours_serves_has_no_price_of_a_provider(limited, upstream):
    assert ask(limited).status_code == 200
    ended = done()
    assert (ended.provider_nanos, ended.provider_held_nanos, ended.counts_price) == (None, 0, None)
    assert limited.get(f"/v1/completions/{ended.pk}").json()["usage"]["cost_details"] == {"upstream_inference_cost": None}
    generation = limited.get(f"/v1/generation?id={ended.pk}").json()["data"]
    assert (generation["is_byok"], generation["upstream_inference_cost"]) == (False, None)


def test_a_limit_is_refused_by_fee_and_price_to_the_token_and_a_change_holds_from_the_next_request_on(
    api, alice, limited, upstream
):
    of_prompt = prompt_nanos(api)
    most = (5 * CENT * 100 // 105 - of_prompt) // 15_000
    add_own_key(alice, counts_price=True)
    before = everything_written()
    refused = ask(limited, max_tokens=most + 1)
    error = assert_error(refused, 402, "insufficient_quota")
    assert (error["limit_source"], f"max_tokens up to {most}." in error["message"]) == ("key", True)
    assert everything_written() == before
    OwnKey.objects.update(counts_price=False)
    assert ask(limited, max_tokens=most + 1).status_code == 200
    OwnKey.objects.update(counts_price=True)
    assert ask(limited, max_tokens=most + 1).status_code == 402
    assert ask(limited, max_tokens=most - 1).status_code == 200
    held, provider_held = Completion.objects.filter(counts_price=True).values_list("held_nanos", "provider_held_nanos").get()
    whole = of_prompt + (most - 1) * 15_000
    assert (held, held + provider_held) == (-(-whole * 5 // 100), -(-whole * 105 // 100))
    assert_ledger_is_consistent()


@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("run", [{}, {"x-gateway-run": "small", "x-gateway-run-budget": "0.03"}], ids=["limit", "run"])
def test_a_quote_tells_the_tokens_that_limits_and_budgets_pay_for(alice, limited, counts, run):
    add_own_key(alice, counts_price=counts)
    body = {"model": "acme/large", "messages": [{"role": "user", "content": "Say hello, please."}], "max_tokens": 4_096}
    quoted = limited.post("/v1/quote", body, headers=run).json()
    most = quoted["affordable_max_tokens"]
    if counts:
        assert f"max_tokens up to {most}." in quoted["refusal"]["message"]
        assert post(limited, run, max_tokens=most + 1).status_code == 402
    else:
        assert (most, quoted["refusal"]) == (4_096, None)
    assert post(limited, run, max_tokens=most).status_code == 200


def test_the_account_must_have_the_fee_alone(api, alice, upstream):
    whole = prompt_nanos(api) + 4_000 * 15_000
    poor = factories.make_account("Poor", cents=1)
    add_own_key(poor, counts_price=True)
    client = client_for(factories.make_key(poor)[1])
    assert whole > CENT > whole * 5 // 100
    assert ask(client, max_tokens=4_000).status_code == 200
    Account.objects.filter(pk=poor.pk).update(held_nanos=9_000_000)
    error = assert_error(ask(client, max_tokens=4_000), 429, "rate_limit_exceeded")
    assert "Your credits are enough, but running requests hold them" in error["message"]


def test_without_max_tokens_what_is_generated_fits_what_limits_and_the_account_pay(alice, own, upstream):
    limited = client_for(factories.make_key(alice, limit_cents=40, type="FIXED")[1])
    assert ask(limited).status_code == 200
    ended = done()
    held_nanos = ended.held_nanos + ended.provider_held_nanos
    assert held_nanos <= 40 * CENT // 8 < held_nanos + 16_000  # the eighth of the limit, of which a token takes 15,750
    poor = factories.make_account("Poor", cents=1)
    add_own_key(poor, counts_price=True)
    assert ask(client_for(factories.make_key(poor, limit_cents=10_000, type="FIXED")[1])).status_code == 200
    of_poor = Completion.objects.get(account=poor)
    assert of_poor.held_nanos <= CENT // 8 < of_poor.held_nanos + 1_000
    assert_ledger_is_consistent()


def test_a_fallback_with_ours_counts_what_is_charged(alice, limited, upstream):
    add_own_key(alice, counts_price=True, falls_back=True)
    upstream.will_for(THEIRS, refusal(401))
    assert ask(limited, max_tokens=100)["x-gateway-own-key"] == "fallback"
    ended = done()
    assert (ended.cost_nanos, ended.provider_nanos, ended.counts_price) == (PRICE, None, None)
    assert ended.held_nanos + ended.provider_held_nanos == -(-ended.held_nanos * 105 // 100)
    assert day_sums() == (PRICE, 0, 0, 0)
    assert_ledger_is_consistent()


@pytest.mark.parametrize(("tokens", "asked"), [(1_000, ["scripted"]), (100, ["scripted", "other"])])
def test_a_fallback_is_admitted_only_where_the_limit_pays_for_its_price(alice, limited, upstream, spare, tokens, asked):
    """Of the dearer model 1,000 tokens count as 31 cents, and cost the account 1.5."""
    other = factories.make_provider("other", kind="openai", base_url=spare.url, api_key_env=KEY_ENV)
    factories.make_model("acme/dear", provider=other, output="300")
    add_own_key(alice, counts_price=True, falls_back=True, model_ids=["acme/large"])
    add_own_key(alice, provider="other", counts_price=True)
    upstream.will(refusal(500))
    reply = ask(limited, models=["acme/large", "acme/dear"], max_tokens=tokens)
    assert reply.status_code == (200 if len(asked) > 1 else 502)
    ended = done()
    assert [*{each["provider"] for each in ended.failed_attempts}, *{ended.provider_id}][-len(asked) :] == asked
    assert len(spare.requests) == len(asked) - 1
    assert ended.held_nanos + ended.provider_held_nanos <= 5 * CENT
    assert ended.provider_nanos == (9 * 500 + 2 * 300_000 if len(asked) > 1 else None)
    assert_ledger_is_consistent()


def test_runs_and_months_count_the_price_and_their_figures_add_up(api, alice, own, upstream):
    monthly.set_budget(alice, amount_cents=100, action="STOP")
    reply = post(api)
    run, month = Run.objects.get(), BudgetMonth.objects.get()
    assert (run.spent_nanos, run.held_nanos, month.spent_nanos, month.held_nanos) == (FEE + PRICE, 0, FEE + PRICE, 0)
    assert float(reply["x-gateway-run-left"]) == pytest.approx(1 - (FEE + PRICE) / 1e9, abs=1e-12)
    described = api.get("/v1/runs/nightly").json()
    [model] = described["models"]
    assert described["spent"] == model["spent"]
    assert (float(model["spent"]), float(model["provider_spent"])) == ((FEE + PRICE) / 1e9, PRICE / 1e9)
    page = dashboard_pages.text(signed_in(owner_of(alice)).get(f"/dashboard/runs/{run.key_id}/nightly/"))
    assert "acme/large 1 11 $0.00005985 of it $0.00005700 to providers of your keys" in page
    assert_ledger_is_consistent()


@pytest.mark.parametrize("of_run", [True, False])
def test_a_budget_is_refused_by_fee_and_price(api, alice, upstream, of_run):
    most = (5 * CENT * 100 // 105 - prompt_nanos(api)) // 15_000
    add_own_key(alice, counts_price=True)
    run: dict[str, str] = {"x-gateway-run": "small", "x-gateway-run-budget": "0.05"} if of_run else {}
    if not of_run:
        monthly.set_budget(alice, amount_cents=5, action="STOP")
    error = assert_error(post(api, run, max_tokens=most + 1), 402, "budget_exceeded")
    assert (error["limit_source"], f"max_tokens up to {most}." in error["message"]) == ("run" if of_run else "budget", True)
    OwnKey.objects.update(counts_price=False)
    assert post(api, run, max_tokens=most + 1).status_code == 200
    OwnKey.objects.update(counts_price=True)
    assert post(api, run, max_tokens=most - 1).status_code == 200
    assert_ledger_is_consistent()


def test_a_process_that_dies_leaves_an_estimate_to_be_counted(api, alice, own, upstream):
    crash(api, upstream)
    assert sweep()
    recovered = done()
    estimate = recovered.price.sheet.cost_nanos(recovered.usage)
    assert (recovered.settlement, recovered.provider_nanos) == ("recovered", estimate)
    assert day_sums() == (-(-estimate * 5 // 100), estimate, 0, 0)
    assert Run.objects.get().spent_nanos == -(-estimate * 105 // 100)
    assert_ledger_is_consistent()


def crash(api, upstream):
    """Stream with a run to the middle, and die without a settlement."""
    upstream.will(streamed())
    reply = post(api, stream=True)
    begin(reply, "Hello you")
    abandon(reply)


def sweep(relayed_bytes=9):
    Completion.objects.update(relayed_bytes=relayed_bytes)
    return sweeper.resolve(done())


def late_resolution(api, upstream, monkeypatch, run=None, **fields: Any):
    """Ask, and keep the settlement instead of committing it."""
    kept: list[Resolution] = []
    with monkeypatch.context() as patch:
        patch.setattr(charge, "commit_or_store", kept.append)
        assert post(api, run, **fields).status_code == 200
    return kept[0]


@pytest.mark.parametrize("relayed_bytes", [0, 4, 4_000], ids=["expired", "too low", "too high"])
def test_a_late_settlement_counts_what_is_missing_and_takes_nothing_back(
    api, alice, own, upstream, monkeypatch, settings, tmp_path, relayed_bytes
):
    settings.OUTBOX_DIR = tmp_path / "outbox"
    late = late_resolution(api, upstream, monkeypatch)
    outbox.store(late, IntegrityError("lost"))
    assert sweep(relayed_bytes)
    estimated_nanos = done().provider_nanos or 0
    assert drains.drain() == {Outcome.RESOLVED: 1}
    counted_nanos = max(estimated_nanos, PRICE)
    assert day_sums() == (FEE, counted_nanos, 0, 0)
    run = Run.objects.get()
    assert (run.spent_nanos, run.held_nanos) == (FEE + counted_nanos, 0)
    told = api.get(f"/v1/runs/{run.name}").json()
    [model] = told["models"]
    assert (model["spent"], model["requests"]) == (told["spent"], 1)
    correction = Completion.objects.get(settlement="corrected")
    assert correction.provider_nanos == counted_nanos - estimated_nanos
    assert_ledger_is_consistent()


def test_a_correction_counts_no_more_than_its_run_has_left(api, own, upstream, monkeypatch, settings, tmp_path):
    settings.OUTBOX_DIR = tmp_path / "outbox"
    outbox.store(late_resolution(api, upstream, monkeypatch), IntegrityError("lost"))
    assert sweep(0)
    left_nanos = FEE + 1_000
    Run.objects.update(budget_nanos=left_nanos)
    Completion.objects.update(run_budget_nanos=left_nanos)
    assert drains.drain() == {Outcome.RESOLVED: 1}
    run, correction = Run.objects.get(), Completion.objects.get(settlement="corrected")
    assert (run.spent_nanos, run.held_nanos) == (left_nanos, 0)
    assert (correction.cost_nanos, correction.provider_nanos, day_sums()) == (FEE, 1_000, (FEE, 1_000, 0, 0))
    assert_ledger_is_consistent()


@pytest.mark.parametrize("relayed_bytes", [0, 40], ids=["expired", "too low"])
def test_a_correction_counts_no_more_than_was_held(
    alice, own, limited, upstream, monkeypatch, settings, tmp_path, relayed_bytes
):
    settings.OUTBOX_DIR = tmp_path / "outbox"
    monthly.set_budget(alice, amount_cents=5, action="STOP")
    upstream.will(whole(usage=MORE_THAN_ASKED))
    outbox.store(late_resolution(limited, upstream, monkeypatch, {}, max_tokens=100), IntegrityError("lost"))
    first = done()
    held_nanos = first.held_nanos + first.provider_held_nanos
    assert sweep(relayed_bytes)
    assert drains.drain() == {Outcome.RESOLVED: 1}
    spent_nanos, provider_nanos, *held = day_sums()
    assert (spent_nanos + provider_nanos, held) == (held_nanos, [0, 0])
    assert BudgetMonth.objects.get().spent_nanos == held_nanos
    assert_ledger_is_consistent()


def test_of_a_price_above_its_hold_no_more_counts_than_was_held(api, own, upstream):
    """A provider that ignores max_tokens bills more than was held."""
    upstream.will(whole(usage=MORE_THAN_ASKED))
    run = {"x-gateway-run": "small", "x-gateway-run-budget": "0.002"}
    assert post(api, run, max_tokens=100).status_code == 200
    ended, run_row = done(), Run.objects.get()
    counted_nanos = ended.held_nanos + ended.provider_held_nanos
    assert ended.price.sheet.cost_nanos(ended.usage) > counted_nanos
    assert ended.cost_nanos + ended.provider_nanos == run_row.spent_nanos == counted_nanos <= run_row.budget_nanos
    assert_ledger_is_consistent()


def test_a_settlement_on_disk_counts_the_price(api, alice, own, upstream, monkeypatch, settings, tmp_path):
    settings.OUTBOX_DIR = tmp_path / "outbox"
    outbox.store(late_resolution(api, upstream, monkeypatch), IntegrityError("lost"))
    assert drains.drain() == {Outcome.RESOLVED: 1}
    ended = done()
    assert (ended.cost_nanos, ended.provider_nanos, ended.counts_price) == (FEE, PRICE, True)
    assert (day_sums(), Run.objects.get().spent_nanos) == ((FEE, PRICE, 0, 0), FEE + PRICE)
    assert_ledger_is_consistent()


@pytest.mark.parametrize("nanos", [-1, 1.5, "many", True])
def test_a_file_whose_price_is_no_whole_number_is_not_read(api, alice, own, upstream, monkeypatch, settings, tmp_path, nanos):
    settings.OUTBOX_DIR = tmp_path / "outbox"
    late = late_resolution(api, upstream, monkeypatch)
    outbox.store(late, IntegrityError("lost"))
    [path] = outbox.waiting_files()
    path.write_text(path.read_text().replace(f'"provider_nanos": {PRICE}', f'"provider_nanos": {json.dumps(nanos)}'))
    with pytest.raises(record.Unreadable, match="an amount is no whole number"):
        record.load(path, done())


def test_a_forgotten_admission_counts_the_price_within_its_run(api, alice, own, upstream, monkeypatch, settings, tmp_path):
    settings.OUTBOX_DIR = tmp_path / "outbox"
    late: Any = forget(lambda: late_resolution(api, upstream, monkeypatch))
    outbox.store_forgotten(late, AdmissionLost("lost"))
    assert drains.drain() == {Outcome.RESOLVED: 1}
    assert (day_sums(), Run.objects.get().spent_nanos) == ((FEE, PRICE, 0, 0), FEE + PRICE)
    assert_ledger_is_consistent()


@pytest.mark.parametrize("of_ours", [False, True], ids=["own key", "ours"])
def test_forgotten_admissions_of_a_forgotten_run_stay_within_its_budget_together(
    api, alice, upstream, monkeypatch, settings, tmp_path, of_ours
):
    settings.OUTBOX_DIR = tmp_path / "outbox"
    if not of_ours:
        add_own_key(alice, counts_price=True)
    run = {"x-gateway-run": "small", "x-gateway-run-budget": "0.004"}
    upstream.will(whole(usage=MORE_THAN_ASKED))

    def ask_twice() -> Any:
        return [late_resolution(api, upstream, monkeypatch, run, max_tokens=100) for _ in range(2)]

    lates: Any = forget(ask_twice)
    for late in lates:
        outbox.store_forgotten(late, AdmissionLost("lost"))
    assert not Run.objects.exists()
    assert drains.drain() == {Outcome.RESOLVED: 2}
    run_row = Run.objects.get()
    assert (run_row.budget_nanos, run_row.spent_nanos, run_row.held_nanos) == (4_000_000, 4_000_000, 0)
    assert sum(day_sums()) == 4_000_000
    assert_ledger_is_consistent()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("falls_back", [False, True])
def test_an_admission_whose_answer_is_lost_asks_for_no_more_tokens_than_count(alice, upstream, monkeypatch, falls_back):
    """Ours, which serves if the own key fails, costs the account more: that hold would pay the fee of many more tokens."""
    add_own_key(alice, counts_price=True, falls_back=falls_back)
    limited = client_for(factories.make_key(alice, limit_cents=40, type="FIXED")[1])
    run, answers = PipelinedTransaction.write, []

    def write_and_lose_the_answer(self: PipelinedTransaction, statements: Any) -> None:
        run(self, statements)
        answers.append(statements)
        if len(answers) == 1:
            raise OperationalError("the database did not answer within 10 seconds")

    monkeypatch.setattr(PipelinedTransaction, "write", write_and_lose_the_answer)
    assert ask(limited).status_code == 200
    ended, [asked] = done(), upstream.requests
    tokens_nanos = asked.body["max_tokens"] * 15_000
    assert tokens_nanos * 105 // 100 < ended.held_nanos + ended.provider_held_nanos <= 40 * CENT // 8
    assert ended.provider_nanos == PRICE
    assert_ledger_is_consistent()


def test_where_a_demand_leaves_out_the_own_key_limits_hold_what_ours_costs(alice, upstream):
    Provider.objects.update(retention_days=0, trains=False)
    lookup._offers.clear()
    poor = factories.make_account("Poor", cents=5)
    add_own_key(poor, counts_price=True, falls_back=True)
    client = client_for(factories.make_key(poor, limit_cents=10_000, type="FIXED")[1])
    reply = ask(client, provider={"zdr": True})
    assert (reply.status_code, reply["x-gateway-own-key"]) == (200, "unmet")
    ended = done()
    assert (ended.provider_held_nanos, ended.counts_price) == (0, None)
    assert_ledger_is_consistent()


def test_a_repetition_after_a_crash_counts_the_price_in_full(api, alice, own, upstream):
    upstream.will(streamed())
    body = {"model": "acme/large", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    reply = api.post("/v1/chat/completions", body, headers={"Idempotency-Key": "once"})
    begin(reply, "Hello you")
    abandon(reply)
    assert sweep()
    estimate = done().provider_nanos
    again = api.post("/v1/chat/completions", body, headers={"Idempotency-Key": "once"})
    assert text(events(again)) == "Hello you"
    rerun = Completion.objects.exclude(repeats=None).get()
    assert rerun.provider_nanos == PRICE
    assert day_sums()[1] == estimate + PRICE
    assert_ledger_is_consistent()


@pytest.mark.django_db(transaction=True)
def test_concurrent_requests_never_count_more_than_the_limit(alice, upstream):
    add_own_key(alice, counts_price=True)
    secret = factories.make_key(alice, limit_cents=10, type="FIXED")[1]
    upstream.will(streamed())

    decided = threading.Barrier(24)

    def send(_: int) -> bool:
        try:
            reply = ask(client_for(secret), stream=True, max_tokens=1_000)
            decided.wait()
            return reply.status_code == 200 and text(events(reply)) == "Hello you"
        finally:
            connection.close()

    with ThreadPoolExecutor(24) as threads:
        served = list(filter(None, threads.map(send, range(24))))
    [(held, counted)] = Completion.objects.values_list("held_nanos", "provider_held_nanos").distinct()
    assert len(served) == 10 * CENT // (held + counted)
    assert day_sums() == (FEE * len(served), PRICE * len(served), 0, 0)
    assert_ledger_is_consistent()


def test_the_audit_finds_another_price(api, own):
    assert post(api).status_code == 200
    guards.remove("completions_completion")
    price, day = "providers_prices_are_those_of_their_tokens", "days_are_the_sum_of_their_completions"
    run = "runs_are_the_sum_of_their_completions"
    for change, names in (
        ({"provider_nanos": PRICE - 1}, {price, day, run}),
        ({"provider_nanos": None}, {price, day, run}),
        ({"counts_price": None}, {price, day, run}),
        ({"counts_price": False}, {day, run}),
    ):
        with undone():
            Completion.objects.update(**change)
            found = {each.invariant.name for each in audit.verify() if each.invariant.kind != "unguarded"}
            assert found == names


@pytest.mark.parametrize("column", ["provider_nanos", "provider_held_nanos"])
def test_the_audit_can_read_a_forged_price_of_any_size(alice, own, limited, column):
    monthly.set_budget(alice, amount_cents=5, action="STOP")
    assert post(limited).status_code == 200
    guards.remove("completions_completion")
    Completion.objects.update(**{column: 2**63 - 1})
    assert audit.verify()


def test_an_ended_price_is_never_changed(api, own):
    assert post(api).status_code == 200
    for change in ({"provider_nanos": 1}, {"provider_held_nanos": 1}, {"counts_price": False}):
        with pytest.raises(DatabaseError), transaction.atomic():
            Completion.objects.update(**change)
