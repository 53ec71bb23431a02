"""What each ready group of staff reads of a customer, on every page of the admin: the table in docs/operating/support.md."""

import csv
import re
from datetime import UTC, datetime
from io import StringIO

import pytest
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Group
from django.db import transaction
from django.urls import reverse

from billing import locks
from billing.models import CreditRequest, Payment
from completions.models import Completion
from gateway_project.activity import log
from gateway_project.activity.models import Activity
from keys.models import ApiKey, RefusalCount, RefusedRequest, SpendingDay
from tests import factories, usage
from tests.environment import ROOT
from tests.gateway_project.activity.test_staff_groups import fill as make_groups
from tests.pages import admin_rows
from tests.pages.conftest import make_staff, owner_of, signed_in

DOCUMENT = ROOT / "docs" / "operating" / "support.md"
FACTS = {
    "address": r"alice@example\.org|new@example\.org|203\.0\.113\.7",
    "name": r"Alice",
    "key": r"laptop",
    "cost": r"0\.00765",
    "amount": r"9\.992|9\.99\b|30\.37|20\.19",
}


@pytest.fixture
def customer(alice):
    make_groups()
    key, _ = factories.make_key(alice, "laptop")
    model = factories.make_model("acme/fast")
    reference, cost_nanos, now = f"chatcmpl-{key.pk}", 7_650_000, datetime.now(UTC)
    with transaction.atomic():
        usage.debit(locks.lock_account(alice.pk), cost_nanos, reference, spender=key.pk)
        usage.place(alice, 1, reference=reference, expires_at=now)
        SpendingDay.objects.create(key=key, day=now.date(), spent_nanos=cost_nanos)
        refused = {"status": 429, "code": "rate_limit_exceeded", "error": "RateLimited"}
        RefusalCount.objects.create(key=key, hour=now.replace(minute=0, second=0, microsecond=0), number=1, **refused)
        RefusedRequest.objects.create(key=key, at=now, request_id="req_1", **refused)
        ended = {"settlement": "reported", "finished_at": now, "cost_nanos": cost_nanos, "prompt_tokens": 9}
        ended |= {"completion_tokens": 9, "counted_tokens": 1, "spending_day": now.date()}
        ended |= {"failed_attempts": [{"provider": "echo", "status": 503, "reason": "overloaded"}]}
        fixed = {"model": model, "price": model.prices.get(), "provider": model.routes.get().provider, "is_stream": False}
        Completion.objects.create(id=reference, account=alice, key=key, **fixed, **ended)
    admin_rows.fill(key, reference)
    asker = factories.make_user("asker@example.org")
    CreditRequest.objects.create(reference="form", account=alice, amount_cents=3_037, reason="x", requested_by=asker)
    Payment.objects.create(account=alice, amount_cents=2_019, processor="stripe", is_live=True, session_id="cs_2")
    with transaction.atomic():
        log.record(None, Activity.Act.CREDITED, alice, "Credited $30.37.", account_id=alice.pk)
        log.record(None, Activity.Act.CHANGED, owner_of(alice), "Changed a passkey of alice@example.org.")
        log.record(None, Activity.Act.CHANGED, model, "Changed the model.")
    return alice


def staff_in(group):
    staff = factories.make_user(f"{group.replace(' ', '-')}@example.com", is_staff=True)
    staff.groups.add(Group.objects.get(name=group))
    return signed_in(staff)


def addresses(model):
    """Return the list of a model, and the pages of its first and last row."""
    name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
    rows = {each for order in ("pk", "-pk") for each in model._default_manager.order_by(order)[:1]}
    return [reverse(f"{name}_changelist"), *(reverse(f"{name}_change", args=[quote(row.pk)]) for row in rows)]


def read_on(client, addresses):
    """Return which of the facts the pages show, as the table has it."""
    replies = [client.get(address) for address in addresses]
    text = " ".join(reply.content.decode() for reply in replies if reply.status_code == 200)
    return ", ".join(fact for fact, words in FACTS.items() if re.search(words, text)) or "-"


def documented():
    """Return the table: by group what it reads, by page."""
    head, _, *rows = re.search(r"(\| Page \|.*?)\n\n", DOCUMENT.read_text(), re.DOTALL)[1].splitlines()
    columns = zip(*([cell.strip() for cell in row.strip("|").split("|")] for row in (head, *rows)), strict=True)
    (_, *pages), *groups = columns
    return {group: dict(zip(pages, read, strict=True)) for group, *read in groups}


@pytest.fixture(autouse=True)
def _without_navigation(monkeypatch):
    monkeypatch.setattr(admin.site, "get_app_list", lambda *args: [])  # two fifths of the work of a page


@pytest.mark.parametrize("group", documented())
def test_a_group_reads_of_customers_what_the_table_says(customer, group):
    client, table = staff_in(group), documented()[group]
    found = {str(model._meta.verbose_name_plural): addresses(model) for model in admin.site._registry}
    assert {page: read_on(client, found[page]) for page in table} == table


def test_no_other_page_shows_a_customer_even_to_a_superuser(customer, superuser):
    found = {str(model._meta.verbose_name_plural): addresses(model) for model in admin.site._registry}
    others = found.keys() - documented()["Support"].keys()
    assert {page: read for page in others if (read := read_on(superuser, found[page])) != "-"} == {}


WAYS = [
    "/admin/",
    "/admin/search/?q=alice",
    "/admin/search/?q=alice@example.org",
    "/admin/search/?q={account}",
    "/admin/search/?q={completion}",
    "/admin/search/?q={key}",
    "/admin/search/?q=req_1",
    "/admin/billing/account/{account}/change/",
    "/admin/billing/account/{account}/history/",
    "/admin/billing/account/{account}/months/2026/11/",
    "/admin/billing/account/{account}/hand-over/",
    "/admin/billing/account/{account}/lost-phone/{user}/",
    "/admin/keys/apikey/{key}/change/",
    "/admin/keys/apikey/{key}/trial/",
    "/admin/completions/completion/?q=alice",
    "/admin/completions/completion/?account__id__exact={account}",
    "/admin/completions/completion/compare/?first={completion}&second={completion}",
    "/admin/activity/activity/?account_id={account}",
    "/admin/activity/activity/?q=alice@example.org",
    "/admin/activity/activity/?object_type=keys.apikey",
    "/admin/activity/activity/?object_type=billing.user&object_id={user}",
    "/admin/activity/activity/{act}/change/",
    "/admin/autocomplete/?app_label=billing&model_name=membership&field_name=user&term=alice",
    "/admin/autocomplete/?app_label=billing&model_name=membership&field_name=account&term=alice",
]


def test_the_catalogue_finds_no_customer_by_any_way(customer, superuser, subtests):
    client, key = staff_in("Catalogue"), ApiKey.objects.get()
    ids = {"account": customer.pk, "key": key.pk, "completion": Completion.objects.get().pk, "user": owner_of(customer).pk}
    ids["act"] = Activity.objects.get(act="CREDITED").pk
    for way in WAYS:
        with subtests.test(way):
            reply = client.get(way.format(**ids), follow=True)
            shown = reply.content.decode().replace(reply.wsgi_request.GET.get("q", "\0"), "")
            assert [fact for fact, words in FACTS.items() if re.search(words, shown)] == []
    assert "Changed the model." in client.get("/admin/activity/activity/").content.decode()
    assert "Credited $30.37." in superuser.get("/admin/activity/activity/").content.decode()


def test_the_file_of_the_log_has_no_more_than_the_list(customer):
    staff = make_staff("export@example.com", ["activity.view_activity", "activity.export_activity", "billing.view_invitation"])
    rows = list(csv.DictReader(StringIO(signed_in(staff).post("/admin/activity/activity/export/").content.decode())))
    assert [(row["act"], row["who"]) for row in rows] == [("EXPORTED", "export@example.com")] * len(rows)
