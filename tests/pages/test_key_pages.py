"""The pages of one key: what it shows, change, pause, rotate, and the search for a leaked secret."""

import json
import logging
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from billing.models import Membership, Role
from gateway_project.activity.models import Activity
from gateway_project.db import pool
from keys import lifecycle, rotation, secret
from keys.models import ApiKey, FormerSecret, SpendingDay
from tests import factories
from tests.pages.conftest import session_texts, signed_in
from tests.pages.dashboard_pages import text

SECRET = re.compile(r"mgw_live_[0-9A-Za-z]{22}_[0-9A-Za-z]{38}")


def address(key, act=""):
    return f"/dashboard/keys/{key.pk}/{act}"


def fields(key, *names):
    return ApiKey.objects.values_list(*names).get(pk=key.pk)


def summaries_of(key):
    return list(Activity.objects.filter(object_id=key.pk).order_by("id").values_list("act", "summary"))


# --- What a key may do ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("period", "words"),
    [
        ("DAILY", "resets every day at 00:00 UTC"),
        ("WEEKLY", "resets every Monday at 00:00 UTC"),
        ("MONTHLY", "resets on the first of every month at 00:00 UTC"),
    ],
)
def test_a_key_says_in_words_when_its_limit_resets(owner, alice, period, words):
    key, _ = factories.make_key(alice, limit_cents=500, type="RECURRING", period=period)
    page = owner.get(address(key))
    assert f"$5.00 left of $5.00 {dict(DAILY='per day', WEEKLY='per week', MONTHLY='per month')[period]}" in text(page)
    assert words in text(page)
    for enum in ("RECURRING", "DAILY", "WEEKLY", "MONTHLY", "FIXED"):
        for path in ("", "limit/", "change/", "rotate/", "revoke/"):
            assert enum not in text(owner.get(address(key, path)))


def test_a_key_shows_all_that_was_set(owner, alice, echo_model):
    key, _ = factories.make_key(
        alice, "laptop", requests_per_minute=7, tokens_per_minute=900, allowed_models=["demo/echo"], tags=["web", "staging"]
    )
    page = text(owner.get(address(key)))
    for words in ("laptop Active", "No spending limit", "At most 7 requests and 900 tokens per minute", "demo/echo", "Never"):
        assert words in page
    assert "web staging" in page


# --- Change ----------------------------------------------------------------------------------------------------------


def change(owner, key, **given):
    form = {
        "name": key.name,
        "last_day": "",
        "allowed_models": "",
        "tags": "",
        "requests_per_minute": "",
        "tokens_per_minute": "",
    }
    return owner.post(address(key, "change/"), form | given)


def test_an_owner_changes_all_of_a_key_on_one_page(owner, alice, key, echo_model):
    last = timezone.now().date() + timedelta(days=3)
    reply = change(
        owner,
        key,
        name=" production ",
        last_day=last.isoformat(),
        allowed_models="demo/echo\ndemo/echo\n",
        tags="web, web,  two words ,",
        requests_per_minute="5",
        tokens_per_minute="600",
    )
    assert reply["Location"] == address(key)
    row = ApiKey.objects.get(pk=key.pk)
    assert (row.name, row.allowed_models, row.tags) == ("production", ["demo/echo"], ["web", "two words"])
    assert (row.requests_per_minute, row.tokens_per_minute) == (5, 600)
    assert row.expires_at == datetime(last.year, last.month, last.day, tzinfo=UTC) + timedelta(days=1)
    what = "name, models, tags, expiry, requests per minute, tokens per minute"
    assert summaries_of(key) == [("KEY_CHANGED", f"Changed the {what}.")]


def test_what_is_saved_unchanged_changes_nothing_and_is_not_recorded(owner, alice):
    ends = timezone.now() - timedelta(days=3)  # it has expired, in the middle of a day, and one of its models is gone
    key, _ = factories.make_key(alice, expires_at=ends, allowed_models=["gone/model"], requests_per_minute=10**6)
    form = owner.get(address(key, "change/")).context["form"].initial
    before = ApiKey.objects.values().get(pk=key.pk)
    assert change(owner, key, **{name: value or "" for name, value in form.items()}).status_code == 302
    assert ApiKey.objects.values().get(pk=key.pk) == before
    assert summaries_of(key) == []


def test_a_key_that_ends_on_the_last_day_of_all_can_be_renamed(owner, alice):
    ends = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    key, _ = factories.make_key(alice, expires_at=ends)
    sent = {"name": "renamed", "last_day": "9999-12-31", "allowed_models": "", "tags": ""}
    assert owner.post(address(key, "change/"), sent).status_code == 302
    assert fields(key, "name", "expires_at") == ("renamed", ends)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"name": ""}, "This field is required"),
        ({"name": "OTHER"}, "Another key has this name"),
        ({"last_day": "2020-01-01"}, "This day is in the past"),
        ({"allowed_models": "demo/echo no/such"}, "There is no model no/such."),
        ({"tags": ",".join(f"t{number}" for number in range(11))}, "At most 10 tags"),
        ({"tags": "x" * 41}, "At most 10 tags, of at most 40 characters"),
        ({"requests_per_minute": "0"}, "greater than or equal to 1"),
        ({"requests_per_minute": "61"}, "At most 60. Ask support for more."),
        ({"tokens_per_minute": "many"}, "Enter a whole number"),
    ],
)
def test_what_cannot_be_set_is_refused_with_the_reason_and_changes_nothing(owner, alice, key, echo_model, given, words):
    alice.__class__.objects.filter(pk=alice.pk).update(requests_per_minute=60)
    factories.make_key(alice, "other")
    before = ApiKey.objects.values().get(pk=key.pk)
    assert words in text(change(owner, key, **given))
    assert ApiKey.objects.values().get(pk=key.pk) == before


def test_the_name_of_a_new_key_may_be_followed_by_models_and_tags(owner, alice, echo_model):
    form = {"name": "new", "spending_type": "NONE", "account": str(alice.pk), "allowed_models": "demo/echo", "tags": "web"}
    assert owner.post("/dashboard/keys/new/", form).status_code == 200
    made = ApiKey.objects.get(name="new")
    assert (made.allowed_models, made.tags) == (["demo/echo"], ["web"])


@pytest.mark.parametrize("act", ["change/", "rotate/", "pause/", "resume/", "former/end/"])
def test_a_revoked_key_is_shown_and_not_changed(owner, key, act):
    lifecycle.revoke_key(key)
    assert "Revoked" in text(owner.get(address(key)))
    before = ApiKey.objects.values().get()
    assert owner.post(address(key, act), {"name": "x", "grace_seconds": "0"}).status_code == 404
    assert ApiKey.objects.values().get() == before


# --- Pause -----------------------------------------------------------------------------------------------------------


def test_an_owner_pauses_and_resumes_a_key(owner, key):
    assert "paused: requests with it are refused" in text(owner.post(address(key, "pause/"), follow=True))
    owner.post(address(key, "pause/"))
    assert fields(key, "paused_at") != (None,)
    assert "Paused" in text(owner.get("/dashboard/keys/"))
    assert "works again" in text(owner.post(address(key, "resume/"), follow=True))
    assert fields(key, "paused_at") == (None,)
    assert summaries_of(key) == [("KEY_PAUSED", "Paused the key."), ("KEY_RESUMED", "Resumed the key.")]


# --- Rotate ----------------------------------------------------------------------------------------------------------


def rotation_form(owner, key, grace_seconds):
    form = owner.get(address(key, "rotate/")).context["form"]
    seen = json.dumps(form.fields["seen"].initial)
    return {"grace_seconds": str(grace_seconds), "token": form["token"].value(), "seen": seen}


@pytest.mark.parametrize("grace_seconds", [0, 3600, 86400, 604800])
def test_a_new_secret_is_shown_once_and_the_former_one_ends_when_it_was_chosen(owner, alice, grace_seconds):
    key, former = factories.make_key(alice)
    reply = owner.post(address(key, "rotate/"), rotation_form(owner, key, grace_seconds))
    [minted] = SECRET.findall(reply.content.decode())
    assert reply["Cache-Control"].startswith("max-age=0")
    assert rotation.find_key(minted) == rotation.find_key(former) == key
    kept = FormerSecret.objects.get()
    assert kept.last_four == former[-4:]
    assert abs(kept.ends_at - kept.rotated_at - timedelta(seconds=grace_seconds)) < timedelta(seconds=60)
    assert not SECRET.search(text(owner.get(address(key))) + session_texts())
    assert fields(key, "last_four") == (minted[-4:],)
    [(act, summary)] = summaries_of(key)
    assert (act, secret.mask_all(summary)) == ("KEY_ROTATED", summary)


def test_a_form_that_is_sent_twice_rotates_once(owner, key):
    form = rotation_form(owner, key, 3600)
    owner.post(address(key, "rotate/"), form)
    digest = fields(key, "digest")
    again = text(owner.post(address(key, "rotate/"), form))
    assert "Changed since you opened this page" in again
    assert fields(key, "digest") == digest
    assert FormerSecret.objects.count() == 1


def test_a_key_shows_until_when_a_former_secret_works_and_ends_it(owner, key):
    was = key.last_four
    owner.post(address(key, "rotate/"), rotation_form(owner, key, 3600))
    assert f"mgw_live_…{was} Works until" in text(owner.get(address(key)))
    assert "a former secret works until" in text(owner.get("/dashboard/keys/"))
    owner.post(address(key, "former/end/"))
    page = text(owner.get(address(key)))
    assert f"mgw_live_…{was} Ended" in page
    assert "End the former secrets now" not in page
    assert ApiKey.objects.get().working_former_digests(pool.database_time()) == {}


# --- A leaked secret -------------------------------------------------------------------------------------------------

FIND = "/dashboard/keys/find/"


def find(client, given):
    return client.post(FIND, {"secret": given}, follow=True)


def test_a_leaked_secret_finds_its_key_to_revoke_it(owner, alice, caplog):
    key, minted = factories.make_key(alice, "laptop")
    with caplog.at_level(logging.DEBUG):
        reply = find(owner, f" {minted}\n")
    assert reply.redirect_chain == [(address(key, "revoke/"), 302)]
    assert "This is a secret of laptop in Alice." in text(reply)
    assert "Revoke laptop?" in text(reply)
    for kept in (reply.content.decode(), caplog.text, session_texts()):
        assert minted not in kept


@pytest.mark.parametrize("grace", [timedelta(hours=1), timedelta(0)])
def test_a_former_secret_finds_its_key_too(owner, alice, grace):
    key, minted = factories.make_key(alice)
    rotation.rotate_secret(key, grace=grace)
    assert find(owner, minted).redirect_chain == [(address(key, "revoke/"), 302)]


def test_the_key_of_a_secret_is_found_in_another_account_of_the_person(owner, alice, charlie):
    factories.add_member(account=charlie, user=alice.members.get(), role=Role.VIEWER)
    key, minted = factories.make_key(charlie, "theirs")
    reply = find(owner, minted)
    assert reply.redirect_chain == [(address(key), 302)]
    assert "An owner or developer of Charlie can revoke it." in text(reply)
    Membership.objects.filter(account=charlie, user=alice.members.get()).update(role=Role.DEVELOPER)
    assert find(owner, minted).redirect_chain == [(address(key, "revoke/"), 302)]


def test_keys_of_others_look_like_those_that_do_not_exist(owner, alice, charlie):
    theirs, of_nobody = factories.make_key(charlie)[1], secret.mint("0" * 22)
    forged = secret.mint(factories.make_key(alice)[0].pk)
    pages = {re.sub(r'value="[^"]*"', "", find(owner, each).content.decode()) for each in (theirs, of_nobody, forged, "x" * 40)}
    assert len(pages) == 1
    assert "No key in your accounts has or had this secret." in pages.pop()


def test_a_secret_of_a_revoked_key_says_that_it_is_revoked(owner, alice):
    key, minted = factories.make_key(alice, "laptop")
    lifecycle.revoke_key(key)
    assert "This is a secret of laptop, which is revoked already." in text(find(owner, minted))


def test_a_secret_is_not_taken_from_an_address(owner, alice):
    _, minted = factories.make_key(alice)
    assert "Revoke" not in text(owner.get(FIND, {"secret": minted}))


def test_a_member_who_may_not_revoke_finds_the_key(alice):
    user = factories.make_user("viewer@example.org")
    factories.add_member(account=alice, user=user, role=Role.VIEWER)
    key, minted = factories.make_key(alice)
    assert find(signed_in(user), minted).redirect_chain == [(address(key), 302)]


# --- Support ---------------------------------------------------------------------------------------------------------


def test_support_sees_pause_tags_and_former_secrets(support, alice):
    key, minted = factories.make_key(alice, tags=["web"])
    rotation.rotate_secret(key, grace=timedelta(hours=1))
    lifecycle.pause_key(key)
    page = text(support.get(f"/admin/keys/apikey/{key.pk}/change/"))
    assert "Paused" in page
    assert f"mgw_live_…{minted[-4:]} until" in page
    assert "web" in page
    assert key.digest not in page


def test_a_keys_page_leads_with_whose_it_is_whether_it_works_and_why_it_was_refused(superuser, alice):
    key, _ = factories.make_key(alice, expires_at=timezone.now() + timedelta(days=9))
    reply = superuser.get(f"/admin/keys/apikey/{key.pk}/change/")
    page = text(reply)
    order = [page.index(words) for words in ("Account Alice", "State Active", "Expires", "Refusals", "Allowed models")]
    assert order == sorted(order)
    assert f'href="/admin/billing/account/{alice.pk}/change/">Alice</a>' in reply.content.decode()
    assert page.count("Active") == 1


@pytest.mark.parametrize("written", ["{secret}", "mgw_live_…{four}", "{four}"])
def test_the_desks_search_finds_a_key_by_a_former_secret(superuser, alice, written):
    key, minted = factories.make_key(alice)
    rotation.rotate_secret(key, grace=timedelta(0))
    term = written.format(secret=minted, four=minted[-4:])
    assert superuser.get("/admin/search/", {"q": term})["Location"] == f"/admin/keys/apikey/{key.pk}/change/"


# --- The list ------------------------------------------------------------------------------------------------------


def test_keys_are_found_by_name_id_and_tag_and_sorted_by_what_they_spent(owner, alice, bob):
    first, second, third = (factories.make_key(alice, name, tags=tags)[0] for name, tags in TAGGED.items())
    factories.make_key(bob, "web of Bob", tags=["web"])
    today = pool.database_time().date()
    for key, spent_nanos, days_ago in ((first, 10**9, 5), (second, 3 * 10**9, 29), (third, 9 * 10**9, 30)):
        SpendingDay.objects.create(key=key, day=today - timedelta(days=days_ago), spent_nanos=spent_nanos)

    def listed(**filters):
        return [key.id for key in owner.get("/dashboard/keys/", filters).context["keys"]]

    assert listed() == [third.pk, second.pk, first.pk]
    assert listed(search="WEB") == [second.pk, first.pk]
    assert listed(search=third.pk) == [third.pk]
    assert listed(tag="web") == [third.pk, first.pk]
    assert listed(tag="web", search="shop") == [first.pk]
    assert listed(sort="spent") == [second.pk, first.pk, third.pk]
    page = owner.get("/dashboard/keys/", {"sort": "spent"})
    assert "Last 30 days Last used Expires" in text(page)
    assert "$3.00" in text(page)
    assert f'href="/dashboard/requests/?key={first.pk}"' in page.content.decode()
    assert "No matching keys." in text(owner.get("/dashboard/keys/", {"tag": "%_"}))
    assert owner.get("/dashboard/keys/", {"sort": "name"}).status_code == 400
    assert owner.get("/dashboard/keys/", {"search": "x" * 101}).status_code == 400


TAGGED = {"web shop": ["web", "staging"], "website": ["site"], "worker": ["web"]}
