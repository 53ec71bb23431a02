"""The columns of prices that the former release reads and writes, beside the rates of this one."""

from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.db.migrations.executor import MigrationExecutor

from billing.ledger import audit
from completions import tasks
from completions.catalog import price_requests
from completions.models import Completion, LanguageModel, Price, PriceRequest, ProviderPrice
from gateway_project.db import pool
from tests import factories
from tests.completions.offers import sheet_of
from tests.completions.rows import ask
from tests.ledger_audit import assert_ledger_is_consistent
from tests.upstream import whole

MIGRATION = "0021_prices_are_rates"
COLUMNS = [column for *_, column in import_module(f"completions.migrations.{MIGRATION}")._COLUMNS]
EACH = {column: place * 1_000_000 for place, column in enumerate(COLUMNS, start=1)}


def execute(sql: str, *values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchall() if cursor.description else []


def columns(table: str, pk: Any) -> dict[str, int | None]:
    [row] = execute(f"SELECT {', '.join(COLUMNS)} FROM completions_{table} WHERE id = %s", pk)
    return dict(zip(COLUMNS, row, strict=True))


def insert(table: str, **values: Any) -> Any:
    """Insert as the former release does, which knows no rates. Return the id."""
    names, places = ", ".join(values), ", ".join(["%s"] * len(values))
    return execute(f"INSERT INTO completions_{table} ({names}) VALUES ({places}) RETURNING id", *values.values())[0][0]


def migrate_back() -> None:
    MigrationExecutor(connection).migrate([("completions", "0020_completions_say_what_was_held")])


def migrate() -> None:
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes("completions"))


@pytest.fixture
def migrated(transactional_db: None) -> Any:
    yield
    migrate()


@pytest.mark.one_cell
def test_charged_completions_are_recomputed_after_the_migration(api, large, upstream, migrated):
    factories.change_prices(large.prices, **{**EACH, "web_search_nanos": None})
    cached = {"prompt_tokens": 109, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 100}}
    upstream.will(whole(usage=cached), whole(usage=cached), whole(usage=cached))
    for fields in ({}, {"service_tier": "flex"}, {"service_tier": "priority"}):
        assert ask(api, **fields).status_code == 200
    tasks.sum_up_usage()
    staff = factories.make_user("staff@example.org")
    with transaction.atomic():
        price_requests.ask(large, staff, sheet_of(input=5, output=7), reason="dearer")
    cost = ProviderPrice.objects.create(model=large, provider_id="scripted", since="2026-01-01", rates=large.prices.get().rates)
    before = {table: table.objects.get().sheet for table in (Price, PriceRequest, ProviderPrice)}
    migrate_back()
    assert execute("SELECT 1 FROM information_schema.columns WHERE column_name = 'rates'") == []
    migrate()
    assert {table: table.objects.get().sheet for table in before} == before
    assert columns("providerprice", cost.pk) == {**EACH, "web_search_nanos": None}
    assert Completion.objects.filter(settlement="reported").count() == 3
    assert audit.verify() == []
    with pytest.raises(IntegrityError, match="UPDATE of completions_price is refused"):
        Price.objects.update(rates=[])


@pytest.mark.parametrize("stated", [EACH, {"input_nanos": 3, "output_nanos": 0, "flex_input_nanos": 1, "flex_output_nanos": 2}])
def test_what_the_former_release_inserts_has_rates(echo_model: LanguageModel, stated: dict[str, int]) -> None:
    now = pool.database_time()
    price_id = insert("price", model_id="demo/echo", effective_from=now, **stated)
    cost_id = insert("providerprice", model_id="demo/echo", provider_id="echo", since=now.date(), **stated)
    expected = sheet_of(**{name.removesuffix("_nanos"): nanos for name, nanos in stated.items()})
    assert Price.objects.get(pk=price_id).sheet == ProviderPrice.objects.get(pk=cost_id).sheet == expected


def test_the_former_release_reads_what_this_one_writes(echo_model: LanguageModel) -> None:
    rates = factories.rates_of(**EACH, input_above_9_nanos=1, output_above_9_nanos=2, us_input_nanos=3, us_output_nanos=4)
    now = pool.database_time()
    price = Price.objects.create(model=echo_model, effective_from=now + timedelta(days=1), rates=rates)
    cost = ProviderPrice.objects.create(model=echo_model, provider_id="echo", since=now.date(), rates=rates)
    staff = factories.make_user("staff@example.org")
    request = PriceRequest.objects.create(model=echo_model, requested_by=staff, rates=rates)
    assert columns("price", price.pk) == columns("providerprice", cost.pk) == columns("pricerequest", request.pk) == EACH
    cost.rates = factories.rates_of(input_nanos=8, output_nanos=9)
    cost.save()
    assert columns("providerprice", cost.pk) == {**dict.fromkeys(COLUMNS), "input_nanos": 8, "output_nanos": 9}


def test_what_the_former_release_changes_of_a_cost_reaches_its_rates(echo_model: LanguageModel) -> None:
    rates = factories.rates_of(input_nanos=1, output_nanos=2, input_above_9_nanos=3, output_above_9_nanos=4)
    cost = ProviderPrice.objects.create(model=echo_model, provider_id="echo", since="2026-01-01", rates=rates)
    same = "since = '2026-02-01', input_nanos = 1, output_nanos = 2, image_nanos = NULL"
    execute(f"UPDATE completions_providerprice SET {same} WHERE id = %s", cost.pk)  # its form writes each column
    assert ProviderPrice.objects.get().rates == rates
    execute("UPDATE completions_providerprice SET output_nanos = 5, image_nanos = 6 WHERE id = %s", cost.pk)
    assert ProviderPrice.objects.get().sheet == sheet_of(input=1, output=5, image=6)


RATE = {"meter": "input", "tier": "", "above": 0, "nanos": 1}
OUTPUT = {**RATE, "meter": "output"}


@pytest.mark.parametrize(
    "rates",
    [
        *([], {}, [RATE], [OUTPUT], [RATE, {**OUTPUT, "above": 5}]),
        *([RATE, OUTPUT, {**RATE, "tier": "flex", "nanos": nanos}] for nanos in (-1, 0.5, "1", None, [1])),
        *([RATE, OUTPUT, {**RATE, "above": above}] for above in (-1, 0.5, "1", None)),
        *([RATE, OUTPUT, {**RATE, "tier": "flex", name: 1}] for name in ("meter", "tier")),
        *([RATE, OUTPUT, {"meter": "image"}], [RATE, OUTPUT, 1], [RATE, OUTPUT, "x"]),
    ],
    ids=str,
)
def test_the_database_refuses_what_is_no_price(echo_model: LanguageModel, rates: Any) -> None:
    with pytest.raises(DatabaseError), transaction.atomic():
        Price.objects.create(model=echo_model, effective_from=pool.database_time(), rates=rates)
    assert_ledger_is_consistent()
