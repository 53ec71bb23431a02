"""The usage page and its files, as a member sees them."""

import csv
import io
import json
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html import unescape

import pytest
from django.db import connection
from django.db.models import Sum
from django.test.utils import CaptureQueriesContext

from billing.models import LedgerEntry
from completions import tasks
from completions.models import UsageHour
from completions.usage import figures, ranges, sums
from gateway_project.activity.models import Activity
from keys.models import ApiKey
from tests import chat, factories
from tests.completions.rows import ask, ask_streamed, disconnect
from tests.conftest import client_for
from tests.pages.conftest import owner_of, signed_in
from tests.upstream import refusal, streamed

USAGE = "/dashboard/usage/"


@pytest.fixture
def owner(alice):
    return signed_in(owner_of(alice))


def page(client, query=""):
    """Return the page's text without markup."""
    reply = client.get(USAGE + query)
    assert reply.status_code == 200
    return " ".join(re.sub(r"<[^>]+>", " ", reply.content.decode()).split())


def rows(client, query="", file="usage.csv"):
    reply = client.post(f"{USAGE}{file}{query}")
    assert (reply.status_code, reply["content-type"]) == (200, "text/csv; charset=utf-8")
    return list(csv.DictReader(io.StringIO(b"".join(reply.streaming_content).decode()), strict=True))


def spent_nanos(account):
    return -LedgerEntry.objects.filter(account=account, type="USAGE_DEBIT").aggregate(sum=Sum("amount_nanos"))["sum"]


def total(rows, column="costInDollars"):
    return sum(Decimal(row[column]) for row in rows)


def put_back(days):
    """Move what is summed up some days into the past."""
    for row in UsageHour.objects.all():
        UsageHour.objects.filter(pk=row.pk).update(hour=row.hour - timedelta(days=days))


# --- The page -----------------------------------------------------------------------------------------------------


def test_an_account_without_usage_is_told_what_to_do(owner):
    assert "No usage in this period. Choose a longer one above" in page(owner)


def test_a_new_account_is_told_what_to_do_first(db):
    account = factories.make_account("New", owner=factories.make_user("new@example.org"))
    told = page(signed_in(owner_of(account)))
    assert "No usage yet. Add credit , then create a key and send a request with it" in told


@pytest.mark.parametrize("summed_up", [False, True])
def test_a_request_is_shown_as_soon_as_it_has_ended(owner, alice, api, large, upstream, summed_up):
    upstream.will(streamed(), refusal(500))
    assert ask_streamed(api).getvalue()
    ask(api)
    if summed_up:
        tasks.sum_up_usage()
    told = page(owner)
    assert "Spent $0.000057" in told
    assert "Requests 2 No earlier data Tokens 11 No earlier data Errors 1 (50.0 %)" in told
    assert "acme/large" in told
    assert f"{spent_nanos(alice) / 10**9:.6f}" == "0.000057"


def test_requests_are_grouped_by_model_key_user_and_tag(owner, alice, echo_model):
    secrets = [factories.make_key(alice, name)[1] for name in ("Search", "Batch")]
    chat.ask(client_for(secrets[0]), user="customer-7", metadata={"team": "blue"})
    chat.ask(client_for(secrets[1]))
    for _ in range(2):
        assert "By model" in page(owner)
        by_key = page(owner, "?by=key")
        assert "Search" in by_key
        assert "Batch" in by_key
        assert "customer-7 $0.0000075 50.0 % 1" in page(owner, "?by=user")
        assert "Without user $0.0000075 50.0 % 1" in page(owner, "?by=user")
        assert "blue $0.0000075 50.0 % 1" in page(owner, "?by=tag:team")
        tasks.sum_up_usage()
    assert "Tag team" in page(owner)


def test_the_dearest_values_are_shown_and_the_others_together(owner, api, echo_model):
    for number in range(figures.VALUES_SHOWN + 2):
        chat.ask(api, user=f"u-{number:02}")
    tasks.sum_up_usage()
    told = page(owner, "?by=user")
    assert len(set(re.findall(r"u-\d\d", told))) == figures.VALUES_SHOWN
    assert re.search(r"Others \$0\.0000150 20\.0 % 2", told)


def test_the_top_of_many_users_is_the_top_to_the_last_digit(owner, alice, api, echo_model, monkeypatch):
    factories.credit(alice, 100)
    for number in range(52):
        chat.ask(api, user=f"u-{number:02}")
    tasks.sum_up_usage()
    for _ in range(3):
        chat.ask(api, user="late")
    chat.ask(api)
    for _ in range(3):
        top = re.findall(r"(\S+) (\$[\d.]+) [\d.]+ % (\d+)", page(owner, "?by=user"))
        assert top[:3] == [("late", "$0.0000225", "3"), ("u-00", "$0.0000075", "1"), ("u-01", "$0.0000075", "1")]
        assert [(name, requests) for name, _, requests in top[-3:]] == [("Others", "45"), ("user", "1"), ("All", "56")]
        file = {row["value"]: (row["requests"], row["costInDollars"]) for row in rows(owner, "?by=user")}
        users = {f"u-{number:02}": ("1", "0.0000075") for number in range(52)}
        assert file == users | {"late": ("3", "0.0000225"), "": ("1", "0.0000075")}
        tasks.sum_up_usage()  # then by hour, then by day
        monkeypatch.setattr(sums, "HOURS_KEPT", -sums.HOURS_KEPT)


def test_hours_of_labels_that_are_not_kept_are_shown_as_days(owner, api, echo_model):
    days = "range=own&from=2026-01-01&to=2026-01-02"
    bars = {by: len(owner.get(f"{USAGE}?{days}&by={by}").context["query"].shown.buckets()) for by in ("model", "user")}
    assert bars == {"model": 48, "user": 2}


def test_a_range_is_compared_with_the_time_before(owner, api, echo_model):
    chat.ask(api)
    tasks.sum_up_usage()
    put_back(7)
    for _ in range(3):
        chat.ask(api)
    told = page(owner, "?range=7d")
    assert "Requests 3 up 200 %, from 1" in told
    assert "Requests 3 No earlier data" in page(owner, "?range=24h")


def test_a_value_leads_to_its_requests(owner, api, echo_model):
    chat.ask(api, user="a&b")
    chat.ask(api)
    for by in ("model", "key", "user"):
        [address, *_] = re.findall(r'href="(/dashboard/requests/\?[^"]+)"', owner.get(f"{USAGE}?by={by}").content.decode())
        listed = owner.get(unescape(address)).content.decode()
        assert "for a&amp;b" in listed
    assert "/dashboard/requests/?" not in owner.get(f"{USAGE}?by=tag:team").content.decode()


def test_names_of_users_and_tags_cannot_become_markup(owner, api, echo_model):
    chat.ask(api, user="<script>x</script>", metadata={"<b>": "<i>"})
    tasks.sum_up_usage()
    for query in ("?by=user", "?by=tag:%3Cb%3E", "?by=tag:%3Cscript%3E"):
        body = owner.get(USAGE + query).content.decode()
        assert not {"<script>x", "<b>", "<i>"} & set(re.findall(r"<script>x|<b>|<i>", body))


@pytest.mark.parametrize(
    "query",
    [
        "?range=own&from=2026-02-30&to=2026-03-01",
        "?range=own&from=2026-03-0\N{ARABIC-INDIC DIGIT THREE}&to=2026-03-04",
        "?range=own&from=2026-03-02&to=2026-03-01",
        "?range=own&from=2020-01-01&to=2026-01-01",
        "?range=own&from=2099-12-01&to=2099-12-02",
    ],
)
def test_days_that_cannot_be_shown_are_explained(owner, query):
    assert "Showing the last 7 days." in page(owner, query)


@pytest.mark.parametrize("query", ["?range=x&by=y&show=z", "?by=tag:", "?by=tag:" + "n" * 5_000, "?range=own"])
def test_a_damaged_address_shows_the_page(owner, query):
    page(owner, query)


def test_the_page_takes_as_many_queries_for_many_requests_as_for_one(owner, alice, api, echo_model):
    def queries(query):
        with CaptureQueriesContext(connection) as captured:
            assert owner.get(USAGE + query).status_code == 200
        return len(captured)

    chat.ask(api)
    one = queries("?by=key"), queries("?by=user")
    for number in range(4):
        chat.ask(client_for(factories.make_key(alice)[1]), user=f"u-{number}", metadata={f"t-{number}": "x"})
    tasks.sum_up_usage()
    chat.ask(api)
    assert (queries("?by=key"), queries("?by=user")) == one


def test_more_than_a_page_reads_at_once_is_said_to_be_missing(owner, api, echo_model, monkeypatch):
    monkeypatch.setattr(figures, "LIVE_MAX", 2)
    for _ in range(3):
        chat.ask(api)
    assert "The newest requests are still being added up" in page(owner)
    tasks.sum_up_usage()
    assert "still being added up" not in page(owner)


def test_usage_of_other_accounts_is_not_shown(owner, bob, echo_model):
    factories.credit(bob, 100)
    chat.ask(client_for(factories.make_key(bob)[1]), user="bobs")
    for _ in range(2):
        assert "No usage in this period" in page(owner, "?by=user")
        assert rows(owner, "?by=user") == rows(owner, "", "focus.csv") == []
        tasks.sum_up_usage()


# --- Files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["model", "key", "user", "tag:team"])
def test_the_file_sums_to_the_ledger_to_the_last_digit(owner, alice, api, echo_model, by):
    chat.ask(api, user="u", metadata={"team": "a"})
    chat.ask(api, user="v")
    tasks.sum_up_usage()
    chat.ask(api)
    assert total(rows(owner, f"?by={by}")) * 10**9 == spent_nanos(alice)
    assert total(rows(owner, f"?by={by}", "focus.csv"), "BilledCost") * 10**9 == spent_nanos(alice)


def test_the_file_has_all_values_of_each_day(owner, api, echo_model):
    for number in range(figures.VALUES_SHOWN + 2):
        chat.ask(api, user=f"u-{number}")
    found = rows(owner, "?by=user&range=24h")
    assert {row["value"] for row in found if row["group"] == "value"} == {f"u-{n}" for n in range(figures.VALUES_SHOWN + 2)}
    assert {row["requests"] for row in found} == {"1"}


def test_focus_has_a_line_for_each_key_and_model(owner, alice, echo_model):
    key, secret = factories.make_key(alice, "=HYPERLINK(1)")
    chat.ask(client_for(secret))
    [line] = rows(owner, "", "focus.csv")
    assert (line["ResourceId"], line["ResourceName"], line["SkuId"]) == (key.pk, "'=HYPERLINK(1)", "demo/echo")
    assert (line["BilledCost"], line["EffectiveCost"], line["BillingCurrency"]) == ("0.0000075", "0.0000075", "USD")
    assert (line["ServiceCategory"], line["ChargeCategory"], line["ConsumedUnit"]) == (
        "AI and Machine Learning",
        "Usage",
        "Tokens",
    )
    assert (line["BillingAccountId"], line["ConsumedQuantity"], line["Tags"]) == (str(alice.pk), "9", "{}")
    start, end = (datetime.fromisoformat(line[f"ChargePeriod{which}"]) for which in ("Start", "End"))
    assert end - start == timedelta(days=1)
    assert (line["BillingPeriodStart"][8:], line["BillingPeriodEnd"][8:]) == ("01T00:00:00Z", "01T00:00:00Z")


def test_focus_by_a_tag_has_the_tag(owner, api, echo_model):
    chat.ask(api, metadata={"team": '=a"b'})
    [line] = rows(owner, "?by=tag:team", "focus.csv")
    assert json.loads(line["Tags"]) == {"team": '=a"b'}


def test_text_of_callers_is_no_formula(owner, api, echo_model):
    chat.ask(api, user="=cmd()", metadata={"+x": "@y"})
    assert rows(owner, "?by=user")[0]["value"] == "'=cmd()"
    assert rows(owner, "?by=tag:%2Bx")[0]["value"] == "'@y"


def test_a_download_is_in_the_activity_log(owner, alice):
    rows(owner, "?range=own&from=2026-11-01&to=2026-11-02&by=key")
    act = Activity.objects.get(act="USAGE_EXPORTED")
    assert (act.summary, act.account_id) == ("Downloaded usage.csv of 2026-11-01 to 2026-11-02, by key.", alice.pk)


def test_a_member_downloads_two_files_at_a_time(owner):
    replies = [owner.post(f"{USAGE}{file}") for file in ("usage.csv", "focus.csv", "usage.csv")]
    assert [reply.status_code for reply in replies] == [200, 200, 429]
    for reply in replies[:2]:
        disconnect(reply)
    assert owner.post(f"{USAGE}usage.csv").status_code == 200


# --- Ranges -------------------------------------------------------------------------------------------------------

NOW = datetime(2026, 3, 31, 14, 20, tzinfo=UTC)


def at(month, day, hour=0, year=2026):
    return datetime(year, month, day, hour, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "since", "until", "before_since", "before_until", "bars"),
    [
        ("24h", at(3, 30, 15), at(3, 31, 15), at(3, 29, 15), at(3, 30, 15), 24),
        ("7d", at(3, 25), at(4, 1), at(3, 18), at(3, 24, 15), 7),
        ("30d", at(3, 2), at(4, 1), at(1, 31), at(3, 1, 15), 30),
        ("month", at(3, 1), at(4, 1), at(2, 1), at(3, 1), 31),  # February has no 31st: all of it
        ("last-month", at(2, 1), at(3, 1), at(1, 1), at(2, 1), 28),
    ],
)
def test_a_range_is_compared_with_as_much_time_as_has_passed(name, since, until, before_since, before_until, bars):
    shown = ranges.preset(name, NOW)
    assert (shown.since, shown.until, shown.before_since, shown.before_until) == (since, until, before_since, before_until)
    assert len(shown.buckets()) == bars


def test_own_days_are_compared_with_as_many_days_before():
    shown = ranges.own(at(1, 1).date(), at(1, 31).date(), NOW)
    assert (shown.before_since, shown.before_until) == (at(12, 1, year=2025), at(1, 1))
    assert ranges.own(at(1, 1, year=2025).date(), at(12, 31, year=2025).date(), NOW).buckets()[-1] == at(12, 1, year=2025)


def test_the_days_of_a_range_cover_it():
    shown = ranges.preset("24h", NOW)
    assert shown.days() == [(at(3, 30, 15), at(3, 31)), (at(3, 31), at(3, 31, 15))]
    assert len(ranges.preset("30d", NOW).days()) == 30


def test_a_revoked_key_keeps_its_name(owner, alice, echo_model):
    key, secret = factories.make_key(alice, "Gone")
    chat.ask(client_for(secret))
    ApiKey.objects.filter(pk=key.pk).update(revoked_at=datetime.now(UTC))
    assert "Gone" in page(owner, "?by=key")
