"""What each ready group of staff reads of a customer, on every page of the admin: the table in docs/operating/support.md."""

import csv
import re
from io import StringIO

import pytest
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.urls import reverse

from completions.models import Completion
from gateway_project.activity.models import Activity
from keys.models import ApiKey
from tests.environment import ROOT
from tests.pages.conftest import make_staff, owner_of, signed_in
from tests.pages.staff_readers import _without_navigation, customer, staff_in

__all__ = ["_without_navigation", "customer"]

DOCUMENT = ROOT / "docs" / "operating" / "support.md"
FACTS = {
    "address": r"alice@example\.org|new@example\.org|203\.0\.113\.7",
    "name": r"Alice",
    "key": r"laptop",
    "cost": r"0\.00765",
    "amount": r"9\.992|9\.99\b|30\.37|20\.19",
}


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
    return {group: dict(zip(pages, read, strict=True)) for group, *read in [*groups, ("Catalogue", *("-" for _ in pages))]}


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
