"""/dashboard/settings/activity/: what was done to an account, for its owners, with filters and a CSV file."""

import csv
import io
from datetime import timedelta

import pytest
from django.db import transaction
from django.test import RequestFactory

from billing.models import Role
from gateway_project.activity import log
from gateway_project.activity.models import Activity
from gateway_project.web.request_notes import RequestNotes
from tests import factories
from tests.pages.conftest import make_staff, other_owner, owner, owner_of, rows, signed_in  # noqa: F401  fixtures

PAGE, CSV = "/dashboard/settings/activity/", "/dashboard/settings/activity.csv"


def note(account, act, summary, *, actor=None, program="", target=None, **values):
    request = None
    if actor or program:
        request = RequestFactory().get("/", REMOTE_ADDR="192.0.2.7")
        vars(request).update(user=actor or account, notes=RequestNotes(program=program))
    with transaction.atomic():
        log.record(request, act, target or account, summary, account_id=account.pk, **values)
    return Activity.objects.latest("pk")


@pytest.fixture
def staff(db):
    return make_staff("support@example.org", [])


@pytest.fixture
def acts(alice, bob, staff):
    """Acts of all who can do something, oldest first, and one of another account."""
    key = factories.make_key(alice, "laptop")[0]
    note(bob, "KEY_MADE", "Created bob's key.", actor=owner_of(bob))
    return [
        note(alice, "KEY_MADE", "Created the key.", actor=owner_of(alice), target=key, after={"name": "laptop"}),
        note(alice, "KEY_REVOKED", "Revoked the key.", program="management key terraform (...abcd)", target=key),
        note(
            alice, "CHANGED", "Changed Name.", actor=staff, reason="asked by phone", ticket="T-77", before={"name": "Old name"}
        ),
        note(alice, "CREDIT_REQUESTED", "Asked for a credit of $900.00.", actor=staff),
        note(alice, "CLOSED", "Closed, because no member is active."),
    ]


def shown(client, **filters):
    reply = client.get(PAGE, filters)
    assert reply.status_code == 200, reply.content
    return [(row["who"], row["summary"], row["object"], row["address"]) for row in reply.context["rows"]]


def downloaded(client, **filters):
    reply = client.get(CSV, filters)
    assert (reply.status_code, reply["content-type"]) == (200, "text/csv; charset=utf-8")
    return list(csv.DictReader(io.StringIO(b"".join(reply).decode())))


def test_an_owner_sees_who_did_what_when_and_from_where(owner, acts, rows):  # noqa: F811
    before = rows()
    assert shown(owner) == [
        ("The gateway", "Closed, because no member is active.", "", ""),
        ("Support staff", "Changed Name.", "", ""),
        ("Management key terraform (...abcd)", "Revoked the key.", str(acts[0].object_text), "192.0.2.7"),
        ("alice@example.org", "Created the key.", str(acts[0].object_text), "192.0.2.7"),
    ]
    content = owner.get(PAGE).content.decode()
    for hidden in ("asked by phone", "T-77", "Old name", "support@example.org", "$900.00", "bob"):
        assert hidden not in content
    assert rows() == before


def test_the_file_has_what_the_page_has_and_the_values_that_members_changed(owner, acts):  # noqa: F811
    lines = downloaded(owner)
    assert [(line["who"], line["act"]) for line in lines] == [
        ("The gateway", "CLOSED"),
        ("Support staff", "CHANGED"),
        ("Management key terraform (...abcd)", "KEY_REVOKED"),
        ("alice@example.org", "KEY_MADE"),
    ]
    assert (lines[3]["after"], lines[3]["address"]) == ('{"name": "laptop"}', "192.0.2.7")
    assert (lines[1]["before"], lines[1]["address"]) == ("", "")  # of support staff


def test_each_filter_selects_the_same_on_the_page_and_in_the_file(owner, acts):  # noqa: F811
    day = acts[0].at.date()
    for filters, summaries in (
        ({"by": "MEMBERS"}, ["Created the key."]),
        ({"by": "MANAGEMENT_KEYS"}, ["Revoked the key."]),
        ({"by": "SUPPORT"}, ["Changed Name."]),
        ({"by": "GATEWAY"}, ["Closed, because no member is active."]),
        ({"act": "KEY_REVOKED"}, ["Revoked the key."]),
        ({"act": "CREDIT_REQUESTED"}, []),
        ({"since": day + timedelta(days=1)}, []),
        ({"until": day - timedelta(days=1)}, []),
        ({"since": day, "until": day, "act": "KEY_MADE"}, ["Created the key."]),
    ):
        assert [row[1] for row in shown(owner, **filters)] == summaries, filters
        assert [line["summary"] for line in downloaded(owner, **filters)] == summaries, filters


@pytest.mark.parametrize("filters", [{"by": "nobody"}, {"act": "FLEW"}, {"since": "yesterday"}, {"older": "x"}])
def test_a_filter_that_is_none_is_named(owner, alice, filters):  # noqa: F811
    [name] = filters
    page, file = owner.get(PAGE, filters), owner.get(CSV, filters, HTTP_ACCEPT="application/json")
    assert (page.status_code, file.status_code) == (400, 400)
    assert name in page.context["form"].errors
    assert name in file.content.decode()


def test_pages_follow_each_other_both_ways(owner, acts, monkeypatch):  # noqa: F811
    monkeypatch.setattr("billing.account_settings.pages.ACTS_PER_PAGE", 1)
    address, seen = PAGE, []
    while address:
        reply = owner.get(address)
        seen += [row["summary"] for row in reply.context["rows"]]
        address = reply.context["older"] and PAGE + reply.context["older"]
    assert seen == [
        "Closed, because no member is active.",
        "Changed Name.",
        "Revoked the key.",
        "Created the key.",
    ]
    newer = owner.get(PAGE + reply.context["newer"])
    assert [row["summary"] for row in newer.context["rows"]] == ["Revoked the key."]


def test_the_file_is_read_in_batches(owner, acts, monkeypatch):  # noqa: F811
    monkeypatch.setattr("billing.account_settings.activity._BATCH", 1)
    assert len(downloaded(owner)) == 4


def test_a_member_of_staff_in_an_account_of_their_own_is_a_member(alice, staff, acts):
    factories.add_member(account=alice, user=staff, role=Role.OWNER)
    client = signed_in(staff)
    assert ("support@example.org", "Changed Name.", "", "192.0.2.7") in shown(client)
    assert shown(client, by="SUPPORT") == []


@pytest.mark.parametrize("role", [role for role in Role if role != Role.OWNER])
def test_only_owners_see_it(alice, role, acts):
    member = factories.make_user("member@example.org")
    factories.add_member(account=alice, user=member, role=role)
    client = signed_in(member)
    for path in (PAGE, CSV, "/dashboard/settings/"):
        assert client.get(path).status_code == 403
    assert "/dashboard/settings/" not in client.get("/dashboard/").content.decode()


def test_nobody_sees_another_account(other_owner, acts):  # noqa: F811
    assert shown(other_owner) == []
    assert downloaded(other_owner) == []


def test_a_cell_is_no_formula(owner, alice):  # noqa: F811
    note(alice, "CHANGED", "=1+1", actor=owner_of(alice))
    assert downloaded(owner)[0]["summary"] == "'=1+1"
