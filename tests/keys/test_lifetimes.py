"""The maximum lifetime of an account's keys: who sets it, what it does to new keys, new secrets, changes and existing keys."""

import threading
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.utils import timezone

from billing import locks
from billing.models import Account, Membership, Role
from gateway_project.activity.models import Activity
from keys import management_keys
from keys.models import ApiKey, FormerSecret, SpendingDay
from tests import factories
from tests.conftest import client_for
from tests.pages.conftest import owner_of, signed_in
from tests.pages.dashboard_pages import text
from tests.waiting import somebody_waits, until

KEYS, LIFETIME, NEW = "/dashboard/keys/", "/dashboard/keys/lifetime/", "/dashboard/keys/new/"
DAY, SOON = timedelta(days=1), timedelta(minutes=1)


@pytest.fixture
def owner(alice):
    return signed_in(owner_of(alice))


@pytest.fixture
def api(alice):
    return client_for(management_keys.issue(alice, name="terraform", created_by=alice.members.get())[1])


def limit_to(account, days):
    Account.objects.filter(pk=account.pk).update(key_lifetime_days_max=days)
    account.refresh_from_db()


def end_of(key):
    return ApiKey.objects.values_list("expires_at", flat=True).get(pk=key if isinstance(key, str) else key.pk)


def is_in(moment, days):
    return abs(moment - timezone.now() - days * DAY) < SOON


def made_before(account, name, days, **fields):
    key, _ = factories.make_key(account, name, **fields)
    ApiKey.objects.filter(pk=key.pk).update(created_at=timezone.now() - days * DAY)
    return key


def acts():
    return list(Activity.objects.order_by("id").values_list("act", "summary"))


# --- The owner sets it ------------------------------------------------------------------------------------------------


def test_an_owner_sets_the_maximum_and_existing_keys_keep_their_ends(owner, alice):
    key, _ = factories.make_key(alice)
    assert owner.post(LIFETIME, {"days": "90"}).status_code == 302
    alice.refresh_from_db()
    assert alice.key_lifetime_days_max == 90
    assert end_of(key) is None
    assert acts() == [("CHANGED", "Set the maximum lifetime of keys to 90 days; it was none.")]
    assert owner.post(LIFETIME, {"days": ""}).status_code == 302
    alice.refresh_from_db()
    assert alice.key_lifetime_days_max is None
    assert acts()[1:] == [("CHANGED", "Set the maximum lifetime of keys to none; it was 90 days.")]


@pytest.mark.parametrize("days", ["0", "-1", "3651", "x", "1.5"])
def test_a_wrong_maximum_is_refused_and_kept_in_the_form(owner, alice, days):
    reply = owner.post(LIFETIME, {"days": days})
    assert "Nothing was changed" in text(reply)
    assert f'value="{days}"' in reply.content.decode()
    alice.refresh_from_db()
    assert (alice.key_lifetime_days_max, acts()) == (None, [])


def test_only_an_owner_sets_or_applies_it(alice):
    limit_to(alice, 30)
    key = made_before(alice, "old", 100)
    ApiKey.objects.filter(pk=key.pk).update(expires_at=None)
    user = factories.make_user("developer@example.org")
    factories.add_member(user=user, account=alice)
    Membership.objects.filter(user=user).update(role=Role.DEVELOPER)
    developer = signed_in(user)
    assert developer.post(LIFETIME, {"days": "90"}).status_code == 403
    assert developer.post(f"{LIFETIME}apply/").status_code == 403
    assert "Change" not in text(developer.get(KEYS)).partition("Keys live 30 days at most")[2][:12]
    alice.refresh_from_db()
    assert (alice.key_lifetime_days_max, end_of(key), acts()) == (30, None, [])


# --- New keys, changes and new secrets ----------------------------------------------------------------------------------


def test_a_new_key_without_an_end_ends_at_the_maximum_on_every_way(owner, api, alice):
    limit_to(alice, 90)
    page = owner.post(NEW, {"name": "web", "spending_type": "NONE", "account": str(alice.pk)})
    assert page.status_code == 200
    assert is_in(end_of(alice.keys.get(name="web")), 90)
    made = api.post("/api/keys", {"name": "program"}).json()
    assert made["lifetimeDaysMax"] == 90
    assert is_in(end_of(made["id"]), 90)
    call_command("create_key", "alice@example.org", name="operator")
    assert is_in(end_of(alice.keys.get(name="operator")), 90)


def test_a_later_end_is_refused_by_its_field(owner, api, alice):
    limit_to(alice, 90)
    late = timezone.now() + 91 * DAY
    reply = owner.post(NEW, {"name": "web", "spending_type": "NONE", "account": str(alice.pk), "last_day": f"{late:%Y-%m-%d}"})
    assert "The account’s keys live 90 days at most: until" in text(reply)
    assert f"{late:%Y-%m-%d}" in reply.content.decode()
    error = api.post("/api/keys", {"name": "program", "expiresAt": late.isoformat()}).json()["error"]
    assert (error["code"], error["param"]) == ("invalid_request_error", "expiresAt")
    assert "90 days" in error["message"]
    assert (ApiKey.objects.count(), acts()) == (0, [])
    assert api.post("/api/keys", {"name": "in time", "expiresAt": (late - 2 * DAY).isoformat()}).status_code == 201


def test_one_day_is_written_in_the_singular(owner, alice):
    assert owner.post(LIFETIME, {"days": "1"}).status_code == 302
    assert owner.post(LIFETIME, {"days": "2"}).status_code == 302
    assert acts()[1] == ("CHANGED", "Set the maximum lifetime of keys to 2 days; it was 1 day.")
    limit_to(alice, 1)
    factories.make_key(alice)
    assert "Keys live 1 day at most" in text(owner.get(KEYS))
    late = {
        "name": "web",
        "spending_type": "NONE",
        "account": str(alice.pk),
        "last_day": f"{timezone.now() + 9 * DAY:%Y-%m-%d}",
    }
    reply = text(owner.post(NEW, late))
    assert "The account’s keys live 1 day at most: until" in reply
    assert "At most 1 day." in reply


def test_an_end_is_changed_within_the_lifetime_of_the_secret(owner, api, alice):
    key = made_before(alice, "old", 60)
    limit_to(alice, 90)
    for end in (timezone.now() + 31 * DAY, None):
        reply = api.patch(f"/api/keys/{key.pk}", {"expiresAt": end and end.isoformat()})
        if end:
            assert (reply.status_code, reply.json()["error"]["param"]) == (400, "expiresAt")
    form = {"name": "old", "last_day": f"{timezone.now() + 40 * DAY:%Y-%m-%d}"}
    assert "live 90 days at most" in text(owner.post(f"{KEYS}{key.pk}/change/", form))
    assert (end_of(key), acts()) == (None, [])
    assert owner.post(f"{KEYS}{key.pk}/change/", {"name": "renamed"}).status_code == 302  # what exceeds it can be changed else
    soon = timezone.now() + 29 * DAY
    assert api.patch(f"/api/keys/{key.pk}", {"expiresAt": soon.isoformat()}).status_code == 200
    assert end_of(key) == soon
    assert api.patch(f"/api/keys/{key.pk}", {"expiresAt": None}).json()["error"]["param"] == "expiresAt"


def test_a_rotation_ends_the_key_within_the_maximum_and_never_later_than_before(owner, api, alice):
    endless, early = made_before(alice, "endless", 60), made_before(alice, "early", 60)
    soon = timezone.now() + 5 * DAY
    ApiKey.objects.filter(pk=early.pk).update(expires_at=soon)
    limit_to(alice, 90)
    for key in (endless, early):
        assert api.post(f"/api/keys/{key.pk}/rotate").status_code == 200
    assert is_in(end_of(endless), 90)
    assert end_of(early) == soon
    later = timezone.now() + 89 * DAY  # the new secret has a whole lifetime
    assert api.patch(f"/api/keys/{early.pk}", {"expiresAt": later.isoformat()}).status_code == 200


def test_a_former_secret_ends_when_its_key_was_to_end_whatever_the_grace(api, alice):
    key, _ = factories.make_key(alice)
    soon = timezone.now() + DAY
    ApiKey.objects.filter(pk=key.pk).update(expires_at=soon)
    limit_to(alice, 1)
    assert api.post(f"/api/keys/{key.pk}/rotate", {"graceSeconds": 604_800}).status_code == 200
    limit_to(alice, 90)
    later = timezone.now() + 30 * DAY
    assert api.patch(f"/api/keys/{key.pk}", {"expiresAt": later.isoformat()}).status_code == 200
    assert FormerSecret.objects.get(key=key).ends_at == soon
    key.refresh_from_db()
    assert key.former_digests == {key.former_secrets.get().digest: soon.isoformat()}


def test_without_a_maximum_nothing_ends(api, alice):
    key, _ = factories.make_key(alice)
    assert api.post(f"/api/keys/{key.pk}/rotate").status_code == 200
    assert end_of(key) is None
    assert end_of(api.post("/api/keys", {"name": "program"}).json()["id"]) is None


def test_a_key_that_is_made_while_the_maximum_is_lowered_ends_within_it(transactional_db, alice):
    def make():
        try:
            factories.make_key(alice, "meanwhile")
        finally:
            connection.close()

    thread = threading.Thread(target=make)
    with transaction.atomic():
        locks.lock_account(alice.pk)
        Account.objects.filter(pk=alice.pk).update(key_lifetime_days_max=1)
        thread.start()
        until(somebody_waits)
    thread.join()
    assert is_in(end_of(alice.keys.get()), 1)


# --- Existing keys ------------------------------------------------------------------------------------------------------


def test_what_will_happen_to_existing_keys_is_listed_and_then_done(owner, alice, charlie):
    old, young = made_before(alice, "old", 100), made_before(alice, "young", 10)
    rotated, soon = made_before(alice, "rotated", 100), made_before(alice, "soon", 10)
    FormerSecret.objects.create(key=rotated, digest="0" * 64, last_four="abcd", ends_at=timezone.now())
    ApiKey.objects.filter(pk=soon.pk).update(expires_at=timezone.now() + DAY)
    revoked = made_before(alice, "revoked", 100)
    ApiKey.objects.filter(pk=revoked.pk).update(revoked_at=timezone.now())
    foreign = made_before(charlie, "foreign", 100)
    limit_to(alice, 30)
    page = text(owner.get(LIFETIME))
    assert "3 existing keys beyond it" in page
    assert page.index("old Never") < page.index("young Never") < page.index("rotated Never")
    assert "no sooner than in 7 days" in page
    assert "Beyond the maximum lifetime: 3" in text(owner.get(KEYS))
    assert end_of(old) is None
    assert owner.post(f"{LIFETIME}apply/").status_code == 302
    assert [is_in(end_of(key), days) for key, days in ((old, 7), (young, 20), (rotated, 30), (soon, 1))] == [True] * 4
    assert [end_of(revoked), end_of(foreign)] == [None, None]
    assert acts() == [("CHANGED", "Applied the maximum lifetime to 3 existing keys.")]
    recorded = Activity.objects.get()
    assert recorded.before == {key.pk: None for key in (old, young, rotated)}
    assert "beyond it" not in text(owner.get(LIFETIME))
    assert owner.post(f"{LIFETIME}apply/").status_code == 302  # again: nothing
    assert len(acts()) == 1


# --- The list -----------------------------------------------------------------------------------------------------------


def names(page):
    return [each.name for each in page.context["keys"]]


def test_keys_that_are_idle_unlimited_or_without_an_end_are_counted_and_listed(owner, alice):
    idle = made_before(alice, "idle", 100, limit_cents=5, type="FIXED", expires_at=timezone.now() + DAY)
    used = made_before(alice, "used", 100, expires_at=timezone.now() + DAY)
    made_before(alice, "endless", 10, limit_cents=5, type="FIXED")
    expired = made_before(alice, "expired", 100)
    ApiKey.objects.filter(pk=expired.pk).update(expires_at=timezone.now() - DAY)
    today = timezone.now().date()
    SpendingDay.objects.create(key=used, day=today - 29 * DAY)
    SpendingDay.objects.create(key=idle, day=today - 31 * DAY)
    page = owner.get(KEYS)
    assert "Idle for 30 days: 1 · No spending limit: 1 · Never expires: 1 · No maximum lifetime: set one" in text(page)
    assert [each.name for each in page.context["keys"] if each.is_idle] == ["idle"]
    for only, name in (("idle", "idle"), ("unlimited", "used"), ("endless", "endless")):
        assert f'href="/dashboard/keys/?only={only}"' in page.content.decode()
        assert names(owner.get(KEYS, {"only": only})) == [name]
    assert names(owner.get(KEYS, {"only": "long"})) == []
    assert owner.get(KEYS, {"only": "other"}).status_code == 400


def test_a_row_has_one_act_for_what_it_lacks(owner, alice):
    bare, _ = factories.make_key(alice, "bare")
    kept, _ = factories.make_key(alice, "kept", limit_cents=5, type="FIXED", expires_at=timezone.now() + DAY)
    page = owner.get(KEYS).content.decode()
    for key, is_bare in ((bare, True), (kept, False)):
        assert (f'href="/dashboard/keys/{key.pk}/change/"' in page) == is_bare
        assert f'href="/dashboard/keys/{key.pk}/limit/"' in page
        assert f'href="/dashboard/keys/{key.pk}/revoke/"' in page
    assert page.count(">Set limit<") == page.count(">Set expiry<") == 1


def test_nothing_is_said_of_an_account_without_keys(owner, alice):
    page = text(owner.get(KEYS))
    assert "No maximum lifetime" not in page
    assert "No keys yet." in page
