"""A change form that was opened before somebody else's change saves nothing, and says what changed."""

import re
from html import unescape
from typing import Any

import pytest

from billing.models import Account, Membership
from completions.models import LanguageModel, Provider, Route
from gateway_project.activity.models import Activity
from tests import factories
from tests.pages.dashboard_pages import text
from tests.pages.desk_pages import account_page, accounts_form


def seen_by(client, path):
    """Open the page, and return what it keeps of what it showed."""
    return {"_seen": unescape(re.search(r'name="_seen" value="([^"]*)"', client.get(path).content.decode())[1])}


def test_a_page_that_is_up_to_date_is_saved(superuser, alice):
    seen = seen_by(superuser, account_page(alice))
    assert superuser.post(account_page(alice), {**accounts_form(alice, name="Renamed"), **seen}).status_code == 302
    alice.refresh_from_db()
    assert alice.name == "Renamed"


def test_an_outdated_page_says_what_changed_and_saves_nothing(superuser, alice, rows):
    form = {**accounts_form(alice, requests_per_minute="60"), **seen_by(superuser, account_page(alice))}
    Account.objects.filter(pk=alice.pk).update(name="Renamed", tokens_per_minute=7)
    before = rows()
    page = superuser.post(account_page(alice), form)
    said = text(page)
    assert "Nothing was saved: this was changed since you opened it." in said
    assert "Name was “Alice” and is “Renamed”." in said
    assert "Tokens per minute was empty and is “7”." in said
    assert 'value="Renamed"' in page.content.decode()
    assert rows() == before
    again = {**accounts_form(alice, name="Renamed", requests_per_minute="60")}
    assert superuser.post(account_page(alice), {**again, **seen_by(superuser, account_page(alice))}).status_code == 302


def test_two_who_opened_the_same_page_do_not_overwrite_each_other(superuser, alice):
    opened = [seen_by(superuser, account_page(alice)) for _ in range(2)]
    replies = [
        superuser.post(account_page(alice), {**accounts_form(alice, requests_per_minute=rate), **seen})
        for rate, seen in zip(("60", "90"), opened, strict=True)
    ]
    assert [reply.status_code for reply in replies] == [302, 200]
    assert "Requests per minute was empty and is “60”." in text(replies[1])
    assert Activity.objects.filter(act="CHANGED").count() == 1


def test_a_balance_that_moves_makes_no_page_outdated(superuser, alice):
    form = {**accounts_form(alice, name="Renamed"), **seen_by(superuser, account_page(alice))}
    factories.credit(alice, 5)
    assert superuser.post(account_page(alice), form).status_code == 302


def test_rows_beneath_an_object_that_changed_are_looked_at_too(superuser, echo_model):
    page = "/admin/completions/languagemodel/demo_2Fecho/change/"
    seen = seen_by(superuser, page)
    Route.objects.update(priority=7)
    assert "Priority was “1” and is “7”." in text(superuser.post(page, seen))
    assert Route.objects.get().priority == 7


def test_rows_beneath_an_object_that_were_removed_are_looked_at_too(superuser, alice, rows):
    form = {**accounts_form(alice, name="Renamed"), **seen_by(superuser, account_page(alice))}
    Membership.objects.filter(account=alice).delete()
    before = rows()
    assert "A row was removed." in text(superuser.post(account_page(alice), form))
    assert rows() == before


@pytest.mark.parametrize("seen", ["", "{", '{"": 1}', '{"": {"name": []}}', "null", "[" * 100_000])
def test_a_damaged_form_is_not_saved(superuser, alice, rows, seen):
    before = rows()
    reply = superuser.post(account_page(alice), {**accounts_form(alice, name="Renamed"), "_seen": seen})
    assert "Nothing was saved" in text(reply)
    assert rows() == before


def test_models_providers_and_people_keep_what_they_show(superuser, echo_model, alice):
    provider, user = factories.make_provider("shed", kind="openai", base_url="http://shed:1/v1"), alice.members.get()
    provider.seal_api_key("sk-secret")
    provider.save()
    opened: dict[str, tuple[Any, dict[str, Any]]] = {
        "/admin/completions/provider/shed/change/": (Provider.objects, {"is_enabled": False}),
        "/admin/completions/languagemodel/demo_2Fecho/change/": (LanguageModel.objects, {"name": "Other"}),
        f"/admin/completions/route/{Route.objects.get().pk}/change/": (Route.objects, {"weight": 7}),
        f"/admin/billing/user/{user.pk}/change/": (type(user).objects.filter(pk=user.pk), {"first_name": "Other"}),
    }
    for path, (found, columns) in opened.items():
        seen = seen_by(superuser, path)
        assert "sk-secret" not in seen["_seen"]
        found.update(**columns)
        assert "Nothing was saved" in text(superuser.post(path, seen)), path
