"""The lists of large tables in the admin: their pages, their links, and how many queries they take."""

import re
from datetime import UTC, datetime

import pytest
from django.contrib import admin
from django.contrib.admin.utils import label_for_field
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from playwright.sync_api import expect

from billing import locks
from billing.models import Account, Hold, LedgerEntry, User
from completions.models import Completion, LanguageModel, Price
from gateway_project.activity import log
from gateway_project.activity.models import Activity
from gateway_project.desk import short_ids
from gateway_project.templatetags.amounts import usd
from keys.models import RefusalCount, RefusedRequest, SpendingDay
from rankings.models import Source, SourceState
from tests import factories, usage
from tests.billing import guards
from tests.browser import PHONE, fits, look, sign_in
from tests.pages.conftest import make_staff, signed_in
from tests.rankings.snapshots import make_snapshot

NOW = "2026-11-22T12:00Z"
LARGE = [
    *("activity/activity", "billing/ledgerentry", "billing/hold", "completions/completion"),
    *("keys/spendingday", "keys/refusalcount", "keys/refusedrequest"),
]


@pytest.fixture
def root(db):
    return signed_in(User.objects.create_superuser("root@example.org", factories.PASSWORD))


def fill(account, numbers):
    """Make a row of each large table for each number, each of a key of its own. Return the completions."""
    model = LanguageModel.objects.first() or factories.make_model()
    fixed = {"model": model, "price": Price.objects.get(), "provider": model.routes.get().provider, "is_stream": False}
    refused = {"status": 429, "code": "rate_limit_exceeded", "error": "RateLimited"}
    return [_completion(account, number, fixed, refused) for number in numbers]


@transaction.atomic
def _completion(account, number, fixed, refused):
    key, _ = factories.make_key(account, f"key {number}")
    SpendingDay.objects.create(key=key, day="2026-11-22")
    reference = f"chatcmpl-{key.pk}"
    usage.debit(locks.lock_account(account.pk), 1_000_000, reference, spender=key.pk)
    usage.place(account, 1, reference=reference, expires_at=datetime(2026, 11, 22, 12, tzinfo=UTC))
    RefusalCount.objects.create(key=key, hour=NOW, number=1, **refused)
    RefusedRequest.objects.create(key=key, at=NOW, request_id=f"req_{number}", **refused)
    log.record(None, Activity.Act.CHANGED, key, "Changed it.")
    ended = {"settlement": "reported", "finished_at": NOW, "cost_nanos": 1_000_000, "prompt_tokens": 1_234}
    ended |= {"completion_tokens": 56, "counted_tokens": 1, "spending_day": "2026-11-22"}
    return Completion.objects.create(id=reference, account=account, key=key, **fixed, **ended)


def statements(client, path):
    with CaptureQueriesContext(connection) as captured:
        assert client.get(path).status_code == 200
    return [query["sql"] for query in captured]


@pytest.mark.parametrize("noun", LARGE)
def test_a_large_list_is_never_counted_and_more_rows_take_no_more_queries(root, alice, noun):
    fill(alice, range(2))
    few = statements(root, f"/admin/{noun}/")
    fill(alice, range(2, 12))
    assert len(statements(root, f"/admin/{noun}/")) == len(few)
    assert [sql for sql in few if "COUNT(" in sql] == []


def test_pages_of_a_large_list_follow_each_other_while_rows_are_inserted(root, alice):
    with transaction.atomic():
        for number in range(120):
            log.record(None, Activity.Act.CHANGED, alice, f"act {number}")
    seen, path = [], "/admin/activity/activity/?act=CHANGED"
    while path:
        shown = root.get(path).context["cl"]
        assert ("older" in path) == (shown.newer is not None)
        seen.append([activity.summary for activity in shown.result_list])
        path = shown.older and f"/admin/activity/activity/{shown.older}"
        with transaction.atomic():
            log.record(None, Activity.Act.CHANGED, alice, "meanwhile")
    assert [len(page) for page in seen] == [50, 50, 20]
    assert sum(seen, []) == [f"act {number}" for number in reversed(range(120))]
    back = root.get(f"/admin/activity/activity/{shown.newer}").context["cl"]
    assert [activity.summary for activity in back.result_list] == seen[1]
    assert back.older
    assert back.newer


def test_a_page_that_does_not_exist_is_no_error_of_the_server(root, alice, subtests):
    fill(alice, range(1))
    for noun in LARGE:
        for page in ("older:", "newer:no key", "older:%00", "7", "sideways:1", "older:" + "9" * 99):
            with subtests.test(f"{noun} {page[:20]}"):
                assert root.get(f"/admin/{noun}/?p={page}", follow=True).status_code in (200, 400)


def test_an_entry_a_completion_its_key_and_its_account_lead_to_each_other(root, alice):
    [completion] = fill(alice, range(1))
    entry = LedgerEntry.objects.get(reference=completion.pk)
    pages = {
        "account": f"/admin/billing/account/{alice.pk}/change/",
        "key": f"/admin/keys/apikey/{completion.key_id}/change/",
        "completion": f"/admin/completions/completion/{completion.pk}/change/",
        "entry": f"/admin/billing/ledgerentry/{entry.pk}/change/",
        "hold": f"/admin/billing/hold/{completion.pk}/change/",
    }
    found = {name: _leads_to(root, page) for name, page in pages.items()}
    assert found["completion"] >= {pages["account"], pages["key"], pages["entry"], pages["hold"]}
    assert found["entry"] >= {pages["account"], pages["key"], pages["completion"]}
    assert found["hold"] >= {pages["account"], pages["completion"]}
    assert found["key"] >= {pages["account"]}
    assert found["account"] >= {pages["key"], pages["entry"]}
    its_completions = f"/admin/completions/completion/?key__id__exact={completion.key_id}"
    assert its_completions in found["key"]
    for path in (its_completions, "/admin/billing/ledgerentry/"):
        assert {pages["account"], pages["completion"]} <= _leads_to(root, path)


def _leads_to(client, page):
    """Return the addresses of the links on a page. Those of a search are followed."""
    found = re.findall(r'href="(/admin/[^"]+)"', client.get(page).content.decode())
    addresses = [address.partition("?_changelist_filters")[0] for address in found]
    return {client.get(each)["Location"] if each.startswith("/admin/search/?") else each for each in addresses}


def test_a_list_shows_short_ids_that_can_be_searched_for(root, alice):
    guards.remove("completions_completion")
    first, second = fill(alice, range(2))
    Completion.objects.filter(pk=first.pk).delete()
    Completion.objects.filter(pk=second.pk).update(id="chatcmpl-019aaf3e2bc470008000000000c41d9a")
    shown = short_ids.shorten("chatcmpl-019aaf3e2bc470008000000000c41d9a")
    assert shown == "019aaf3e2bc4…1d9a"
    assert shown in root.get("/admin/completions/completion/").content.decode()
    assert root.get("/admin/search/", {"q": shown})["Location"].endswith("000000c41d9a/change/")


def test_the_health_of_the_sources_is_read_once(root, db):
    few = None
    for source in (Source.LMSYS_ARENA, Source.OPENROUTER, Source.HUGGINGFACE, Source.ARTIFICIAL_ANALYSIS, Source.INTERNAL):
        SourceState.objects.create(source=source, last_success_at=NOW)
        if source != Source.INTERNAL:
            make_snapshot(source, {"GENERAL": {"some model": 1, "another": 2}})
        few = few or len(statements(root, "/admin/rankings/sourcestate/"))
    assert len(statements(root, "/admin/rankings/sourcestate/")) <= few + 3  # the age of the data of some sources


@pytest.mark.parametrize("noun", ["billing/account", "keys/apikey", "billing/user", "rankings/snapshot", "billing/membership"])
def test_more_rows_take_no_more_queries_in_other_lists(root, alice, noun):
    for number in range(2):
        _everything(number)
    few = statements(root, f"/admin/{noun}/")
    for number in range(2, 8):
        _everything(number)
    assert len(statements(root, f"/admin/{noun}/")) == len(few)


def _everything(number):
    account = factories.make_account(f"Company {number}", owner=factories.make_user(f"person{number}@example.org"))
    factories.make_key(account)
    make_snapshot(Source.LMSYS_ARENA, {"GENERAL": {"some model": number}})


def test_every_column_of_the_large_lists_is_on_the_screen(open_page, alice):
    User.objects.create_superuser("root@example.org", factories.PASSWORD)
    fill(alice, range(3))
    page = open_page(viewport={"width": 1280, "height": 800})
    sign_in(page, "root@example.org", "/admin/completions/completion/")
    fits_in_the_list = "list => list.scrollWidth <= list.clientWidth"
    for path in ("completions/completion", "billing/ledgerentry", "billing/hold"):
        page.goto(f"/admin/{path}/")
        look(page, path.replace("/", "-"))
        assert page.locator("#changelist .results").evaluate(fits_in_the_list), path


def test_a_long_name_is_cut_to_one_line_and_whole_in_its_title_and_on_focus(open_page, alice):
    User.objects.create_superuser("root@example.org", factories.PASSWORD)
    name = "Company of a very long name " * 4
    Account.objects.filter(pk=alice.pk).update(name=name)
    fill(alice, range(1))
    page = open_page(**PHONE)
    sign_in(page, "root@example.org", "/admin/billing/ledgerentry/")
    cell = page.locator("td.field-of_account").first
    link = cell.get_by_role("link")
    expect(cell).to_have_attribute("title", name.strip())
    height = link.bounding_box()["height"]
    assert fits(page)
    link.focus()
    assert link.bounding_box()["height"] > 2 * height


def test_a_phone_shows_every_figure_of_a_row_beside_its_name(open_page, alice):
    User.objects.create_superuser("root@example.org", factories.PASSWORD)
    fill(alice, [1])
    page = open_page(**PHONE)
    sign_in(page, "root@example.org", "/admin/billing/ledgerentry/")
    row = page.locator("#result_list tbody").get_by_role("row").first
    expect(row.get_by_role("cell")).not_to_have_count(0)
    width = page.evaluate("innerWidth")
    for cell in row.get_by_role("cell").all():
        box = cell.bounding_box()
        assert box["x"] + box["width"] <= width, cell.inner_text()
    name = row.locator(".field-amount").evaluate("cell => getComputedStyle(cell, '::before').content")
    assert name == '"Amount"'
    look(page, "list-phone")


def test_a_list_leads_only_to_pages_that_staff_may_view(alice):
    fill(alice, range(1))
    reader = signed_in(make_staff("reader@example.org", ["completions.view_completion"]))
    assert reader.get("/admin/completions/completion/").status_code == 200
    assert reader.get(f"/admin/billing/account/{alice.pk}/change/").status_code == 403
    assert Hold.objects.count() == 1


def test_rows_say_in_words_what_is_stored_and_round_money_with_the_exact_amount_on_focus(root, alice):
    [completion] = fill(alice, [1])
    entry, hold = LedgerEntry.objects.get(reference=completion.pk), Hold.objects.get(pk=completion.pk)
    ledger = root.get("/admin/billing/ledgerentry/").content.decode()
    assert '<span title="USAGE_DEBIT">Usage</span>' in ledger
    assert ">-$0.001</data></td>" in ledger
    holds = root.get("/admin/billing/hold/").content.decode()
    assert '<span title="HELD">open</span>' in holds
    assert str(usd(1)) in holds
    completions = root.get("/admin/completions/completion/").content.decode()
    assert '<span class="support-state active" title="reported">succeeded</span>' in completions
    assert ">$0.001</data></td>" in completions
    assert (str(entry), str(hold)) == (f"Usage {completion.pk}", f"{completion.pk}, open")


@pytest.mark.parametrize("page", ["billing/ledgerentry/{entry}/", "billing/hold/{hold}/", "completions/completion/{hold}/"])
def test_no_time_is_shown_without_its_zone(root, alice, page):
    [completion] = fill(alice, [1])
    entry = LedgerEntry.objects.get(reference=completion.pk)
    shown = root.get(f"/admin/{page.format(entry=entry.pk, hold=completion.pk)}change/").content.decode()
    assert not re.search(r"\d [ap]\.m\.", shown)
    assert re.search(r'<time datetime="[^"]+" title="[^"]+ UTC" data-utc>[^<]+ UTC</time>', shown)
    assert "dashboard/dashboard.js" in shown


@pytest.mark.parametrize("page", ["keys/apikey/", "keys/apikey/{key}/change/"])
def test_a_plain_column_of_times_has_seconds_and_a_zone(root, alice, page):
    key, _ = factories.make_key(alice)
    shown = root.get(f"/admin/{page.format(key=key.pk)}").content.decode()
    assert re.search(r">\d{1,2} \w{3} \d{4}, \d\d:\d\d:\d\d UTC<", shown)
    assert not re.search(r"\d [ap]\.m\.", shown)


def test_labels_write_abbreviations_in_capitals():
    pages = admin.site._registry.items()
    shown = {str(field.verbose_name) for model, _ in pages for field in model._meta.local_fields}
    shown |= {str(label_for_field(name, model, page)) for model, page in pages for name in page.list_display}
    assert {"tax ID", "base URL", "API key env"} <= shown
    assert [label for label in shown if re.search(r"\b([Ii]d|[Uu]rl|[Aa]pi)\b", label)] == []


def test_filters_begin_with_a_capital_but_ids_stay_as_they_are(root):
    for name in ("acme/large", "acme/small"):  # one alone is no choice
        factories.make_model(name)
    page = " ".join(root.get("/admin/keys/apikey/").content.decode().split())
    assert "<summary>Spending type</summary>" in page
    assert ">One-time limit</a>" in page
    assert ">acme/large</a>" in root.get("/admin/completions/completion/").content.decode()
