"""What a provider billed for a model on a day, beside what was charged and expected, and what explains a difference."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from billing.models import Account
from completions import tasks
from completions.bills import names
from completions.bills.comparison import compare
from completions.bills.reading import EXACT
from completions.models import BillComparison, BilledModel, Completion, LanguageModel, ProviderDay, Route
from gateway_project.db import pool
from tests import chat, factories
from tests.completions.bills import written
from tests.completions.bills.written import DAY, line


@pytest.fixture
def used(echo_model: LanguageModel) -> LanguageModel:
    """A model whose day cost a dollar at its provider."""
    written.price(echo_model)
    written.use(echo_model)
    return echo_model


def told() -> tuple[Any, Any, str]:
    row = written.only()
    return row.unexplained_usd, row.reasons, row.finding


def test_a_bill_that_agrees_leaves_nothing_unexplained(used: LanguageModel) -> None:
    written.bill(line("0.6000000000"), line("0.4", "echo, output"))
    row = written.only()
    assert (row.charged_nanos, row.expected_nanos, row.billed_usd, row.lines) == (2 * 10**9, 10**9, 1, 2)
    assert told() == (0, {}, "")


def test_costs_that_are_rounded_explain_half_a_digit_a_line(used: LanguageModel) -> None:
    written.bill(line("0.51"), line("0.50"))
    assert told() == (0, {"rounding": "0.01"}, "")


@pytest.mark.parametrize(("tokens", "finding"), [(1_000_000, "other_price"), (999_999, "other_tokens")])
def test_tokens_say_whether_the_price_is_another_one(used: LanguageModel, tokens: int, finding: str) -> None:
    written.bill(line("1.2500000000", tokens=tokens))
    row = written.only()
    assert (row.finding, round(row.unexplained_usd, 6)) == (finding, Decimal("0.25"))


def test_a_price_that_changed_the_day_before_explains_the_former_one(used: LanguageModel) -> None:
    written.price(used, since=DAY, input="3")
    written.bill(line("1.0000000000"))
    assert told() == (0, {"price": "-2"}, "")


def test_without_a_price_the_cost_is_not_known(echo_model: LanguageModel) -> None:
    written.use(echo_model)
    written.bill(line("1"))
    assert (written.only().expected_nanos, *told()) == (None, 1, {}, "no_price")


def test_an_unknown_model_waits_for_staff_to_name_it(used: LanguageModel) -> None:
    written.bill(line("1.0000000000", "echo-2-exp, input"))
    rows = {row.name: (row.finding, row.billed_usd) for row in BillComparison.objects.all()}
    assert rows == {"echo-2-exp": ("unknown_model", 1), "demo/echo": ("not_billed", 0)}
    BilledModel.objects.create(provider_id="echo", name="echo-2-exp", model=used)
    compare("echo", DAY)
    assert told() == (0, {}, "")


def test_what_nobody_used_is_found(echo_model: LanguageModel) -> None:
    written.price(echo_model)
    written.bill(line("1"))
    assert told()[2] == "not_used"


def test_a_bill_of_an_unfinished_day_is_early(echo_model: LanguageModel) -> None:
    today = pool.database_time().date()
    written.price(echo_model)
    written.use(echo_model, day=today)
    written.bill(line("0.2500000000", day=today))
    assert told() == (0, {"early": "-0.75"}, "early")


def make(alice: Account, model: LanguageModel, hour: int = 12, **fields: Any) -> Completion:
    """Make a completion of DAY at an hour, or with ``provider`` at another provider. It ended a second later."""
    at = datetime(DAY.year, DAY.month, DAY.day, tzinfo=UTC) + timedelta(hours=hour)
    key = alice.keys.first() or factories.make_key(alice)[0]
    counts = {"counted_tokens": 1, "is_stream": False, "spending_day": DAY, "cost_nanos": 10**9, "held_nanos": 3 * 10**9}
    columns = {"provider_id": "echo", "settlement": "reported", "finished_at": at + timedelta(seconds=1), **counts, **fields}
    id = f"{Completion.least_id(at)}{Completion.objects.count():020x}"
    price = model.prices.get()
    return Completion.objects.create(id=id, account=alice, key=key, model=model, price=price, created_at=at, **columns)


def _failed(status: int | None) -> list[dict[str, Any]]:
    return [{"provider": "echo", "status": status}]


@pytest.mark.parametrize(
    ("fields", "billed", "reasons"),
    [
        ({"settlement": "estimated"}, "2.5000000000", {"estimates": "1.5"}),
        ({"settlement": "partial"}, "0.2500000000", {"estimates": "-0.75"}),
        (
            {"provider_id": "other", "failed_attempts": [{"provider": "echo", "status": 504}]},
            "3.5000000000",
            {"failures": "2.5"},
        ),
        (
            {"provider_id": "other", "failed_attempts": [{"provider": "echo", "status": None}]},
            "1.5000000000",
            {"failures": "0.5"},
        ),
        ({"settlement": "released", "cost_nanos": 0}, "1.5000000000", {"failures": "0.5"}),
        ({"hour": 24 - 1, "finished_at": datetime(2026, 8, 5, 0, 0, 1, tzinfo=UTC)}, "1.5000000000", {"midnight": "0.5"}),
        ({"hour": -1, "finished_at": datetime(2026, 8, 4, 0, 0, 1, tzinfo=UTC)}, "0.5000000000", {"midnight": "-0.5"}),
    ],
    ids=["estimated", "cut short", "failed", "no reply", "abandoned", "ends later", "began before"],
)
def test_uncertain_completions_explain_what_they_can(
    used: LanguageModel, alice: Account, fields: dict[str, Any], billed: str, reasons: dict[str, str]
) -> None:
    factories.make_provider("other")
    make(alice, used, **fields)
    written.bill(line(billed))
    assert told() == (0, reasons, "")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"provider_id": "other", "failed_attempts": _failed(429)},
        {"provider_id": "other", "failed_attempts": [{"provider": "third", "status": 504}]},
        {"hour": 36, "settlement": "estimated"},
        {"settlement": "estimated", "own_key_fee": 500},
    ],
    ids=["reported", "refused", "failed elsewhere", "another day", "with the account's own key"],
)
def test_other_completions_explain_nothing(used: LanguageModel, alice: Account, fields: dict[str, Any]) -> None:
    factories.make_provider("other")
    make(alice, used, **fields)
    written.bill(line("1.5000000000"))
    assert told() == (Decimal("0.5"), {}, "")


def test_what_exceeds_the_reasons_is_unexplained(used: LanguageModel, alice: Account) -> None:
    make(alice, used, settlement="estimated")
    written.bill(line("4.0000000000"))
    assert (told()[0], told()[1]) == (Decimal(1), {"estimates": "2"})


GENERATIONS = "generation_id,created_at,cost_total,model_permaslug\n"


def test_a_line_with_the_id_of_a_request_is_matched_by_it(used: LanguageModel, alice: Account) -> None:
    make(alice, used, provider_request_id="gen-1")
    text = f"{GENERATIONS}gen-1,{DAY}T12:00:00Z,1.0000000000,whatever/it-is-called\n"
    written.run(text.encode())
    assert (written.only().name, *told()) == ("demo/echo", 0, {}, "")


def test_requests_that_are_not_ours_are_found(used: LanguageModel, alice: Account) -> None:
    make(alice, used, provider_request_id="gen-1", provider_id=factories.make_provider("other").pk)
    text = f"{GENERATIONS}gen-1,{DAY}T12:00:00Z,0.75,demo/echo\n"
    written.run(text.encode())
    row = BillComparison.objects.get(finding="unknown_request")
    assert (row.name, row.unexplained_usd, row.expected_nanos) == ("demo/echo, unknown requests", Decimal("0.75"), None)


def test_requests_whose_details_are_archived_count_for_their_model(used: LanguageModel, settings: Any) -> None:
    settings.RETENTION_DETAIL_DAYS = 35
    written.run(f"{GENERATIONS}gen-1,{DAY}T12:00:00Z,1.0000000000,demo/echo\n".encode())
    assert (written.only().name, *told()) == ("demo/echo", 0, {}, "")


def test_days_are_in_utc(used: LanguageModel) -> None:
    text = f"{GENERATIONS}gen-1,{DAY}T23:30:00-01:00,1,demo/echo\n"
    written.run(text.encode())
    assert BillComparison.objects.get(finding="unknown_request").day == DAY + timedelta(days=1)


def test_a_completion_is_compared_once_its_usage_is_summed_up(api: Any, echo_model: LanguageModel) -> None:
    chat.ask(api)
    tasks.sum_up_usage()
    [day] = ProviderDay.objects.all()
    written.price(echo_model, input="1000", output="1000")
    exact = EXACT.scaleb(Decimal(day.prompt_tokens + day.completion_tokens), -3)
    written.bill(line(f"{exact:.9f}", day=day.day))
    row = written.only()
    assert (row.completions, row.charged_nanos, row.unexplained_usd) == (1, day.charged_nanos, 0)


def test_another_provider_of_the_model_is_compared_apart(used: LanguageModel) -> None:
    other = factories.make_provider("other")
    Route.objects.create(model=used, provider=other, upstream_model="echo")
    written.bill(line("1.0000000000"), provider="other")
    assert (written.only().provider_id, told()[2]) == ("other", "not_used")


@pytest.mark.parametrize(
    ("upstream", "billed"),
    [
        ("us.anthropic.claude-opus-4-6-v1", "Claude4.6Opus"),
        ("claude-haiku-4-5-20251001", "Claude Haiku 4.5"),
        ("claude-sonnet-4@20250514", "Claude Sonnet 4"),
        ("gpt-5.5", "gpt-5.5-2026-04-23"),
        ("anthropic.claude-3-haiku-20240307-v1:0", "Claude 3 Haiku"),
        ("gpt-4o", "gpt 4o"),
    ],
)
def test_a_name_is_that_of_the_model_with_its_words(db: None, upstream: str, billed: str) -> None:
    model = factories.make_model("some/model", upstream_model=upstream)
    assert names.resolver(model.routes.get().provider_id, [])(billed) == "some/model"


@pytest.mark.parametrize("billed", ["gpt 5", "gpt-5.5-mini", "", "gpt-5.5 pro"])
def test_no_name_is_guessed(db: None, billed: str) -> None:
    factories.make_model("some/one", upstream_model="gpt-5.5")
    factories.make_model("some/two", upstream_model="gpt-5-2026-01-01")
    model = factories.make_model("some/three", upstream_model="gpt-5-2026-02-02")
    assert names.resolver(model.routes.get().provider_id, [])(billed) == ""
