"""Staff who may change users cannot give themselves or others more permissions than they have."""

import pytest
from django.contrib.auth.models import Permission
from django.urls import reverse

from billing.models import User
from tests import factories, sessions


@pytest.fixture
def clerk(db):
    clerk = factories.make_user("clerk@example.org", is_staff=True)
    names = ["view_user", "add_user", "change_user", "delete_user"]
    clerk.user_permissions.set(Permission.objects.filter(codename__in=names))
    return clerk


@pytest.fixture
def boss(db):
    return factories.make_user("boss@example.org", is_staff=True, is_superuser=True)


def change(client, person, **fields):
    url = reverse("admin:billing_user_change", args=[person.pk])
    empty = {"memberships-TOTAL_FORMS": "0", "memberships-INITIAL_FORMS": "0"}
    return client.post(url, {"email": person.email, "is_active": "on", **empty, **fields})


def test_staff_cannot_make_themselves_superuser(client, clerk):
    sessions.sign_in(client, clerk)
    everything = [str(pk) for pk in Permission.objects.values_list("pk", flat=True)]
    change(client, clerk, first_name="Busy", is_superuser="on", user_permissions=everything)
    clerk = User.objects.get(pk=clerk.pk)
    assert (clerk.first_name, clerk.is_superuser, clerk.user_permissions.count()) == ("Busy", False, 4)


def test_staff_cannot_make_a_user_staff(client, clerk):
    sessions.sign_in(client, clerk)
    client.post(reverse("admin:billing_user_add"), {"email": "new@example.org", "is_staff": "on", "is_superuser": "on"})
    made = User.objects.get(email="new@example.org")
    assert (made.is_staff, made.is_superuser) == (False, False)


def test_only_superusers_can_change_a_superuser(client, clerk, boss):
    sessions.sign_in(client, clerk)
    assert change(client, boss, email="mine@example.org").status_code == 403
    url = reverse("admin:auth_user_password_change", args=[boss.pk])
    fields = {"usable_password": "true", "password1": "x7-long-enough", "password2": "x7-long-enough"}
    assert client.post(url, fields).status_code == 403
    assert client.post(reverse("admin:billing_user_delete", args=[boss.pk]), {"post": "yes"}).status_code == 403
    unchanged = User.objects.get(pk=boss.pk)
    assert (unchanged.email, unchanged.password) == (boss.email, boss.password)


def test_a_superuser_can_grant_permissions(client, clerk, boss):
    sessions.sign_in(client, boss)
    change(client, clerk, is_staff="on", is_superuser="on")
    assert User.objects.get(pk=clerk.pk).is_superuser


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/admin/completions/provider/%00/change/", 404),
        ("/admin/billing/ledgerentry/?type__exact=%00", 400),
        ("/dashboard/?page=%00", 400),
    ],
)
def test_a_nul_character_in_an_address_is_a_client_error(client, boss, path, status):
    sessions.sign_in(client, boss)
    assert client.get(path).status_code == status
