"""Demands about data that owners set: on the form of a key, by program, and in the settings of the account."""

import pytest

from gateway_project.activity.models import Activity
from keys import management_keys
from keys.models import ApiKey
from tests import factories
from tests.conftest import client_for
from tests.pages.conftest import owner_of, signed_in
from tests.pages.dashboard_pages import text

NEW = {"name": "eu only", "spending_type": "NONE", "data_policy": "zdr", "data_regions": "EU, ch eu"}
SETTINGS = "/dashboard/settings/data/"


@pytest.fixture
def owner(alice):
    return signed_in(owner_of(alice))


def demands(row):
    row.refresh_from_db()
    return row.data_policy, row.data_regions


def test_a_key_is_made_with_demands(owner, alice):
    page = owner.post("/dashboard/keys/new/", {**NEW, "account": alice.pk})
    assert "mgw_" in page.content.decode()
    assert demands(ApiKey.objects.get()) == ("zdr", ["eu", "ch"])


def test_a_key_without_demands_allows_any_provider(owner, alice):
    owner.post("/dashboard/keys/new/", {**NEW, "account": alice.pk, "data_policy": "any", "data_regions": ""})
    assert demands(ApiKey.objects.get()) == ("", None)


def test_the_page_of_a_key_says_and_changes_its_demands(owner, alice):
    key, _ = factories.make_key(alice, "laptop", data_policy="deny", data_regions=["eu", "ch"])
    page = f"/dashboard/keys/{key.pk}/"
    assert "Only providers that do not train on them, processed in eu or ch" in owner.get(page).content.decode()
    owner.post(f"{page}change/", {"name": "laptop", "data_policy": "zdr", "data_regions": "eu"})
    assert demands(key) == ("zdr", ["eu"])
    act = Activity.objects.get(act="KEY_CHANGED")
    assert (act.summary, act.before) == (
        "Changed the data policy, data regions.",
        {"data_policy": "deny", "data_regions": ["eu", "ch"]},
    )


def test_a_form_that_lost_its_fields_loosens_nothing(owner, alice):
    key, _ = factories.make_key(alice, "laptop", data_policy="zdr", data_regions=["eu"])
    owner.post(f"/dashboard/keys/{key.pk}/change/", {"name": "renamed"})
    assert (demands(key), key.name) == (("zdr", ["eu"]), "renamed")


@pytest.mark.parametrize("regions", ["europe", "e1", "eu, u", ",".join(f"a{letter}" for letter in "abcdefghijk")])
def test_regions_that_are_no_codes_are_refused_and_what_was_typed_stays(owner, alice, regions):
    page = owner.post(SETTINGS, {"data_policy": "zdr", "data_regions": regions})
    assert "codes of two letters" in page.content.decode()
    assert f'value="{regions}"' in page.content.decode()
    assert demands(alice) == ("", None)
    assert not Activity.objects.exists()


def test_an_owner_sets_demands_of_all_keys_and_takes_them_back(owner, alice):
    assert "Any provider" in owner.get("/dashboard/settings/").content.decode()
    assert owner.post(SETTINGS, {"data_policy": "zdr", "data_regions": "eu"}).status_code == 302
    assert demands(alice) == ("zdr", ["eu"])
    assert "Only providers that keep nothing of them, processed in eu" in owner.get("/dashboard/settings/").content.decode()
    key, _ = factories.make_key(alice)
    page = text(owner.get(f"/dashboard/keys/{key.pk}/"))
    assert "All keys: Only providers that keep nothing of them, processed in eu. This key: Any provider" in page
    owner.post(SETTINGS, {"data_policy": "zdr", "data_regions": "eu"})
    owner.post(SETTINGS, {"data_policy": "any", "data_regions": ""})
    assert demands(alice) == ("", None)
    acts = [(act.before["data_policy"], act.after["data_policy"]) for act in Activity.objects.order_by("id")]
    assert acts == [("", "zdr"), ("zdr", "")]


@pytest.mark.parametrize("role", ["DEVELOPER", "BILLING", "VIEWER"])
def test_only_owners_set_demands_of_the_account(alice, role):
    member = factories.make_user("member@example.com")
    factories.add_member(alice, member, role)
    assert signed_in(member).post(SETTINGS, {"data_policy": "zdr"}).status_code == 403
    assert demands(alice) == ("", None)


def test_a_program_sets_demands_of_a_key(alice):
    program = client_for(management_keys.issue(alice, name="terraform", created_by=owner_of(alice))[1])
    made = program.post("/api/keys", {"name": "x", "dataPolicy": "zdr", "dataRegions": ["eu", "eu"]}).json()
    assert (made["dataPolicy"], made["dataRegions"]) == ("zdr", ["eu"])
    key = ApiKey.objects.get()
    assert demands(key) == ("zdr", ["eu"])
    program.patch(f"/api/keys/{key.pk}", {"name": "y"})
    assert demands(key) == ("zdr", ["eu"])
    changed = program.patch(f"/api/keys/{key.pk}", {"dataPolicy": None, "dataRegions": []}).json()
    assert (changed["dataPolicy"], changed["dataRegions"]) == (None, None)
    assert demands(key) == ("", None)
