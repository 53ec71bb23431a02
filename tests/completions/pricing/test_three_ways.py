"""What is charged, computed by the price, by the audit, by the margins, and by a calculation of these tests."""

import math
from collections import defaultdict
from fractions import Fraction
from functools import cache
from random import Random
from typing import Any, NamedTuple

from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.ledger import audit
from billing.ledger.archived_days import Kept, read_kept
from billing.models import Account, Hold, LedgerEntry
from completions import audit as questions
from completions import tasks
from completions.models import Completion, LanguageModel, Price, ProviderPrice
from completions.pricing import meters
from completions.pricing.rates import Rate, RateSheet
from completions.pricing.usage import Usage
from completions.statistics import margins
from gateway_project.db import pool
from tests import factories

Stated = dict[tuple[str, str, int], int]  # nanodollars by meter, service tier and threshold
OPTIONAL = ("cached_input", "cache_write", "cache_write_1h", "image", "web_search")


class Charge(NamedTuple):
    stated: tuple[tuple[tuple[str, str, int], int], ...]
    usage: Usage
    images: int

    @property
    def sheet(self) -> RateSheet:
        return _sheet(self.stated)


@cache
def _sheet(stated: tuple[tuple[tuple[str, str, int], int], ...]) -> RateSheet:
    return RateSheet(Rate(*place, nanos) for place, nanos in stated)


# --- The calculation ------------------------------------------------------------------------------------------------------


def exact(charge: Charge) -> Fraction:
    """Return nanodollars, by the words of docs/charging.md and by nothing of the product."""
    usage, stated = charge.usage, dict(charge.stated)
    tier = usage.tier if ("input", usage.tier, 0) in stated else ""
    above = max(above for _, of, above in stated if of == tier and (above < usage.prompt_tokens or not above))

    def own(meter: str) -> int | None:
        return stated.get((meter, tier, above))

    def first(*rates: int | None) -> int:
        return next((rate for rate in rates if rate is not None), 0)

    input_nanos, output_nanos = first(own("input")), first(own("output"))
    cached_nanos = first(own("cached_input"), input_nanos)
    write_nanos = first(own("cache_write"), input_nanos)
    hour_nanos = first(own("cache_write_1h"), write_nanos)
    brief = usage.cache_write_tokens - usage.cache_write_1h_tokens
    tokens = (usage.prompt_tokens - usage.cached_tokens - usage.cache_write_tokens) * input_nanos
    tokens += usage.cached_tokens * cached_nanos + brief * write_nanos + usage.cache_write_1h_tokens * hour_nanos
    tokens += usage.completion_tokens * output_nanos
    each = charge.images * first(own("image"), stated.get(("image", "", 0)))
    each += usage.web_searches * first(own("web_search"), stated.get(("web_search", "", 0)))
    return Fraction(tokens, 1_000_000) + each


def places(charge: Charge) -> tuple[str, int]:
    """Return the service tier and the length under which the day of a provider has it: any tier may have the threshold."""
    above = max(above for (_, _, above), _ in charge.stated if above < charge.usage.prompt_tokens or not above)
    return charge.usage.tier, above


# --- Any charges ----------------------------------------------------------------------------------------------------------


@st.composite
def prices(draw: st.DrawFn) -> tuple[tuple[tuple[str, str, int], int], ...]:
    """A price with any tiers, and any bands of each."""
    nanos = st.integers(0, 10**12)
    found: Stated = {}
    for tier in ("", *draw(st.sets(st.sampled_from(sorted(meters.TIERS))))):
        for above in (0, *draw(st.sets(st.integers(1, 300_000), max_size=3))):
            names = ("input", "output", *sorted(draw(st.sets(st.sampled_from(OPTIONAL)))))
            found.update({(name, tier, above): draw(nanos) for name in names})
    return tuple(found.items())


@st.composite
def charges(draw: st.DrawFn) -> Charge:
    stated = draw(prices())
    near = [above + by for (_, _, above), _ in stated if above for by in (0, 1)]
    prompt = draw(st.integers(0, 400_000) | (st.sampled_from(near) if near else st.nothing()))
    cached = draw(st.integers(0, prompt))
    written = draw(st.integers(0, prompt - cached))
    tier = draw(st.sampled_from(["", *meters.TIERS]))
    more: dict[str, Any] = {"cache_write_1h_tokens": draw(st.integers(0, written)), "web_searches": draw(st.integers(0, 9))}
    usage = Usage(prompt, draw(st.integers(0, 100_000)), cached, written, tier=tier, **more)
    return Charge(stated, usage, draw(st.integers(0, 9)))


def random_charge(random: Random) -> Charge:
    """The same for many of them, faster."""
    thresholds = random.sample((32_000, 128_000, 200_000, 272_000), random.randint(0, 3))
    stated: Stated = {}
    for tier in ("", *random.sample(sorted(meters.TIERS), random.randint(0, 3))):
        for above in (0, *(each for each in thresholds if random.random() < 0.8)):
            names = ("input", "output", *(name for name in OPTIONAL if random.random() < 0.5))
            stated |= {(name, tier, above): random.randint(0, 10 ** random.randint(0, 11)) for name in names}
    prompt = random.choice((random.randint(0, 400_000), random.choice((0, 1, 32_000, 128_001, 200_000, 200_001, 272_000))))
    cached = random.randint(0, prompt)
    written = random.randint(0, prompt - cached)
    more: dict[str, Any] = {"cache_write_1h_tokens": random.randint(0, written), "web_searches": random.randint(0, 3)}
    usage = Usage(prompt, random.randint(0, 64_000), cached, written, tier=random.choice(["", *meters.TIERS]), **more)
    return Charge(tuple(stated.items()), usage, random.randint(0, 5))


# --- Through the database -------------------------------------------------------------------------------------------------


def book(account: Account, made: list[Charge]) -> None:
    """Write them as charged, each by a model with this price at a provider that charges the same."""
    key, now = factories.make_key(account)[0], pool.database_time()
    provider = factories.make_provider()
    sheets = list(dict.fromkeys(charge.stated for charge in made))
    numbers = {stated: number for number, stated in enumerate(sheets)}
    for number, stated in enumerate(sheets):
        rates = Charge(stated, Usage(0, 0), 0).sheet.rows
        model = LanguageModel.objects.create(id=f"m/{number}", name="m", maker="m", context_window=9, max_output_tokens=9)
        Price.objects.create(pk=10**6 + number, model=model, rates=rates)
        ProviderPrice.objects.create(model=model, provider=provider, since="2026-01-01", rates=rates)
    classes: tuple[Any, ...] = (Completion, Hold, LedgerEntry)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        rows = [_rows(account, key.pk, now, number, numbers[each.stated], each) for number, each in enumerate(made, start=1)]
        for model_class, each in zip(classes, zip(*rows, strict=True), strict=True):
            model_class.objects.bulk_create(each)
        Account.objects.filter(pk=account.pk).update(last_seq=account.last_seq + len(made))
        cursor.execute("SET LOCAL session_replication_role = origin")


def _rows(account: Account, key_id: str, now: Any, number: int, model: int, charge: Charge) -> tuple[Any, ...]:
    usage, cost_nanos = charge.usage, charge.sheet.cost_nanos(charge.usage, charge.images)
    reference = f"{Completion.least_id(now)}{number:020x}"
    counts = {name: getattr(usage, name) for name in meters.COLUMNS if name != "images"}
    completion = Completion(
        **{"id": reference, "account": account, "key_id": key_id, "model_id": f"m/{model}", "price_id": 10**6 + model},
        **{"provider_id": "echo", "is_stream": False, "spending_day": now.date(), "counted_tokens": 0, "images": charge.images},
        **{"settlement": "reported", "cost_nanos": cost_nanos, "service_tier": usage.tier or None, "created_at": now},
        finished_at=now,
        **counts,
    )
    times = {"created_at": now, "expires_at": now, "resolved_at": now}
    hold = Hold(reference=reference, account=account, amount_nanos=2**60, state="SETTLED", settled_nanos=cost_nanos, **times)
    says = {"model": f"m/{model}", "promptTokens": usage.prompt_tokens, "completionTokens": usage.completion_tokens}
    entry = LedgerEntry(account=account, seq=account.last_seq + number, type="USAGE_DEBIT", amount_nanos=-cost_nanos)
    entry.balance_after_nanos, entry.reference, entry.metadata, entry.spender, entry.created_at = (
        0,
        reference,
        says,
        key_id,
        now,
    )
    return completion, hold, entry


def audited() -> list[int]:
    """Return what each completion was to be charged, as the audit computes it."""
    sql = f"due_nanos FROM ({questions.CHARGES.sql}) AS charges ORDER BY completion_id"
    with connection.cursor() as cursor:
        kept: Kept = read_kept(cursor)
        cursor.execute(audit._select_sql(sql), audit.Scope().values(kept))
        return [int(nanos) for (nanos,) in cursor.fetchall()]


def violated() -> set[str]:
    found = {violation.invariant.name for violation in audit.verify()}
    return found & {
        *("completions_cost_their_tokens", "provider_days_sum_to_the_ledger", "provider_days_know_their_long_prompts"),
    }


def computed() -> dict[tuple[str, str, int], tuple[int, int]]:
    """Return what is known to have been charged, and what the provider cost of it, by model, tier and length."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM ({margins.statement('true')}) AS margins")
        rows = cursor.fetchall()
    return {
        (model, tier, above): (int(priced), int(cost))
        for model, _, tier, above, _, _, priced, cost, _ in rows
        if priced or cost
    }


def expected(made: list[Charge]) -> dict[tuple[str, str, int], tuple[int, int]]:
    """Return the same by the calculation. A tier without rates has no known cost."""
    sums: dict[tuple[str, str, int], list[Any]] = defaultdict(lambda: [0, Fraction(0)])
    models = {stated: f"m/{number}" for number, stated in enumerate(dict.fromkeys(charge.stated for charge in made))}
    for charge in made:
        tier, above = places(charge)
        if ("input", tier, 0) in dict(charge.stated):
            of_place = sums[models[charge.stated], tier, above]
            of_place[0] += math.ceil(exact(charge))
            of_place[1] += exact(charge)
    return {place: (priced, math.ceil(cost)) for place, (priced, cost) in sums.items() if priced or cost}


def assert_all_ways_agree(account: Account, made: list[Charge]) -> None:
    nanos = [math.ceil(exact(charge)) for charge in made]
    assert [charge.sheet.cost_nanos(charge.usage, charge.images) for charge in made] == nanos
    for charge in made:
        parts = charge.sheet.parts(charge.usage, charge.images)
        assert Fraction(sum(part.unrounded for part in parts), 1_000_000) == exact(charge)
    with transaction.atomic():
        book(account, made)
        assert audited() == nanos
        tasks.sum_up_usage()
        assert computed() == expected(made)
        assert violated() == set()
        transaction.set_rollback(True)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(charges(), min_size=1, max_size=12))
def test_a_price_the_audit_and_the_margins_compute_the_same(alice, made):
    assert_all_ways_agree(alice, made)


def test_four_thousand_charges_are_what_the_documentation_says(alice):
    random = Random(41)
    priced = [random_charge(random) for _ in range(200)]
    made = [random_charge(random)._replace(stated=random.choice(priced).stated) for _ in range(4_000)]
    assert len({places(charge) for charge in made}) > 15
    assert_all_ways_agree(alice, made)


def test_every_meter_is_in_this_calculation():
    assert {"input", "output", *OPTIONAL} == set(meters.BY_NAME)
