"""What a provider billed for a model on a day, beside what was charged and expected, and what explains a difference."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from typing import Any

import pytest
from django.db.models import F

from billing.models import Account
from completions import tasks
from completions.bills import expected, names
from completions.bills.comparison import compare, difference
from completions.bills.reading import EXACT
from completions.models import BillComparison, BilledModel, Completion, LanguageModel, ProviderDay, ProviderPrice, Route
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
    written.make(alice, used, **fields)
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
    written.make(alice, used, **fields)
    written.bill(line("1.5000000000"))
    assert told() == (Decimal("0.5"), {}, "")


def test_what_exceeds_the_reasons_is_unexplained(used: LanguageModel, alice: Account) -> None:
    written.make(alice, used, settlement="estimated")
    written.bill(line("4.0000000000"))
    assert (told()[0], told()[1]) == (Decimal(1), {"estimates": "2"})


GENERATIONS = "generation_id,created_at,cost_total,model_permaslug\n"


def test_a_line_with_the_id_of_a_request_is_matched_by_it(used: LanguageModel, alice: Account) -> None:
    written.make(alice, used, provider_request_id="gen-1")
    text = f"{GENERATIONS}gen-1,{DAY}T12:00:00Z,1.0000000000,whatever/it-is-called\n"
    written.run(text.encode())
    assert (written.only().name, *told()) == ("demo/echo", 0, {}, "")


def test_requests_that_are_not_ours_are_found(used: LanguageModel, alice: Account) -> None:
    written.make(alice, used, provider_request_id="gen-1", provider_id=factories.make_provider("other").pk)
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


def begin(hour: int, minute: int = 0, second: int = 0) -> datetime:
    return datetime(DAY.year, DAY.month, DAY.day, hour, minute, second, tzinfo=UTC)


def hours() -> list[tuple[int, str]]:
    return [(each["hour"], each["unexplained"]) for each in written.only().hours]


@pytest.mark.parametrize(
    ("billed", "unexplained", "found", "finding"),
    [
        ({10: "1.000000", 11: "1.000000"}, "0", [], ""),
        ({10: "1.0000005", 11: "1.0000000"}, "0.0000005", [(10, "0.0000005")], "other_price"),
        ({10: "1.500000", 11: "0.500000"}, "0", [(10, "0.5"), (11, "-0.5")], "hours"),
        ({10: "4.000000", 11: "0.500000"}, "2.5", [(10, "3"), (11, "-0.5")], "other_price"),
        ({10: "2.000000"}, "0", [(10, "1"), (11, "-1")], "hours"),
        ({10: "1.000000", 11: "1.000000", 12: "1.000000"}, "1", [(12, "1")], "other_tokens"),
        ({0: "2.000000"}, "0", [], ""),
        ({0: "2.500000"}, "0.5", [], "other_tokens"),
        ({10: "1.01", 11: "0.99"}, "0", [(10, "0.01"), (11, "-0.01")], "hours"),
        ({10: "1.00", 11: "1.01", 12: "0"}, "0.01", [(11, "0.01")], "other_tokens"),
    ],
    ids=["agrees", "one", "cancel", "both", "one for two", "not used", "days", "other days", "a cent", "nothing"],
)
def test_hours_are_compared_where_the_bill_has_them(
    echo_model: LanguageModel,
    alice: Account,
    billed: dict[int, str],
    unexplained: str,
    found: list[tuple[int, str]],
    finding: str,
) -> None:
    written.make_hours(alice, echo_model, [10, 11])
    written.by_hour(billed)
    row = written.only()
    assert (row.unexplained_usd, hours(), row.finding) == (Decimal(unexplained), found, finding)
    assert row.hours_usd == sum(abs(Decimal(of)) for _, of in found)
    with localcontext(EXACT):
        assert difference(row) == row.unexplained_usd + sum(map(Decimal, row.reasons.values()))


@pytest.mark.parametrize(
    ("fields", "billed", "reasons", "found"),
    [
        ({"created_at": begin(10, 58), "finished_at": begin(11, 2)}, {10: "1.000000"}, {}, []),
        ({"created_at": begin(8, 58), "finished_at": begin(10, 2)}, {9: "1.000000"}, {}, []),
        ({"created_at": begin(8, 58), "finished_at": begin(10, 2)}, {7: "1.000000"}, {"hour": "-1"}, [(7, "1")]),
        ({"created_at": begin(10, 59), "finished_at": begin(10, 59, 30)}, {11: "1.000000"}, {}, []),
        ({"created_at": begin(10, 58), "finished_at": begin(10, 58, 59)}, {11: "1.000000"}, {}, [(10, "-1"), (11, "1")]),
        ({"settlement": "estimated"}, {10: "2.500000"}, {"estimates": "1.5"}, []),
        ({"settlement": "estimated"}, {10: "1.000000", 15: "1.500000"}, {}, [(15, "1.5")]),
    ],
    ids=["across", "longer", "too early", "a clock", "too late", "estimated", "estimated in another hour"],
)
def test_reasons_explain_differences_of_their_hour_alone(
    echo_model: LanguageModel,
    alice: Account,
    fields: dict[str, Any],
    billed: dict[int, str],
    reasons: dict[str, str],
    found: list[tuple[int, str]],
) -> None:
    written.make_hours(alice, echo_model, [10], **fields)
    written.by_hour(billed)
    assert (written.only().reasons, hours()) == (reasons, found)


def test_a_price_of_the_day_before_explains_hours(echo_model: LanguageModel, alice: Account) -> None:
    written.make_hours(alice, echo_model, [10, 11])
    written.price(echo_model, since=DAY, input="3")
    written.by_hour({10: "1.000000", 11: "3.000000"})
    assert told() == (0, {"price": "-2"}, "")


@pytest.mark.parametrize("column", ["completions", "prompt_tokens"])
def test_a_day_of_which_details_are_missing_is_compared_whole(echo_model: LanguageModel, alice: Account, column: str) -> None:
    written.make_hours(alice, echo_model, [10, 11])
    ProviderDay.objects.update(**{column: F(column) + 1})
    written.by_hour({10: "1.500000", 11: "0.500001"})
    assert (written.only().hours, written.only().hours_usd) == ([], 0)


def test_a_completion_counts_in_its_hour(api: Any, echo_model: LanguageModel) -> None:
    chat.ask(api)
    tasks.sum_up_usage()
    [day], [completion] = ProviderDay.objects.all(), Completion.objects.all()
    written.price(echo_model, input="1000", output="1000")
    cost = EXACT.scaleb(Decimal(day.prompt_tokens + day.completion_tokens), -3)
    written.by_hour({23: "0", completion.finished_at.hour: f"{2 * cost:.9f}"}, day=day.day)
    [found] = written.only().hours
    assert (found["hour"], Decimal(found["expected"]), Decimal(found["unexplained"])) == (
        completion.finished_at.hour,
        cost,
        cost,
    )


def test_hours_of_a_price_that_is_not_known_are_not_compared(echo_model: LanguageModel, alice: Account) -> None:
    written.make_hours(alice, echo_model, [10])
    echo_model.provider_prices.all().delete()
    written.by_hour({10: "1"})
    assert (written.only().hours, told()) == ([], (1, {}, "no_price"))


def test_completions_that_no_hour_counts(echo_model: LanguageModel, alice: Account) -> None:
    factories.make_provider("other")
    written.make_hours(alice, echo_model, [10])
    for fields in ({"provider_id": "other"}, {"settlement": "released"}, {"settlement": "corrected"}, {"own_key_fee": 500}):
        written.make(
            alice, echo_model, hour=14, prompt_tokens=10**6, completion_tokens=0, **{"cost_nanos": 0, "held_nanos": 0, **fields}
        )
    written.by_hour({10: "1.000000"})
    assert told() == (0, {}, "")


def test_long_prompts_and_tiers_cost_what_they_do_on_their_day(echo_model: LanguageModel, alice: Account) -> None:
    written.price(echo_model)
    rates = [("input", "", 0, 1), ("output", "", 0, 1), ("input", "flex", 0, 5), ("output", "flex", 0, 5)]
    rates += [("input", "", 200_000, 7), ("output", "", 200_000, 7)]
    names = ("meter", "tier", "above", "nanos")
    ProviderPrice.objects.update(rates=[dict(zip(names, (*each[:3], each[3] * 10**9), strict=True)) for each in rates])
    counts = [(200_000, None, "0.2"), (200_001, None, "1.400007"), (100_000, "flex", "0.5")]
    for hour, (tokens, tier, _) in enumerate(counts, 3):
        written.make(alice, echo_model, hour=hour, prompt_tokens=tokens, completion_tokens=0, service_tier=tier)
    rows = expected.usage("echo", DAY, "hour")
    assert {hour: nanos for _, hour, shift, _, _, _, nanos, _ in rows if shift == 0} == {
        hour: Decimal(cost) * 10**9 for hour, (*_, cost) in enumerate(counts, 3)
    }


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
