"""How many keys, stored replies and former secrets an account keeps, and how often it may be changed in an hour."""

from datetime import timedelta

import pytest
from allauth.core import context as allauth_context
from allauth.mfa.models import Authenticator
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from billing.members import changes
from billing.models import Role
from billing.sign_in import second_factor
from gateway_project import errors
from gateway_project.activity.models import Activity
from gateway_project.web.request_notes import RequestNotes
from keys import acts, lifecycle, management_keys, rotation
from keys.models import ApiKey, FormerSecret, ManagementKey, ManagementReply
from keys.spending_limit import SpendingLimit
from tests import factories
from tests.keys.key_api.conftest import _nothing_is_counted, api, manager  # noqa: F401  fixtures
from tests.pages.conftest import owner  # noqa: F401  a fixture

KEYS, NEW_KEY, NEW_MANAGEMENT_KEY = "/api/keys", reverse("new-key"), reverse("new-management-key")


def form(account, name="build"):
    return {"name": name, "account": str(account.pk), "spending_type": "NONE"}


def assert_refused(reply, words, status=400, code="invalid_request_error"):
    error = reply.json()["error"]
    assert (reply.status_code, error["code"]) == (status, code)
    assert words in error["message"]


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("ACCOUNT_KEYS_MAX", "The account has 1 keys that are not revoked, which is its maximum. Revoke one."),
        ("ACCOUNT_KEYS_EVER_MAX", "The account has created 1 keys, including revoked ones, which is its maximum."),
    ],
)
def test_an_account_has_a_bounded_number_of_keys(alice, bob, api, owner, settings, setting, words):  # noqa: F811
    key, _ = factories.make_key(alice)
    factories.make_key(bob)
    setattr(settings, setting, 1)
    assert_refused(api.post(KEYS, {"name": "build"}), words)
    refused = owner.post(NEW_KEY, form(alice))
    assert words in refused.content.decode()
    assert (ApiKey.objects.filter(account=alice).count(), Activity.objects.count()) == (1, 0)
    lifecycle.revoke_key(key)
    assert api.post(KEYS, {"name": "build"}).status_code == (201 if setting == "ACCOUNT_KEYS_MAX" else 400)


def test_the_account_is_locked_before_its_keys_are_counted(alice, api, owner):  # noqa: F811
    for make in (lambda: api.post(KEYS, {"name": "a"}), lambda: owner.post(NEW_KEY, form(alice))):
        with CaptureQueriesContext(connection) as captured:
            make()
        statements = [query["sql"] for query in captured]
        locked = next(i for i, sql in enumerate(statements) if '"billing_account"' in sql and "FOR NO KEY UPDATE" in sql)
        counted = next(i for i, sql in enumerate(statements) if "COUNT(*)" in sql and '"keys_apikey"' in sql)
        assert locked < counted
    assert ApiKey.objects.filter(account=alice).count() == 2


def test_an_account_has_a_bounded_number_of_management_keys(alice, owner, settings):  # noqa: F811
    key, _ = management_keys.issue(alice, name="terraform", created_by=alice.members.get())
    settings.ACCOUNT_MANAGEMENT_KEYS_MAX = 1
    refused = owner.post(NEW_MANAGEMENT_KEY, {"name": "other"})
    assert "The account has 1 management keys, which is its maximum. Revoke one." in refused.content.decode()
    assert (ManagementKey.objects.count(), Activity.objects.count()) == (1, 0)
    management_keys.revoke(key)
    assert owner.post(NEW_MANAGEMENT_KEY, {"name": "other"}).status_code == 200
    assert ManagementKey.objects.count() == 2


def test_an_account_has_a_bounded_number_of_stored_replies(alice, api, settings):  # noqa: F811
    settings.ACCOUNT_KEY_REPLIES_MAX = 2
    keys = [factories.make_key(alice, name=str(number))[0] for number in range(3)]

    def pause(number):
        return api.post(f"{KEYS}/{keys[number].pk}/pause", headers={"idempotency-key": str(number)})

    assert [pause(number).status_code for number in (0, 1, 1)] == [200] * 3
    refused = pause(2)
    assert_refused(
        refused, "2 replies to requests with an Idempotency-Key are stored for the account", 429, "rate_limit_exceeded"
    )
    assert (refused["Retry-After"], ManagementReply.objects.count()) == ("60", 2)
    assert ApiKey.objects.get(pk=keys[2].pk).paused_at is None
    assert pause(1)["Idempotent-Replayed"] == "true"
    assert api.post(f"{KEYS}/{keys[2].pk}/pause").status_code == 200
    ManagementReply.objects.update(at=timezone.now() - timedelta(hours=2))
    assert pause(2).status_code == 200


def test_a_key_keeps_a_bounded_number_of_former_secrets(alice, settings):
    settings.KEY_FORMER_SECRETS_MAX = 3
    key, first = factories.make_key(alice)
    later = [rotation.rotate_secret(key, grace=timedelta()) for _ in range(5)]
    assert FormerSecret.objects.filter(key=key).count() == 3
    assert rotation.find_key(first) is None
    assert [rotation.find_key(secret) for secret in later[1:]] == [key] * 4


def test_an_account_is_changed_a_bounded_number_of_times_in_an_hour(alice, bob, api, owner, settings):  # noqa: F811
    settings.ACTS_PER_HOUR = 2
    key, _ = factories.make_key(alice)
    for name in ("first", "second"):
        assert api.post(KEYS, {"name": name}).status_code == 201
        assert owner.post(NEW_KEY, form(alice, f"{name} by hand")).status_code == 200
    words = "The account was changed 2 times in an hour, which is the maximum. Try again later."
    assert_refused(api.post(KEYS, {"name": "third"}), words, 429, "rate_limit_exceeded")
    refused = owner.post(NEW_KEY, form(alice, "third"), headers={"accept": "text/html"})
    assert (refused.status_code, refused["Retry-After"]) == (429, "60")
    assert words in refused.content.decode()
    assert ApiKey.objects.filter(account=alice).count() == 5
    for path in (f"{KEYS}/{key.pk}/pause", f"{KEYS}/{key.pk}/revoke"):  # what stops something is never refused
        assert api.post(path).status_code == 200
    assert Activity.objects.count() == 6


def test_programs_use_up_nothing_of_people(alice, api, owner, settings):  # noqa: F811
    settings.ACTS_PER_HOUR = 1
    assert [api.post(KEYS, {"name": name}).status_code for name in ("first", "second")] == [201, 429]
    assert [owner.post(NEW_KEY, form(alice, name)).status_code for name in ("third", "fourth")] == [200, 429]


def test_what_people_do_in_defence_is_never_refused(alice, settings, rf):
    key, _ = factories.make_key(alice)
    acts.set_spending_limit(None, key, SpendingLimit(500, "FIXED"))
    developer, user = factories.make_user("developer@example.org"), alice.members.get()
    member = factories.add_member(account=alice, user=developer, role=Role.DEVELOPER)
    request = rf.post("/")
    request.user = user
    settings.ACTS_PER_HOUR = 1
    for account_id in (alice.pk, None):
        _record(act="CHANGED", account_id=account_id, actor=user, object_type="x", object_id="1", summary="Changed.")

    def limit(cents):
        acts.set_spending_limit(request, key, SpendingLimit(cents, "FIXED"))

    limit(400)
    acts.rotate(request, key, timedelta())
    changes.change_role(request, member, Role.VIEWER)
    with allauth_context.request_context(request), transaction.atomic():
        Authenticator.objects.bulk_create([Authenticator(user=user, type=Authenticator.Type.WEBAUTHN, data={})])
        second_factor.remove_all(user)
    assert Activity.objects.count() == 7
    for refused in (lambda: limit(600), lambda: changes.change_role(request, member, Role.OWNER)):
        with pytest.raises(errors.RateLimitExceeded):
            refused()
    assert Activity.objects.count() == 7
    request.notes = RequestNotes(program="management key terraform")  # a program rotates and lowers within a count of its own
    limit(300)
    with pytest.raises(errors.RateLimitExceeded):
        acts.rotate(request, key, timedelta())


def test_acts_of_an_hour_ago_and_of_others_do_not_count(alice, bob, api, settings):  # noqa: F811
    settings.ACTS_PER_HOUR = 1
    at = timezone.now() - timedelta(minutes=61)
    common = {"act": Activity.Act.KEY_MADE, "object_type": "keys.apikey", "object_id": "1", "summary": "Made."}
    _record(at=at, account_id=alice.pk, **common)
    _record(account_id=bob.pk, **common)
    assert api.post(KEYS, {"name": "build"}).status_code == 201


def _record(**fields):
    with transaction.atomic():
        Activity.objects.create(**fields)
