"""The activity log: who did what, with the old and new values. Nobody can change it."""

import csv
from datetime import timedelta
from io import StringIO

import pytest
from django.contrib import admin
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from billing.models import Account
from billing.tasks import forget_old_acts
from gateway_project.activity.admin_pages import RecordedAdmin
from gateway_project.activity.models import Activity
from keys import acts, lifecycle
from tests import factories
from tests.pages.conftest import SUPPORT_PERMISSIONS, make_staff, owner_of, signed_in
from tests.pages.dashboard_pages import text
from tests.pages.desk_pages import account_page, accounts_form, key_page, send

LOG = "/admin/activity/activity/"
EXPORT = f"{LOG}export/"
RATES = {"requests_per_minute": "60", "tokens_per_minute": "", "requests_in_flight_max": ""}


def test_an_act_is_recorded_with_who_what_old_and_new_values_request_and_address(support, support_user, alice, key):
    reply = send(support, key_page(key, "rates"), RATES, REMOTE_ADDR="192.0.2.7")
    act = Activity.objects.get()
    assert (act.act, act.actor, act.account_id) == ("KEY_RATED", support_user, alice.pk)
    assert (act.object_type, act.object_id, act.object_text) == ("keys.apikey", key.pk, str(key))
    assert act.before == {"requests_per_minute": None, "tokens_per_minute": None, "requests_in_flight_max": None}
    assert act.after == {"requests_per_minute": 60, "tokens_per_minute": None, "requests_in_flight_max": None}
    assert (act.request_id, act.address) == (reply["x-request-id"], "192.0.2.7")


def test_a_form_of_the_admin_is_recorded_with_the_fields_that_changed(superuser, alice):
    superuser.post(account_page(alice), accounts_form(alice, name="Renamed", requests_per_minute="60"))
    act = Activity.objects.get()
    assert (act.act, act.summary, act.account_id) == ("CHANGED", "Changed Name and Requests per minute.", alice.pk)
    assert act.before == {"name": "Alice", "requests_per_minute": None}
    assert act.after == {"name": "Renamed", "requests_per_minute": 60}


def test_what_an_owner_does_with_keys_is_recorded(owner, alice):
    form = {"name": "mine", "spending_type": "FIXED", "spending_limit": "5", "account": str(alice.pk)}
    assert "mgw_live_" in owner.post("/dashboard/keys/new/", form).content.decode()
    [made] = alice.keys.all()
    owner.post(f"/dashboard/keys/{made.pk}/limit/", {"spending_type": "NONE"})
    for _ in range(2):
        owner.post(f"/dashboard/keys/{made.pk}/revoke/")
    recorded = Activity.objects.filter(actor=owner_of(alice), account_id=alice.pk, object_id=made.pk).order_by("pk")
    assert [(act.act, act.summary) for act in recorded] == [
        ("KEY_MADE", "Created the key with $5.00 in total."),
        ("KEY_LIMITED", "Set the spending limit to no limit; it was $5.00 in total."),
        ("KEY_REVOKED", "Revoked the key."),
    ]
    assert Activity.objects.count() == 3


def test_an_act_that_fails_leaves_no_line(rf, alice, key, monkeypatch):
    def fail(*args, **options):
        raise RuntimeError

    monkeypatch.setattr("keys.acts.log.record", fail)
    with pytest.raises(RuntimeError):
        acts.set_rates(rf.get("/"), key, {"requests_per_minute": 1, "tokens_per_minute": None, "requests_in_flight_max": None})
    key.refresh_from_db()
    assert (key.requests_per_minute, Activity.objects.count()) == (None, 0)


@pytest.mark.parametrize(
    "statement",
    ["UPDATE activity_activity SET summary = 'nothing'", "DELETE FROM activity_activity", "TRUNCATE activity_activity"],
)
def test_the_database_refuses_to_change_the_log(support, key, statement):
    send(support, key_page(key, "rates"), RATES)
    before = list(Activity.objects.values())
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SET CONSTRAINTS ALL IMMEDIATE; {statement}")  # nothing may be pending at a TRUNCATE
    assert list(Activity.objects.values()) == before


@pytest.fixture
def old_acts(db):
    """Two acts, of 500 and 300 days ago."""
    said = {"act": "CHANGED", "object_type": "keys.apikey", "object_id": "k", "object_text": "k", "summary": "Renamed."}
    with transaction.atomic():
        return [Activity.objects.create(at=timezone.now() - timedelta(days=days), **said) for days in (500, 300)]


def test_acts_are_deleted_after_the_time_that_the_operator_sets(old_acts, settings):
    assert forget_old_acts() == 0  # no time is set
    settings.RETENTION_ACTIVITY_DAYS = 400
    assert forget_old_acts() == 1
    assert list(Activity.objects.all()) == old_acts[1:]
    assert forget_old_acts() == 0


def test_the_database_keeps_acts_for_a_year_whatever_is_set(old_acts, settings):
    settings.RETENTION_ACTIVITY_DAYS = 200
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        forget_old_acts()
    assert list(Activity.objects.order_by("pk")) == old_acts


def test_nobody_changes_the_log_in_the_admin(superuser, key):
    send(superuser, key_page(key, "rates"), RATES)
    act = Activity.objects.get()
    page = f"{LOG}{act.pk}/"
    assert "requests_per_minute" in superuser.get(f"{page}change/").content.decode()
    for path in (f"{page}change/", f"{page}delete/", f"{LOG}add/"):
        assert superuser.post(path, {"summary": "nothing", "post": "yes"}).status_code == 403
    superuser.post(LOG, {"action": "delete_selected", "_selected_action": [act.pk], "post": "yes"})
    assert list(Activity.objects.values_list("summary")) == [(act.summary,)]


def test_a_history_leads_to_the_acts_that_concern_the_object(support, alice, key):
    other = factories.make_key(alice, "phone")[0]
    for each in (key, other):
        send(support, key_page(each, "rates"), RATES)
    page = text(support.get(key_page(key, "history"), follow=True))
    assert str(key) in page
    assert str(other) not in page


@pytest.mark.parametrize(
    ("query", "found"), [("?act=KEY_REVOKED", 1), ("?act=CREDITED", 0), ("?q=support@example.org", 2), ("?q=nobody@x.org", 0)]
)
def test_the_log_is_filtered_and_searched(support, key, query, found):
    send(support, key_page(key, "rates"), RATES)
    send(support, key_page(key, "revoke"), {})
    assert support.get(f"{LOG}{query}").content.decode().count('class="field-at') == found


def test_the_log_is_downloaded_as_csv_which_leaves_a_line(superuser, alice):
    superuser.post(account_page(alice), accounts_form(alice, name="=1+1"))
    reply = superuser.post(f"{EXPORT}?act=CHANGED")
    head, row = csv.reader(StringIO(reply.content.decode()))
    written = dict(zip(head, row, strict=True))
    assert (written["who"], written["act"], written["object"]) == ("root@example.org", "CHANGED", str(alice.pk))
    assert written["after"] == '{"name": "=1+1"}'
    exported = Activity.objects.get(act="EXPORTED")
    assert (exported.summary, exported.after) == ("Downloaded 1 act.", {"filters": {"act": "CHANGED"}})


def test_downloading_takes_its_own_permission_and_a_post(support, superuser, key):
    send(support, key_page(key, "rates"), RATES)
    assert support.post(EXPORT).status_code == 403
    assert superuser.get(EXPORT).status_code == 405
    assert Activity.objects.count() == 1


def test_seeing_the_log_takes_its_own_permission(key):
    others = [one for one in SUPPORT_PERMISSIONS if one != "activity.view_activity"]
    assert signed_in(make_staff("less@example.org", others)).get(LOG).status_code == 403


def test_every_page_of_the_admin_records_what_is_done_on_it():
    assert {model for model, page in admin.site._registry.items() if not isinstance(page, RecordedAdmin)} == set()


def test_revoking_twice_at_once_is_recorded_once(rf, alice, key):
    stale = alice.keys.get(pk=key.pk)
    lifecycle.revoke_key(key)
    assert acts.revoke(rf.get("/"), stale) is False
    assert not Activity.objects.exists()
    assert Account.objects.filter(pk=alice.pk).exists()


@pytest.mark.parametrize("query", ["p=older:no+key", "at__gte=yesterday"])
def test_an_export_with_damaged_filters_is_refused_and_leaves_no_line(superuser, query):
    assert superuser.post(f"{EXPORT}?{query}").status_code == 400
    assert not Activity.objects.exists()
