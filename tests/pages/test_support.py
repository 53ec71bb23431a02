"""The work of support in the Django admin, with exactly the permissions it needs. Other users cannot open its pages."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from billing import locks, money
from billing.ledger import writer
from billing.models import Account, LedgerEntry, Membership, OwnerRequest, User
from billing.staff import support_credit
from gateway_project.activity.models import Activity
from keys.models import SpendingDay
from tests import factories, usage
from tests.conftest import client_for
from tests.pages.conftest import SUPPORT_PERMISSIONS, make_staff, owner_of, signed_in
from tests.pages.dashboard_pages import text, use
from tests.pages.desk_pages import account_page, accounts_form, credit_form, key_page, send
from tests.waiting import somebody_waits, until

RATES = {"requests_per_minute": "60", "tokens_per_minute": "", "requests_in_flight_max": "7"}
LIMIT = {"spending_type": "RECURRING", "spending_limit": "2.50", "spending_period": "DAILY"}


# --- Find --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("term", ["alice@example.org", "ALICE@example", "Alice", "id"])
def test_an_account_is_found_by_e_mail_name_or_id(support, alice, charlie, term):
    page = text(support.get("/admin/billing/account/", {"q": str(alice.pk) if term == "id" else term}))
    assert "Alice" in page
    assert "$10.00" in page
    assert "Charlie" not in page


@pytest.mark.parametrize("path", ["billing/account/", "billing/ledgerentry/", "keys/apikey/"])
@pytest.mark.parametrize("term", ["' OR 1=1 --", "%", "9" * 300])
def test_an_odd_search_finds_nothing(support, alice, key, path, term):
    assert "alice" not in support.get(f"/admin/{path}", {"q": term}).content.decode().lower()


def test_an_accounts_page_shows_balance_entries_keys_and_members(support, alice, key):
    use(key, cost_nanos=195_000)
    usage.place(alice, 250_000_000, reference="running", expires_at=timezone.now())
    page = text(support.get(account_page(alice)))
    assert "alice@example.org" in page
    assert "Balance $9.99 exactly $9.999805 Held by running requests $0.25 Available $9.74 exactly $9.749805" in page
    assert "Usage demo/echo, 14 tokens -$0.000195 $9.999805" in page
    assert re.search(r"laptop mgw_live_…\w{4} Active no limit", page)
    assert "All 2 entries" in page


def test_a_balance_follows_from_what_is_shown_beside_it_wherever_it_is_shown(superuser, alice, key):
    entry = use(key, cost_nanos=195_000)
    usage.place(alice, 4_533_000, reference="running", expires_at=timezone.now())
    balance, held = "$9.999805", "$0.004533"
    said = {
        "/admin/billing/ledgerentry/": f"-$0.000195 {balance}",
        f"/admin/billing/ledgerentry/{entry.pk}/change/": f"Balance after: {balance}",
        "/admin/billing/account/": f"{balance} {held}",
        account_page(alice): f"Balance {balance} Held by running requests {held} Available $9.995272",
    }
    assert {page: words for page, words in said.items() if words not in text(superuser.get(page))} == {}
    owner = signed_in(owner_of(alice))
    assert f"-$0.000195 {balance}" in text(owner.get("/dashboard/ledger/"))
    assert f"Balance {balance} Held by running requests {held}" in text(owner.get("/dashboard/"))


def test_an_accounts_page_shows_ten_entries_and_links_to_all(support, alice, key):
    for number in range(30):
        use(key, cost_nanos=1, number=number)
    reply = support.get(account_page(alice))
    [content] = [content for section, content in reply.context["sections"] if section.name == "entries"]
    shown = [row["entry"].seq for row in content["rows"]]
    assert shown == list(range(31, 21, -1))
    every = support.get(re.search(r'href="(/admin/billing/ledgerentry/\?[^"]+)"', reply.content.decode())[1])
    assert every.context["cl"].result_count == 31


def test_the_list_of_an_accounts_entries_has_no_others(support, alice, charlie):
    every = support.get("/admin/billing/ledgerentry/", {"account__id__exact": str(alice.pk)})
    assert [entry.account for entry in every.context["cl"].result_list] == [alice]


def test_the_account_page_hides_entries_and_keys_without_permission(alice, key):
    reader = signed_in(make_staff("reader@example.org", ["billing.view_account"]))
    page = text(reader.get(account_page(alice)))
    assert "$10.00" in page
    for hidden in ("Support credit", "laptop", "Ledger", "Spending", "Acts of staff", "Running requests", "Issue credit"):
        assert hidden not in page


def test_a_search_for_a_nul_character_is_refused(support, alice):
    assert support.get("/admin/billing/account/", {"q": "\x00"}).status_code == 400


# --- Issue credit ------------------------------------------------------------------------------------------------


def test_support_credits_an_account(support, support_user, alice):
    reply = support.post(account_page(alice, "credit"), credit_form(support, alice))
    assert (reply.status_code, reply["Location"]) == (302, account_page(alice))
    entry = LedgerEntry.objects.get(account=alice, seq=2)
    assert (entry.type, entry.amount_nanos, entry.issued_by) == ("SUPPORT_CREDIT", 5_000_000_000, support_user)
    assert entry.metadata == {"reason": "Sorry for the outage"}
    alice.refresh_from_db()
    assert alice.balance_nanos == money.nanos(1500)
    log = Activity.objects.get()
    assert (log.actor, log.object_id) == (support_user, str(alice.pk))
    assert (log.summary, log.reason, log.account_id) == (f"Credited $5.00, entry {entry.pk}.", "Sorry for the outage", alice.pk)
    assert "$5.00 credited. The balance is $15.00." in text(support.get(account_page(alice)))


def test_a_double_submit_credits_once(support, alice):
    form = credit_form(support, alice)
    support.post(account_page(alice, "credit"), form)
    assert support.post(account_page(alice, "credit"), form).status_code == 302
    alice.refresh_from_db()
    assert (alice.balance_nanos, alice.last_seq) == (money.nanos(1500), 2)
    assert Activity.objects.count() == 1
    assert "already sent. Nothing was done again." in text(support.get(account_page(alice)))


def test_concurrent_clicks_credit_once(transactional_db, alice):
    user = make_staff("support@example.org", SUPPORT_PERMISSIONS)
    clients = [signed_in(user) for _ in range(4)]
    form = credit_form(clients[0], alice)

    def click(client):
        try:
            return client.post(account_page(alice, "credit"), form).status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(click, clients)) == [302] * 4
    alice.refresh_from_db()
    assert (alice.balance_nanos, alice.last_seq) == (money.nanos(1500), 2)
    assert Activity.objects.count() == 1


def test_two_forms_credit_twice(support, alice):
    for _ in range(2):
        support.post(account_page(alice, "credit"), credit_form(support, alice))
    alice.refresh_from_db()
    assert alice.balance_nanos == money.nanos(2000)


def test_a_used_form_cannot_book_another_amount(support, alice, charlie, rows):
    form = credit_form(support, alice)
    support.post(account_page(alice, "credit"), form)
    before = rows()
    for account, changed in ((alice, {**form, "amount": "6"}), (charlie, form)):
        reply = support.post(account_page(account, "credit"), changed, follow=True)
        assert "already sent. Nothing was done again." in text(reply)
    assert rows() == before


@pytest.mark.parametrize(
    ("fields", "at_fault"),
    [
        ({"amount": "-5"}, "amount"),
        ({"amount": "0"}, "amount"),
        ({"amount": "0.00"}, "amount"),
        ({"amount": ""}, "amount"),
        ({"amount": "250.01"}, "amount"),
        ({"amount": "9" * 18}, "amount"),
        ({"amount": "9" * 5000}, "amount"),
        ({"amount": "5.005"}, "amount"),
        ({"amount": "1e3"}, "amount"),
        ({"amount": "Infinity"}, "amount"),
        ({"reason": ""}, "reason"),
        ({"reason": "   "}, "reason"),
        ({"reason": "a\x00b"}, "reason"),
        ({"reason": "x" * 501}, "reason"),
        ({"ticket": "x" * 101}, "ticket"),
        ({"token": ""}, "token"),
        ({"token": "x' --"}, "token"),
    ],
)
def test_an_invalid_credit_shows_errors_and_books_nothing(support, alice, rows, fields, at_fault):
    form = credit_form(support, alice, **fields)
    before = rows()
    reply = support.post(account_page(alice, "credit"), form)
    assert reply.status_code == 200
    shown = reply.context["form"]
    assert list(shown.errors) == [at_fault]
    assert {name: shown[name].value() for name in form} == form
    assert rows() == before


def test_the_form_says_the_caps_and_what_is_left_of_them(support, alice):
    page = text(support.get(account_page(alice, "credit")))
    assert "Up to $250.00 at a time. You have $1,000.00 of your $1,000.00 per day left until midnight UTC." in page
    assert "Above $100.00 per day for this account, a colleague must approve." in page
    support.post(account_page(alice, "credit"), credit_form(support, alice, amount="$100"))
    assert "You have $900.00 of your" in text(support.get(account_page(alice, "credit")))


@pytest.mark.parametrize("who", ["support", "superuser"])
def test_credits_of_one_person_in_one_day_have_a_cap(request, settings, alice, charlie, rows, who):
    client = request.getfixturevalue(who)
    settings.SUPPORT_CREDIT_CENTS_MAX, settings.SUPPORT_CREDIT_DAY_CENTS_MAX = 1_000, 1_500
    client.post(account_page(alice, "credit"), credit_form(client, alice, amount="10"))
    before = rows()
    for account, amount, message in (
        (alice, "10.01", "The maximum is $10.00."),
        (charlie, "5.01", "You can credit $5.00 more until midnight UTC."),
    ):
        reply = client.post(account_page(account, "credit"), credit_form(client, account, amount=amount))
        assert list(reply.context["form"].errors) == ["amount"]
        assert message in text(reply)
    assert rows() == before
    client.post(account_page(charlie, "credit"), credit_form(client, charlie, amount="5"))
    assert "You have $0.00 of your" in text(client.get(account_page(alice, "credit")))
    assert LedgerEntry.objects.filter(issued_by__isnull=False).count() == 2


def test_a_credit_that_is_sent_again_at_the_cap_is_not_refused(support, settings, alice):
    settings.SUPPORT_CREDIT_CENTS_MAX = settings.SUPPORT_CREDIT_DAY_CENTS_MAX = 500
    form = credit_form(support, alice)
    assert [support.post(account_page(alice, "credit"), form).status_code for _ in range(2)] == [302, 302]
    assert alice.entries.filter(issued_by__isnull=False).count() == 1


def test_credits_of_yesterday_and_of_colleagues_do_not_count(support, support_user, superuser, settings, alice, charlie):
    settings.SUPPORT_CREDIT_CENTS_MAX = settings.SUPPORT_CREDIT_DAY_CENTS_MAX = 500
    yesterday = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(microseconds=1)
    account = factories.make_account("Old")
    with transaction.atomic():
        LedgerEntry.objects.create(
            account=account,
            seq=1,
            type="SUPPORT_CREDIT",
            amount_nanos=money.nanos(500),
            balance_after_nanos=money.nanos(500),
            reference="support:old",
            issued_by=support_user,
            created_at=yesterday,
        )
        Account.objects.filter(pk=account.pk).update(balance_nanos=money.nanos(500), last_seq=1)
    superuser.post(account_page(charlie, "credit"), credit_form(superuser, charlie))
    assert support.post(account_page(alice, "credit"), credit_form(support, alice)).status_code == 302


def test_a_credit_waits_for_another_of_the_same_person_and_counts_it(transactional_db, settings, alice, charlie):
    settings.SUPPORT_CREDIT_DAY_CENTS_MAX = 1_200
    user, credited = make_staff("support@example.org", SUPPORT_PERMISSIONS), threading.Event()
    client = signed_in(user)
    form = credit_form(client, charlie)

    def credit():
        try:
            with transaction.atomic():
                locks.lock_users([user.pk])
                account = locks.lock_account(alice.pk)
                support_credit.issue(account, user, amount_cents=1_000, reason="first", reference="first")
                credited.set()
                until(somebody_waits)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads:
        crediting = threads.submit(credit)
        assert credited.wait(60)
        assert "You can credit $2.00 more" in text(client.post(account_page(charlie, "credit"), form))
        crediting.result()
    assert [entry.account for entry in LedgerEntry.objects.filter(issued_by=user)] == [alice]


def test_a_credit_that_overflows_the_balance_is_refused(support, alice, rows):
    writer.grant_support_credit(alice.pk, amount_cents=money.CENTS_MAX - 1000, reason="x", reference="much")
    form = credit_form(support, alice)
    before = rows()
    assert "larger than the ledger can store" in text(support.post(account_page(alice, "credit"), form))
    assert rows() == before


# --- Keys --------------------------------------------------------------------------------------------------------


def test_support_sets_and_clears_a_keys_limit(support, support_user, key):
    assert send(support, key_page(key, "limit"), LIMIT)["Location"] == key_page(key)
    assert "The spending limit is now: $2.50 per day." in text(support.get(key_page(key)))
    key.refresh_from_db()
    assert (key.spending_limit_cents, key.spending_type, key.spending_period) == (250, "RECURRING", "DAILY")
    cleared = {"spending_type": "NONE", "spending_limit": "", "spending_period": ""}
    assert send(support, key_page(key, "limit"), cleared).status_code == 302
    key.refresh_from_db()
    assert (key.spending_limit_cents, key.spending_type, key.spending_period) == (None, None, None)
    assert [(log.actor, log.summary) for log in Activity.objects.order_by("pk")] == [
        (support_user, "Set the spending limit to $2.50 per day; it was no limit."),
        (support_user, "Set the spending limit to no limit; it was $2.50 per day."),
    ]


def test_a_wrong_limit_is_refused_beside_its_field(support, key, rows):
    before = rows()
    reply = send(support, key_page(key, "limit"), {**LIMIT, "spending_period": ""})
    assert "Choose when the limit resets." in text(reply)
    assert rows() == before


def test_support_revokes_a_key(support, support_user, alice):
    key, secret = factories.make_key(alice)
    assert "Revoke key" in support.get(key_page(key, "revoke")).content.decode()
    assert client_for(secret).get("/api/billing/balance").status_code == 200
    assert send(support, key_page(key, "revoke"), {})["Location"] == key_page(key)
    assert "The key is revoked." in text(support.get(key_page(key)))
    assert send(support, key_page(key, "revoke"), {})["Location"] == key_page(key)
    assert client_for(secret).get("/api/billing/balance").status_code == 401
    log = Activity.objects.get()
    assert (log.actor, log.object_id, log.summary) == (support_user, key.pk, "Revoked the key.")


def test_support_sets_and_clears_a_keys_rates(support, support_user, key):
    assert send(support, key_page(key, "rates"), RATES)["Location"] == key_page(key)
    key.refresh_from_db()
    assert (key.requests_per_minute, key.tokens_per_minute, key.requests_in_flight_max) == (60, None, 7)
    assert 'value="60"' in support.get(key_page(key, "rates")).content.decode()
    assert "This form is damaged" in text(support.post(key_page(key, "rates"), {}))
    assert send(support, key_page(key, "rates"), dict.fromkeys(RATES, "")).status_code == 302
    key.refresh_from_db()
    assert (key.requests_per_minute, key.tokens_per_minute, key.requests_in_flight_max) == (None, None, None)
    assert [(entry.actor, entry.summary) for entry in Activity.objects.order_by("pk")] == [
        (support_user, "Set the rates to 60 requests per minute, and 7 requests at a time; they were 100 requests at a time."),
        (support_user, "Set the rates to 100 requests at a time; they were 60 requests per minute, and 7 requests at a time."),
    ]


@pytest.mark.parametrize("typed", ["0", "-1", "2147483648", "sixty"])
@pytest.mark.parametrize("field", RATES)
def test_a_wrong_rate_is_refused_beside_its_field(support, key, rows, field, typed):
    before = rows()
    page = send(support, key_page(key, "rates"), {**RATES, field: typed}).content.decode()
    assert page.count('class="errorlist"') == 1
    assert re.search(rf'class="errorlist"[^<]*<li>[^<]*</li></ul>\s*<div class="flex-container"><label for="id_{field}"', page)
    assert rows() == before


def test_a_revoked_key_has_no_limit_to_set(support, key, rows):
    send(support, key_page(key, "revoke"), {})
    before = rows()
    assert support.post(key_page(key, "limit"), LIMIT).status_code == 404
    assert rows() == before


def test_a_keys_page_shows_what_is_left(support, alice):
    key, _ = factories.make_key(alice, limit_cents=500, type="FIXED")
    use(key, cost_nanos=1_250_000_000)
    assert "Limit $5.00 in total Spent $1.25 Held $0.00 Left $3.75" in text(support.get(key_page(key)))


@pytest.mark.parametrize("path", ["", "{key}/change/", "{key}/limit/", "{key}/revoke/", "{key}/history/"])
def test_no_page_shows_a_digest(superuser, key, path):
    page = superuser.get(f"/admin/keys/apikey/{path.format(key=key.pk)}", follow=True)
    assert page.status_code == 200
    assert key.digest not in page.content.decode()


@pytest.mark.parametrize("lookup", ["digest__startswith", "digest", "account__members__password__startswith"])
def test_what_no_page_shows_cannot_be_guessed_by_filters(support, key, lookup):
    assert support.get("/admin/keys/apikey/", {lookup: key.digest[:1]}).status_code in (302, 400)


# --- The ledger is read-only, for superusers too -----------------------------------------------------------------------


@pytest.mark.parametrize("model", ["billing/ledgerentry", "billing/hold", "keys/apikey", "keys/spendingday"])
def test_the_admin_cannot_write_rows_of_the_gateway(superuser, alice, key, rows, model):
    entry = use(key, cost_nanos=1)
    hold = usage.place(alice, 1, reference="running", expires_at=timezone.now())
    kept = {"ledgerentry": entry, "hold": hold, "apikey": key, "spendingday": SpendingDay.objects.get()}
    pk = kept[model.partition("/")[2]].pk
    before = rows()
    page = superuser.get(f"/admin/{model}/{pk}/change/")
    assert page.status_code == 200
    assert 'name="_save"' not in page.content.decode()
    for path in ("add/", f"{pk}/delete/", f"{pk}/change/"):
        assert superuser.post(f"/admin/{model}/{path}", {"amount_nanos": 1, "post": "yes"}).status_code == 403
    delete = {"action": "delete_selected", "_selected_action": [str(pk)], "post": "yes"}
    superuser.post(f"/admin/{model}/", delete)
    assert rows() == before


def test_an_account_is_never_deleted(superuser, alice, rows):
    before = rows()
    assert superuser.post(account_page(alice, "delete"), {"post": "yes"}).status_code == 403
    assert rows() == before


def test_renaming_an_account_keeps_a_concurrent_change_of_its_balance(superuser, alice, monkeypatch):
    from billing.admin import AccountAdmin

    save = AccountAdmin.save_model

    def save_late(self, request, obj, form, change):
        writer.grant_support_credit(alice.pk, amount_cents=1, reason="meanwhile", reference="meanwhile")
        save(self, request, obj, form, change)

    monkeypatch.setattr(AccountAdmin, "save_model", save_late)
    assert superuser.post(account_page(alice), accounts_form(alice, name="Alice Ltd")).status_code == 302
    alice.refresh_from_db()
    assert (alice.name, alice.balance_nanos, alice.last_seq) == ("Alice Ltd", money.nanos(1001), 2)


def test_staff_switch_off_that_responses_are_stored_for_an_account(superuser, alice):
    form = accounts_form(alice)
    del form["keeps_responses"]
    assert superuser.post(account_page(alice), form).status_code == 302
    alice.refresh_from_db()
    assert alice.keeps_responses is False


def test_staff_set_and_clear_an_accounts_limits(superuser, alice, key):
    form = accounts_form(alice, requests_per_minute="60", tokens_per_minute="", requests_in_flight_max="7")
    assert superuser.post(account_page(alice), form).status_code == 302
    alice.refresh_from_db()
    assert (alice.requests_per_minute, alice.tokens_per_minute, alice.requests_in_flight_max) == (60, None, 7)
    assert "60 requests per minute" in text(superuser.get(key_page(key)))
    assert "Requests per minute" in Activity.objects.get().summary
    assert superuser.post(account_page(alice), accounts_form(alice)).status_code == 302
    alice.refresh_from_db()
    assert (alice.requests_per_minute, alice.requests_in_flight_max, alice.balance_nanos) == (None, None, money.nanos(1000))
    page = text(superuser.get(key_page(key)))
    assert "60 requests per minute" not in page
    assert "100 requests at a time" in page


@pytest.mark.parametrize("typed", ["0", "-1", "2147483648", "sixty"])
def test_an_invalid_limit_per_minute_is_refused_beside_its_field(superuser, alice, rows, typed):
    before = rows()
    page = superuser.post(account_page(alice), accounts_form(alice, tokens_per_minute=typed)).content.decode()
    assert re.search(r'class="errorlist" id="id_tokens_per_minute_error"', page)
    assert rows() == before


# --- People ------------------------------------------------------------------------------------------------------


def test_a_person_is_added_by_e_mail_and_chooses_the_password(superuser, db):
    group = Group.objects.get_or_create(name="Support")[0]
    form = {"email": "New@Example.org", "is_staff": "on", "groups": [group.pk]}
    reply = superuser.post("/admin/billing/user/add/", form)
    assert reply.status_code == 302
    user = User.objects.get(email="new@example.org")
    assert (user.is_staff, user.is_superuser, list(user.groups.all())) == (True, False, [group])
    assert not user.has_usable_password()
    assert superuser.get(reply["Location"]).status_code == 200


def test_e_mail_addresses_are_unique_ignoring_case(superuser, alice):
    form = {"email": "ALICE@example.org"}
    reply = superuser.post("/admin/billing/user/add/", form)
    assert "email" in reply.context["adminform"].form.errors
    assert User.objects.filter(email__iexact="alice@example.org").count() == 1


def test_a_person_is_asked_for_as_member_of_an_account(superuser, alice, bob):
    user = owner_of(bob)
    form = {
        "email": user.email,
        "is_active": "on",
        "memberships-TOTAL_FORMS": 2,
        "memberships-INITIAL_FORMS": 1,
        "memberships-0-id": user.memberships.get().pk,
        "memberships-0-user": user.pk,
        "memberships-0-account": bob.pk,
        "memberships-1-user": user.pk,
        "memberships-1-account": alice.pk,
    }
    assert superuser.post(f"/admin/billing/user/{user.pk}/change/", form).status_code == 302
    assert set(user.accounts.all()) == {bob}
    assert OwnerRequest.objects.get().account == alice


def test_an_account_is_opened_with_its_member(superuser, alice):
    user = owner_of(alice)
    form = {
        "name": "Second",
        "is_active": "on",
        "memberships-TOTAL_FORMS": 1,
        "memberships-INITIAL_FORMS": 0,
        "memberships-0-user": user.pk,
    }
    assert superuser.post("/admin/billing/account/add/", form).status_code == 302
    opened = Account.objects.get(name="Second")
    assert (opened.balance_nanos, opened.last_seq, list(opened.members.all())) == (0, 0, [user])


@pytest.mark.parametrize("model", ["user", "account", "membership", "ledgerentry", "hold"])
def test_every_list_and_form_of_billing_opens(superuser, alice, key, model):
    use(key, cost_nanos=1)
    assert superuser.get(f"/admin/billing/{model}/").status_code == 200
    objects = {
        "user": owner_of(alice),
        "account": alice,
        "membership": Membership.objects.get(),
        "ledgerentry": LedgerEntry.objects.first(),
    }
    if model in objects:
        assert superuser.get(f"/admin/billing/{model}/{objects[model].pk}/change/").status_code == 200


# --- Permissions -----------------------------------------------------------------------------------------------------


def support_pages(alice, key):
    """Return every page of support with the form that it posts."""
    return {
        account_page(alice): {},
        account_page(alice, "credit"): {"amount": "5", "reason": "x", "token": "A" * 22},
        "/admin/billing/account/?q=alice": {},
        "/admin/billing/ledgerentry/": {},
        f"/admin/billing/ledgerentry/{LedgerEntry.objects.first().pk}/change/": {},
        "/admin/billing/hold/": {},
        "/admin/billing/user/": {},
        "/admin/keys/apikey/": {},
        "/admin/keys/spendingday/": {},
        key_page(key): {},
        key_page(key, "limit"): LIMIT,
        key_page(key, "rates"): RATES,
        key_page(key, "revoke"): {},
        key_page(key, "history"): {},
    }


def assert_gets_nothing(client, alice, key, rows, *, status):
    before = rows()
    for path, form in support_pages(alice, key).items():
        for reply in (client.get(path), client.post(path, form)):
            assert reply.status_code == status, path
            content = reply.content.decode()
            assert "laptop" not in content
            assert "$10.00" not in content
    assert rows() == before


def test_a_stranger_gets_nothing(stranger, alice, key, rows):
    assert_gets_nothing(stranger, alice, key, rows, status=302)


def test_an_owner_cannot_open_the_admin(owner, alice, key, rows):
    assert_gets_nothing(owner, alice, key, rows, status=302)


def test_staff_without_permissions_cannot_open_pages(powerless, alice, key, rows):
    assert_gets_nothing(powerless, alice, key, rows, status=403)


def test_inactive_staff_cannot_open_pages(support, support_user, alice, key, rows):
    User.objects.filter(pk=support_user.pk).update(is_active=False)
    assert_gets_nothing(support, alice, key, rows, status=302)


@pytest.mark.parametrize(
    ("missing", "page"),
    [
        ("billing.issue_support_credit", "credit"),
        ("billing.view_account", "credit"),
        ("keys.set_spending_limit", "limit"),
        ("keys.view_apikey", "limit"),
        ("keys.set_rates", "rates"),
        ("keys.revoke_apikey", "revoke"),
        ("keys.view_apikey", "revoke"),
    ],
)
def test_each_action_takes_its_own_permission(alice, key, rows, missing, page):
    client = signed_in(make_staff("less@example.org", [one for one in SUPPORT_PERMISSIONS if one != missing]))
    path = account_page(alice, page) if page == "credit" else key_page(key, page)
    before = rows()
    for reply in (client.get(path), client.post(path, support_pages(alice, key)[path])):
        assert reply.status_code == 403
    assert rows() == before


def test_support_can_write_only_through_its_actions(support, alice, key, rows):
    before = rows()
    posts = {
        account_page(alice): {"name": "x"},
        account_page(alice, "delete"): {"post": "yes"},
        "/admin/billing/account/add/": {"name": "x"},
        "/admin/billing/user/add/": {"email": "x@example.org"},
        key_page(key): {"name": "x"},
    }
    for path, form in posts.items():
        assert support.post(path, form).status_code == 403, path
    assert rows() == before


@pytest.mark.parametrize("path", ["keys/apikey/{}/limit/", "keys/apikey/{}/rates/"])
@pytest.mark.parametrize("object_id", ["0" * 22, "nope", "%00", "_00"])
def test_an_unknown_object_is_not_found(support, db, path, object_id):
    assert support.get(f"/admin/{path.format(object_id)}").status_code == 404
    assert support.post(f"/admin/{path.format(object_id)}", {}).status_code == 404


def test_a_form_without_its_csrf_token_does_nothing(support_user, alice, key, rows):
    forger = Client(enforce_csrf_checks=True)
    forger.force_login(support_user)
    before = rows()
    for path in (account_page(alice, "credit"), key_page(key, "limit"), key_page(key, "revoke")):
        assert forger.post(path, support_pages(alice, key)[path]).status_code == 403
    assert rows() == before


def test_support_signs_in_by_e_mail(stranger, support_user):
    for path in ("/admin/", "/admin/login/?next=/admin/"):
        assert stranger.get(path, follow=True).redirect_chain == [("/accounts/login/?next=/admin/", 302)]
    credentials = {"login": "support@example.org", "password": factories.PASSWORD, "next": "/admin/"}
    assert stranger.post("/accounts/login/", credentials)["Location"] == "/admin/"
    assert "Model Gateway support" in text(stranger.get("/admin/"))


def test_staff_who_are_members_of_no_account_land_in_the_admin(stranger, support_user):
    credentials = {"login": "support@example.org", "password": factories.PASSWORD}
    assert stranger.post("/accounts/login/", credentials)["Location"] == "/admin/"


@pytest.mark.parametrize("path", ["/dashboard/", "/accounts/signup/"])
def test_staff_who_are_members_of_no_account_are_led_to_the_admin(superuser, path):
    reply = superuser.get(path, follow=True)
    assert reply.status_code == 403
    page = reply.content.decode()
    assert "You are signed in as root@example.org. You are staff here, and not a member of any account." in page
    assert "ask an owner of an account to invite you, or sign out and sign up with another email address" in page
    assert '<a class="button primary" href="/admin/">Go to the admin</a>' in page
    assert not Account.objects.exists()


def test_who_is_neither_staff_nor_a_member_is_not_sent_to_the_admin(db):
    reply = signed_in(factories.make_user("bob@example.org")).get("/dashboard/")
    assert reply.status_code == 403
    page = reply.content.decode()
    assert "you are not a member of any account. An owner of one can invite you." in page
    assert "/admin/" not in page


def test_the_admins_sign_in_knows_who_is_signed_in(support, owner):
    assert support.get("/admin/login/?next=/admin/keys/apikey/")["Location"] == "/admin/keys/apikey/"
    assert support.get("/admin/login/?next=https://example.net/")["Location"] == "/admin/"
    assert owner.get("/admin/login/?next=/admin/").status_code == 403


def test_a_key_is_found_by_its_owners_e_mail(support, key):
    assert "laptop" in text(support.get("/admin/keys/apikey/", {"q": "alice@example.org"}))


@pytest.mark.parametrize("path", ["billing/account/add/", "billing/account/{}/change/"])
def test_forms_show_no_time_for_what_is_not_stored_yet(superuser, alice, path):
    assert "DatabaseDefault" not in text(superuser.get(f"/admin/{path.format(alice.pk)}"))


# What staff read elsewhere: the account's page has its warnings, its webhooks and their deliveries; sums are of rows in lists.
_SHOWN_ELSEWHERE = {"AccountAlert", "AlertDelivery", "WebhookEndpoint", "UsageHour", "UsageMark"}
_SHOWN_ELSEWHERE |= {"LabelHour", "LabelDay", "UptimeSums", "IncidentUpdate", "FirstTokenHour", "RetentionMark"}
_SHOWN_ELSEWHERE |= {"EmailChoice", "AccountClosing", "AccountExport", "ExportPart"}  # the activity log has what owners did
_SHOWN_ELSEWHERE.add("InvoiceFile")  # the PDF of a payment, as it was issued
_SHOWN_ELSEWHERE.add("AddressChange")  # the activity log says who changed an address
_SHOWN_ELSEWHERE |= {
    "Budget",
    "BudgetMonth",
    "Run",
    "OwnKey",
    "BillLine",
}  # on the pages of an account, and of bills
_READ_BY_THE_AUDIT = {"ManualEntry", "MembershipChange", "AuditedDay", "AuditedLedger", "ArchivedDay"}
_READ_BY_CALLERS = {"StoredResponse", "LedgerRoot", "LedgerHead", "LedgerLeaf", "RootKey"}  # the proof of the ledger


def test_every_model_is_in_the_admin():
    apps_of_ours = {"billing", "keys", "completions", "rankings"}
    ours = {model for model in apps.get_models() if model.__module__.split(".")[0] in apps_of_ours}
    assert {
        model.__name__ for model in ours - set(admin.site._registry)
    } == _SHOWN_ELSEWHERE | _READ_BY_THE_AUDIT | _READ_BY_CALLERS
