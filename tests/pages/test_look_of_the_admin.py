"""How the admin looks and works for everybody: wide and narrow, light and dark, with a screen reader. In a real Chromium.

Each kind of page is visited once, in the light. ``make faults`` visits every page of every table, in the light and in the dark,
on a desk and on a phone.
"""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.db import transaction
from django.test import RequestFactory
from django.urls import get_resolver, resolve
from django.utils import timezone
from playwright.sync_api import expect

from billing.models import CreditRequest, OwnerRequest, SecondFactorRequest, User
from completions.models import Bill, BillComparison, BilledModel, Completion, LanguageModel, PriceRequest
from gateway_project import identifiers
from keys import lifecycle
from keys.models import ApiKey, RefusalCount
from keys.refusal_history import collector
from keys.spending_limit import SpendingLimit
from tests import chat, factories, usage
from tests.browser import faults, faults_everywhere, faults_in_the_dark, found_on, sign_in
from tests.conftest import client_for
from tests.keys.refusal_history.conftest import _nothing_collected
from tests.pages import admin_rows
from tests.pages.dashboard_pages import use
from tests.pages.desk_pages import ROOT, root

__all__ = ["_nothing_collected", "root"]

PAGES = [
    "/admin/",
    "/admin/completions/",
    "/admin/billing/account/?is_active__exact=1&q=alice",
    "/admin/billing/account/{account}/change/",
    "/admin/billing/account/{account}/credit/",
    "/admin/billing/creditrequest/",
    "/admin/billing/creditrequest/{asked}/change/",
    "/admin/billing/creditrequest/{asked}/approve/",
    "/admin/billing/creditrequest/{asked}/decline/",
    "/admin/billing/account/{account}/purchase/",
    "/admin/billing/account/{account}/closing-refund/",
    "/admin/billing/account/{account}/correct/{entry}/",
    "/admin/billing/account/{account}/lost-phone/{user}/",
    "/admin/billing/account/{account}/hand-over/",
    "/admin/billing/ledgerentry/{entry}/change/",
    "/admin/completions/completion/compare/?first={completion}&second={completion}",
    "/admin/keys/apikey/{key}/raise/",
    "/admin/billing/ledgerentry/",
    "/admin/billing/hold/",
    "/admin/keys/apikey/{key}/trial/",
    "/admin/completions/languagemodel/",
    "/admin/billing/user/{user}/change/",
    "/admin/billing/user/add/",
    "/admin/auth/group/add/",
    "/admin/keys/apikey/",
    "/admin/keys/apikey/{key}/change/",
    "/admin/keys/apikey/{key}/revoke/",
    "/admin/completions/languagemodel/acme/large/change/",
    "/admin/completions/languagemodel/acme/large/price/",
    "/admin/completions/provider/echo/change/",
    "/admin/rankings/alias/queue/",
    "/admin/activity/activity/",
    "/admin/password_change/",
    "/admin/search/",
    "/admin/search/?q=alice",
    "/admin/billing/account/{account}/months/{month}/",
    "/admin/completions/completion/{completion}/change/",
    "/admin/completions/provider/",
    "/admin/completions/providerday/",
    "/admin/completions/billcomparison/{comparison}/change/",
    "/admin/completions/bill/import/",
    "/admin/completions/providerprice/add/",
    "/admin/completions/incident/add/",
    "/admin/completions/route/{route}/call/",
    "/admin/billing/signinlimit/unblock/?address=alice@example.org",
]
# Further acts, whose pages are made of the same parts.
ACTS = [
    "/admin/completions/completion/compare/",
    "/admin/billing/account/{account}/close/",
    "/admin/billing/account/{account}/refund/{purchase}/",
    "/admin/billing/account/{account}/password-link/{user}/",
    "/admin/billing/ownerrequest/{owner_request}/approve/",
    "/admin/billing/ownerrequest/{owner_request}/decline/",
    "/admin/billing/secondfactorrequest/{factor_request}/approve/",
    "/admin/billing/secondfactorrequest/{factor_request}/decline/",
    "/admin/completions/pricerequest/{price_request}/approve/",
    "/admin/completions/pricerequest/{price_request}/decline/",
    "/admin/completions/languagemodel/acme/large/price/{coming_price}/",
    "/admin/keys/apikey/{key}/limit/",
    "/admin/keys/apikey/{key}/rates/",
]
# What is no page: it redirects, answers a program, or is only posted to.
NOT_PAGES = {
    "cell",
    *("login", "logout", "autocomplete", "jsi18n", "view_on_site", "activity_activity_export", "password_change_done"),
    *(
        "completions_catalogproposal_approve",
        "completions_catalogproposal_dismiss",
        "billing_account_reopen",
        "auth_user_password_change",
    ),
}
_OF_TABLES = ("_changelist", "_add", "_change", "_delete", "_history")
DARK = ["/admin/billing/account/{account}/change/", "/admin/keys/apikey/{key}/change/"]  # the fullest


@pytest.fixture
def ids(root, alice):
    """The ids in the paths, of an account with a key, entries, a refused request, a model and a credit that waits."""
    factories.credit(alice, 500)
    factories.make_account("Alice and daughters")
    factories.make_model("acme/large")
    key, secret = factories.make_key(alice, "laptop")
    asked = CreditRequest.objects.create(
        reference="form", account=alice, amount_cents=20_000, reason="Sorry", requested_by=factories.make_user("s@example.org")
    )
    lifecycle.set_spending_limit(key, SpendingLimit(500, "RECURRING", "DAILY"))
    usage.buy(alice, 2_000, "pi_1")
    with transaction.atomic():
        use(key, cost_nanos=1_234_567_891)
    usage.place(alice, 250_000_000, reference=identifiers.short_uuid7())
    hour = timezone.now().replace(minute=0, second=0, microsecond=0)
    RefusalCount.objects.create(key=key, hour=hour, status=429, code="rate_limit_exceeded", error="RateLimited", number=3)
    assert chat.ask(client_for(secret), model="acme/nobody").status_code == 404
    assert chat.ask(client_for(secret), model="acme/large").status_code == 200
    collector.write()
    entry, completion = alice.entries.get(seq=1), Completion.objects.get(model="acme/large")
    rows = {"account": alice, "key": key, "user": alice.members.get(), "asked": asked, "entry": entry, "completion": completion}
    rows["comparison"] = admin_rows.compare(completion.model, completion.provider, hour.date())
    rows |= {"route": completion.model.routes.get(), "purchase": alice.entries.get(type="CREDIT_PURCHASE")}
    return {name: row.pk for name, row in rows.items()} | {"month": f"{hour:%Y/%-m}"}


@pytest.fixture
def all_ids(ids):
    """The ids in all paths, with a row of each table."""
    Bill.objects.all().delete()
    BilledModel.objects.all().delete()
    admin_rows.fill(ApiKey.objects.get(pk=ids["key"]), ids["completion"])
    model = LanguageModel.objects.get(pk="acme/large")
    coming = model.prices.create(
        effective_from=timezone.now() + timedelta(days=1), rates=factories.rates_of(input_nanos=1, output_nanos=1)
    )
    requests = {"owner_request": OwnerRequest, "factor_request": SecondFactorRequest, "price_request": PriceRequest}
    found = {name: table._default_manager.get().pk for name, table in requests.items()}
    return ids | found | {"coming_price": coming.pk, "comparison": BillComparison.objects.get().pk}


def of_tables():
    """Return the pages of every table: its list, its first row, and what adds and deletes one, where that is allowed."""
    request = RequestFactory().get("/")
    request.user = User.objects.get(email=ROOT)
    for table, pages in admin.site._registry.items():
        base, first = f"/admin/{table._meta.app_label}/{table._meta.model_name}/", table._default_manager.first()
        assert first, f"no row of {table}"
        yield from (base, f"{base}{quote(first.pk)}/change/")
        yield from [f"{base}add/"] * pages.has_add_permission(request)
        yield from [f"{base}{quote(first.pk)}/delete/"] * pages.has_delete_permission(request, first)


def found(page, paths, ids, look):
    sign_in(page, ROOT, "/admin/search/")
    return found_on(page, [path.format(**ids) for path in paths], look)


def test_everybody_can_use_the_pages(open_page, ids):
    assert found(open_page(), PAGES, ids, faults) == {}


def test_every_colour_of_the_dark_can_be_read(open_page, ids):
    assert found(open_page(), DARK, ids, faults_in_the_dark) == {}


@pytest.mark.long
def test_everybody_can_use_every_page_in_the_light_and_in_the_dark_on_a_desk_and_on_a_phone(open_page, all_ids):
    paths = [*PAGES, *ACTS, *of_tables()]
    assert found(open_page(), paths, all_ids, faults_everywhere) == {}


def test_every_page_is_looked_at():
    """A new act is added to PAGES or ACTS; those of tables are found by themselves."""
    ids = dict.fromkeys(("key", "completion", "comparison", "route", "coming_price"), 1) | {"user": 1, "month": "2026/11"}
    uuids = ("account", "asked", "entry", "purchase", "owner_request", "factor_request", "price_request")
    ids |= dict.fromkeys(uuids, "019aaf3e-2bc4-7000-8000-000000000000")
    looked_at = {resolve(path.format(**ids).partition("?")[0]).url_name for path in (*PAGES, *ACTS)}
    site: Any = next(each for each in get_resolver().url_patterns if getattr(each, "namespace", None) == "admin")
    names = {name for name in site.reverse_dict if isinstance(name, str)}
    assert {name for name in names if not name.endswith(_OF_TABLES)} - looked_at - NOT_PAGES - {"app_list"} == set()


def test_a_choice_of_dark_or_light_comes_before_what_the_browser_prefers(open_page, root):
    page = open_page(color_scheme="light")
    sign_in(page, ROOT, "/admin/")
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    toggle = page.get_by_role("button", name="Toggle theme")
    toggle.click()  # from what the browser prefers to the other one
    dark = page.evaluate(background)
    assert dark != light
    page.reload()
    assert page.evaluate(background) == dark
    toggle.click()
    assert page.evaluate(background) == light


def test_filters_fold_above_the_list_and_are_open_where_one_is_in_use(open_page, root, alice):
    page = open_page(java_script_enabled=False)
    sign_in(page, ROOT, "/admin/billing/account/")
    yes = page.get_by_role("link", name="Yes").first
    expect(yes).to_be_hidden()
    page.locator("#changelist-filter > summary").click()
    yes.click()
    expect(page.get_by_role("link", name="Clear all filters")).to_be_visible()
    expect(yes).to_be_visible()


def test_money_stands_at_the_right_of_its_column(open_page, root, alice):
    page = open_page()
    sign_in(page, ROOT, "/admin/billing/ledgerentry/")
    cell, head = page.locator("td.field-amount"), page.locator("th.column-amount .text")
    for element in (cell, head):
        assert element.first.evaluate("element => getComputedStyle(element).textAlign") == "end"
