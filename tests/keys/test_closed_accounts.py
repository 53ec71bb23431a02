"""A closed account neither offers nor makes keys, and lists none as active."""

import pytest
from django.test import RequestFactory
from django.urls import reverse

from billing.models import Account
from keys import acts, management_keys
from keys.models import ApiKey, ManagementKey
from tests import factories
from tests.conftest import client_for
from tests.pages.conftest import owner_of, signed_in, superuser  # noqa: F401  fixtures


@pytest.fixture
def closed(alice):
    factories.make_key(alice, "laptop")
    factories.make_key(alice, "old")
    management_keys.issue(alice, name="terraform", created_by=owner_of(alice))
    Account.objects.filter(pk=alice.pk).update(is_active=False)
    return alice


def count():
    return ApiKey.objects.count(), ManagementKey.objects.count()


@pytest.mark.parametrize("page", ["/dashboard/", "/dashboard/keys/", "/dashboard/keys/management/", "/dashboard/usage/"])
def test_no_page_offers_a_key_or_lists_one_as_active(closed, page):
    shown = signed_in(owner_of(closed)).get(page).content.decode()
    assert not [each for each in _addresses() if f'href="{each}"' in shown]
    assert ">Active<" not in shown
    if "keys" in page:
        assert "Account closed" in shown


def _addresses():
    return [reverse("new-key"), reverse("new-management-key")]


def test_no_page_makes_a_key(closed):
    client, before = signed_in(owner_of(closed)), count()
    for address in _addresses():
        for reply in (client.get(address, follow=True), client.post(address, {"name": "new"}, follow=True)):
            assert "The account is closed: its keys are refused, and it gets no new ones." in reply.content.decode()
    assert count() == before


def test_an_account_that_closes_meanwhile_gets_no_key(closed):
    closed.is_active = True  # as the page read it
    request = RequestFactory().post("/")
    request.user = owner_of(closed)
    before = count()
    with pytest.raises(acts.AccountClosed):
        acts.make_key(request, closed, name="late")
    with pytest.raises(acts.AccountClosed):
        acts.make_management_key(request, closed, "late")
    assert count() == before


def test_the_api_makes_no_key(alice):
    _, secret = management_keys.issue(alice, name="terraform", created_by=owner_of(alice))
    Account.objects.filter(pk=alice.pk).update(is_active=False)
    before = count()
    reply = client_for(secret).post("/api/keys", {"name": "new"}, format="json")
    assert (reply.status_code, reply.json()["error"]["code"]) == (401, "invalid_api_key")
    assert count() == before


def test_staff_see_that_the_account_is_closed(closed, superuser):  # noqa: F811
    for page in ("/admin/keys/apikey/", f"/admin/keys/apikey/{ApiKey.objects.first().pk}/change/"):
        shown = superuser.get(page).content.decode()
        assert "Account closed" in shown
        assert ">Active<" not in shown


def test_an_account_that_is_opened_again_has_its_keys(closed):
    Account.objects.filter(pk=closed.pk).update(is_active=True)
    shown = signed_in(owner_of(closed)).get("/dashboard/keys/").content.decode()
    assert ">Active<" in shown
    assert f'href="{_addresses()[0]}"' in shown
