"""The account's page of the support desk: what it shows, and the acts from it, each done once."""

import html
import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core import mail
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from billing import money
from billing.ledger import audit
from billing.models import Account, CreditRequest, LedgerEntry, PasswordLink, User
from gateway_project import identifiers
from gateway_project.activity.models import Activity
from keys import lifecycle
from keys.spending_limit import SpendingLimit
from tests import factories, usage
from tests.conftest import client_for
from tests.pages.conftest import make_staff, owner_of, signed_in
from tests.pages.dashboard_pages import text, use
from tests.pages.desk_pages import account_page, key_page

DESK_PERMISSIONS = [
    *("billing.view_account", "billing.view_ledgerentry", "billing.view_hold", "billing.view_user"),
    *("billing.correct_credit", "billing.book_purchase", "billing.refund_purchase", "billing.close_account"),
    *("billing.send_password_link", "activity.view_activity", "completions.view_completion"),
    *("keys.view_apikey", "keys.set_spending_limit", "keys.set_rates", "keys.revoke_apikey"),
]


@pytest.fixture
def desk_user(db: None) -> User:
    return make_staff("desk@example.org", DESK_PERMISSIONS)


@pytest.fixture
def desk(desk_user: User) -> Any:
    return signed_in(desk_user)


@pytest.fixture
def payer(db: None) -> Account:
    """An account that bought $20 and then $30, with $5 of support credit between, and spent $22.000000001."""
    account = factories.make_account("Payer", owner=factories.make_user("payer@example.org"))
    usage.buy(account, 2_000, "pi_1")
    factories.credit(account, 500)
    usage.buy(account, 3_000, "pi_2")
    usage.spend(account, 22_000_000_001)
    account.refresh_from_db()
    return account


def act_page(account, act, entry=None):
    return account_page(account, act if entry is None else f"{act}/{entry.pk}")


def open_form(client, page, **fields):
    """Return the form of an act's page as a browser would post it, filled in."""
    hidden = dict(re.findall(r'<input type="hidden" name="(token|seen)" value="([^"]*)"', client.get(page).content.decode()))
    shown = {name: html.unescape(value) for name, value in hidden.items()}
    return {**shown, "reason": "typed twice", "ticket": "T-1", **fields}


def errors_of(reply):
    assert reply.status_code == 200
    return {name: " ".join(errors) for name, errors in reply.context["form"].errors.items()}


def entry(account, seq):
    return LedgerEntry.objects.get(account=account, seq=seq)


# --- What the page shows -----------------------------------------------------------------------------------------


def test_the_page_shows_what_support_is_asked_about_and_each_row_leads_to_its_object(desk, alice, key):
    use(key, cost_nanos=195_000)
    usage.place(alice, 250_000_000, reference="running", expires_at=timezone.now())
    desk.post(act_page(alice, "close"), open_form(desk, act_page(alice, "close")))
    content = desk.get(account_page(alice)).content.decode()
    completion = LedgerEntry.objects.get(account=alice, seq=2).reference
    for target in (
        f"/admin/keys/apikey/{key.pk}/change/",
        f"/admin/billing/ledgerentry/{entry(alice, 2).pk}/change/",
        f"/admin/completions/completion/{completion}/change/",
        "/admin/billing/hold/running/change/",
        f"/admin/billing/user/{owner_of(alice).pk}/change/",
        f"/admin/activity/activity/{Activity.objects.get().pk}/change/",
        *(f"/admin/keys/apikey/{key.pk}/{act}/" for act in ("limit", "rates", "revoke")),
    ):
        assert f'href="{target}"' in content, target
    assert "This account is closed" in content


def test_the_spending_of_thirty_days_has_its_amounts(desk, alice, key):
    use(key, cost_nanos=1_234_000_000)
    use(key, cost_nanos=195_000, number=2, day=timezone.now().date() - timedelta(days=3))
    section = desk.get(account_page(alice)).content.decode().partition('id="account-spending"')[2].partition("</figure>")[0]
    assert {bar.partition(": ")[2] for bar in re.findall("<title>(.*?)</title>", section)} == {
        "$1.234000",
        "$0.000195",
        "$0.000000",
    }
    said = " ".join(re.sub(r"<title>.*?</title>|<[^>]+>", " ", section).split())
    caption, _, table = said.partition("View as table")
    assert "$1.234195 in the last 30 days, at most $1.234000 per day" in caption
    spent = re.findall(r"\d (\$[\d.]+(?: exactly \$[\d.]+)?)", table)
    assert (len(spent), spent[0], spent[3]) == (30, "$1.234000", "$0.000195")


def test_what_is_read_comes_before_the_folded_form_and_shows_each_member_once(alice, superuser):
    page = account_page(alice)
    content = superuser.get(page).content.decode()
    assert content.index('id="account-acts"') < content.index('<details class="support-edit" id="account-edit">')
    assert content.index('id="account-edit"') < content.index('id="id_name"') < content.index('id="memberships-group"')
    reader = signed_in(make_staff("reader@example.org", ["billing.view_account", "billing.view_membership"]))
    content = reader.get(page).content.decode()
    assert content.count("alice@example.org, owner") == 1
    assert "memberships-group" not in content


def test_the_page_of_a_busy_account_takes_as_many_queries_as_that_of_a_new_one(desk, alice, charlie):
    def queries():
        with CaptureQueriesContext(connection) as captured:
            assert desk.get(account_page(alice)).status_code == 200
        return len(captured)

    for number in range(2):
        use(factories.make_key(alice, f"key {number}")[0], cost_nanos=5, number=number)
        usage.place(alice, 5, reference=f"running {number}")
    desk.get(account_page(alice))
    few = queries()
    for number in range(2, 12):
        factories.add_member(account=alice, user=factories.make_user(f"member-{number}@example.org"))
        use(factories.make_key(alice, f"key {number}")[0], cost_nanos=5, number=number)
        usage.place(alice, 5, reference=f"running {number}")
    assert queries() == few
    assert few <= 39


@pytest.mark.parametrize(
    ("permission", "shown"),
    [
        ("billing.view_ledgerentry", {"entries", "months"}),
        ("billing.view_hold", {"holds"}),
        ("keys.view_apikey", {"spending", "keys", "refusals", "budgets"}),
        ("completions.view_completion", {"completions", "own-keys"}),
        ("activity.view_activity", {"acts"}),
    ],
)
def test_a_section_is_shown_to_those_who_may_see_its_rows(alice, key, permission, shown):
    reader = signed_in(make_staff("reader@example.org", ["billing.view_account", permission]))
    reply = reader.get(account_page(alice))
    assert {section.name for section, _ in reply.context["sections"]} == {*shown, "members"}
    assert [act["title"] for act in reply.context["acts"]] == ["Hand over"]


# --- Each act ----------------------------------------------------------------------------------------------------


def test_a_closed_account_is_refused_until_it_is_reopened(desk, alice):
    caller = client_for(factories.make_key(alice)[1])
    for act, is_active, status in (("close", False, 401), ("reopen", True, 200)):
        reply = desk.post(act_page(alice, act), open_form(desk, act_page(alice, act)))
        assert (reply.status_code, reply["Location"]) == (302, account_page(alice))
        assert Account.objects.get(pk=alice.pk).is_active == is_active
        assert caller.get("/v1/models").status_code == status
    closed, reopened = Activity.objects.order_by("pk")
    assert (closed.act, closed.reason, closed.ticket) == ("CLOSED", "typed twice", "T-1")
    assert (reopened.act, reopened.account_id) == ("REOPENED", alice.pk)


def test_the_refusal_of_a_closed_account_says_so_to_who_has_the_secret(alice):
    caller = client_for(factories.make_key(alice)[1])
    Account.objects.filter(pk=alice.pk).update(is_active=False)
    error = caller.get("/v1/models").json()["error"]
    assert error["code"] == "invalid_api_key"
    assert "its account is closed" in error["message"]


def approve(client, asked):
    assert client.post(f"/admin/billing/creditrequest/{asked.pk}/approve/").status_code == 302


@pytest.fixture
def colleague(db):
    return signed_in(make_staff("colleague@example.org", [*DESK_PERMISSIONS, *APPROVING]))


APPROVING = ["billing.view_creditrequest", "billing.approve_support_credit"]


def ask_to_book(client, account, payment_id="BANK-1"):
    page = act_page(account, "purchase")
    assert client.post(page, open_form(client, page, amount="120.50", payment_id=payment_id)).status_code == 302
    return CreditRequest.objects.latest("id")


def test_nobody_books_a_bank_transfer_alone(desk, desk_user, alice, rows):
    for name in APPROVING:
        desk_user.user_permissions.add(Permission.objects.get(codename=name.partition(".")[2]))
    asked = ask_to_book(desk, alice)
    assert (alice.entries.count(), asked.requested_by, asked.amount_cents) == (1, desk_user, 12_050)
    said = text(desk.get(account_page(alice)))
    assert "A payment by bank transfer of $120.50 waits for approval. Nothing is booked" in said
    before = rows()
    approve(desk, asked)
    assert rows() == before
    assert "You asked for this." in text(desk.get(f"/admin/billing/creditrequest/{asked.pk}/change/"))


def test_a_bank_transfer_is_booked_once_as_a_purchase_when_a_second_person_approves(desk, desk_user, colleague, alice, charlie):
    asked = ask_to_book(desk, alice)
    assert "BANK-1" in text(colleague.get(f"/admin/billing/creditrequest/{asked.pk}/approve/"))
    page = act_page(charlie, "purchase")
    again = desk.post(page, open_form(desk, page, amount="120.50", payment_id="BANK-1"))
    assert "already waiting for approval" in errors_of(again)["payment_id"]
    approve(colleague, asked)
    approve(colleague, asked)
    booked = entry(alice, 2)
    assert (booked.type, booked.amount_nanos, booked.issued_by) == ("CREDIT_PURCHASE", money.nanos(12_050), desk_user)
    assert booked.metadata == {"bankPaymentId": "BANK-1"}
    act = Activity.objects.get(act="PURCHASED")
    assert act.after == {"entry": str(booked.pk), "amountInCents": 12_050, "request": str(asked.pk)}
    assert act.summary == "Approved the payment by bank transfer of $120.50."
    for account in (alice, charlie):
        page = act_page(account, "purchase")
        again = desk.post(page, open_form(desk, page, amount="120.50", payment_id="BANK-1"))
        assert "already booked" in errors_of(again)["payment_id"]
    assert LedgerEntry.objects.filter(type="CREDIT_PURCHASE").count() == 1
    assert audit.verify() == []


def test_a_transfer_that_two_colleagues_ask_for_is_booked_once(desk, colleague, alice, charlie):
    first = ask_to_book(desk, alice)
    CreditRequest.objects.create(
        kind="CREDIT_PURCHASE",
        payment_id="BANK-1",
        account=charlie,
        amount_cents=12_050,
        reference="other",
        requested_by=first.requested_by,
    )
    for asked in CreditRequest.objects.all():
        approve(colleague, asked)
    assert LedgerEntry.objects.filter(type="CREDIT_PURCHASE").count() == 1


@pytest.mark.parametrize("amount", ["5", "4.999999999", "5.00", "4,99"])
def test_a_credit_is_corrected_once_by_at_most_what_it_was(desk, desk_user, payer, amount):
    page = act_page(payer, "correct", entry(payer, 2))
    assert desk.post(page, open_form(desk, page, amount=amount)).status_code == 302
    booked = entry(payer, 5)
    assert (booked.type, booked.issued_by) == ("REFUND_DEBIT", desk_user)
    assert booked.metadata == {"reason": "typed twice", "entryId": str(entry(payer, 2).pk)}
    assert "already corrected" in errors_of(desk.post(page, open_form(desk, page, amount="0.000000001")))["__all__"]
    assert Activity.objects.get().act == "CORRECTED"
    assert usage.violations() == []


@pytest.mark.parametrize(
    "amount", ["5.000000001", "0", "-1", "", "1e400", "NaN", "five", "0.0000000001", "0,5", "0,075", "1e0", "0_1", "\u0661"]
)
def test_an_impossible_amount_is_refused_at_the_field(desk, payer, rows, amount):
    page = act_page(payer, "correct", entry(payer, 2))
    form = open_form(desk, page, amount=amount)
    before = rows()
    assert "amount" in errors_of(desk.post(page, form))
    assert rows() == before


def test_a_correction_makes_the_balance_negative_only_on_purpose(desk, payer):
    usage.spend(payer, 30_000_000_000)
    page = act_page(payer, "correct", entry(payer, 3))
    form = open_form(desk, page, amount="30")
    assert "-$27.000000001" in errors_of(desk.post(page, form))["overdraws"]
    assert desk.post(page, {**form, "overdraws": "on"}).status_code == 302
    payer.refresh_from_db()
    assert payer.balance_nanos == -27_000_000_001


def test_refunds_of_a_payment_are_booked_up_to_what_it_was_each_once(desk, payer):
    page = act_page(payer, "refund", entry(payer, 3))
    assert desk.post(page, open_form(desk, page, amount="10", refund_id="re_1")).status_code == 302
    assert "already booked" in errors_of(desk.post(page, open_form(desk, page, amount="10", refund_id="re_1")))["refund_id"]
    too_much = desk.post(page, open_form(desk, page, amount="20.01", refund_id="re_2"))
    assert "The maximum is $20.00" in errors_of(too_much)["amount"]
    assert desk.post(page, open_form(desk, page, amount="20", refund_id="re_2", overdraws="on")).status_code == 302
    assert usage.violations() == []


def test_only_credits_of_the_account_are_corrected_and_only_purchases_refunded(desk, payer, alice):
    assert desk.get(act_page(payer, "correct", entry(payer, 4))).status_code == 404
    assert desk.get(act_page(payer, "correct", entry(alice, 1))).status_code == 404
    assert desk.get(act_page(payer, "refund", entry(payer, 2))).status_code == 404


# --- Closing with a refund ---------------------------------------------------------------------------------------


def test_an_account_is_closed_with_a_refund_of_what_is_unused_of_its_purchases(desk, payer):
    page = act_page(payer, "closing-refund")
    shown = text(desk.get(page))
    # $22.000000001 used the first payment and $2.000000001 of the support credit.
    assert "To pay out: $30.00" in shown
    assert "$5.000000000 $0.000000000 $2.000000001 $2.999999999 -" in shown
    assert desk.post(page, open_form(desk, page)).status_code == 302
    payer.refresh_from_db()
    assert (payer.is_active, payer.balance_nanos, payer.last_seq) == (False, 2_999_999_999, 5)
    assert entry(payer, 5).metadata["entryId"] == str(entry(payer, 3).pk)
    assert Activity.objects.get().summary == "Closed the account with a refund of $30.00, what was unused of its purchases."
    assert usage.violations() == []
    assert "has no unused purchases" in errors_of(desk.post(page, open_form(desk, page)))["__all__"]


def test_a_closing_refund_is_of_whole_cents(desk, payer):
    usage.spend(payer, 5_004_000_000)  # the support credit, and $2.004000001 of the second payment
    page = act_page(payer, "closing-refund")
    assert "$30.000000000 $0.000000000 $2.004000001 $27.995999999 $27.99 Total $27.995999999 $27.99" in text(desk.get(page))
    assert "$27.99 is taken from its balance: pay that out." in text(desk.post(page, open_form(desk, page), follow=True))
    payer.refresh_from_db()
    assert (payer.is_active, payer.balance_nanos) == (False, 5_999_999)
    assert usage.violations() == []
    assert "has no unused purchases" in errors_of(desk.post(page, open_form(desk, page)))["__all__"]


def test_a_closing_refund_waits_for_running_requests(desk, payer, rows):
    page = act_page(payer, "closing-refund")
    form = open_form(desk, page)
    hold = usage.place(payer, 5_000_000_000)
    before = rows()
    assert "1 running request holds $5.00" in errors_of(desk.post(page, form))["__all__"]
    assert rows() == before
    usage.settle(payer, hold, 4_999_999_999)  # the support credit, and $2.00 of the second payment
    changed = desk.post(page, form)
    assert "it was $30.00, and is $28.00" in errors_of(changed)["__all__"]
    assert rows()["Account"] != before["Account"]
    mended = {**form, "seen": json.dumps({"the sum": "$28.00"})}
    assert desk.post(page, mended).status_code == 302
    payer.refresh_from_db()
    assert (payer.is_active, payer.balance_nanos) == (False, 0)


# --- Sent twice, stale, or not allowed -----------------------------------------------------------------------------

FIELDS: dict[str, dict[str, str]] = {
    "close": {},
    "reopen": {},
    "purchase": {"amount": "5", "payment_id": "BANK-2"},
    "closing-refund": {},
    "correct": {"amount": "1"},
    "refund": {"amount": "1", "refund_id": "re_9"},
}


def page_of(account, act):
    if act == "reopen":
        Account.objects.filter(pk=account.pk).update(is_active=False)
    return act_page(account, act, entry(account, 1) if act in ("correct", "refund") else None)


@pytest.mark.parametrize("act", FIELDS)
def test_a_form_that_is_sent_twice_acts_once(desk, payer, rows, act):
    page = page_of(payer, act)
    form = open_form(desk, page, **FIELDS[act])
    assert desk.post(page, form).status_code == 302
    before = rows()
    assert desk.post(page, form).status_code == 302
    assert rows() == before
    assert len(before["Activity"]) == 1
    assert "Nothing was done again" in text(desk.get(account_page(payer)))


def test_concurrent_clicks_correct_once(transactional_db):
    account = factories.make_account("Payer", owner=factories.make_user("payer@example.org"), cents=500)
    user = make_staff("desk@example.org", DESK_PERMISSIONS)
    clients = [signed_in(user) for _ in range(4)]
    page = act_page(account, "correct", entry(account, 1))
    form = open_form(clients[0], page, amount="2")

    def click(client):
        try:
            return client.post(page, form).status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(click, clients)) == [302] * 4
    account.refresh_from_db()
    assert (account.balance_nanos, account.last_seq) == (money.nanos(300), 2)
    assert Activity.objects.count() == 1


@pytest.mark.parametrize("act", FIELDS)
def test_an_act_needs_its_permission_and_no_member_of_the_account_moves_its_money(desk, desk_user, payer, rows, act):
    page = page_of(payer, act)
    form = open_form(desk, page, **FIELDS[act])
    weak = signed_in(make_staff("weak@example.org", ["billing.view_account", "billing.change_account"]))
    before = rows()
    assert (weak.get(page).status_code, weak.post(page, form).status_code) == (403, 403)
    if act not in ("close", "reopen"):
        factories.add_member(user=desk_user, account=payer)
        before = rows()
        assert (desk.get(page).status_code, desk.post(page, form).status_code) == (403, 403)
    assert rows() == before


@pytest.mark.parametrize(
    "fault", [{"token": ""}, {"token": "x" * 23}, {"seen": "no json"}, {"seen": '{"more": "1"}'}, {"seen": "[1]"}]
)
def test_a_damaged_form_does_nothing(desk, payer, rows, fault):
    page = act_page(payer, "close")
    form = open_form(desk, page, **fault)
    before = rows()
    assert desk.post(page, form).status_code == 200
    assert rows() == before


# --- Acts on a key -----------------------------------------------------------------------------------------------


RATES = {"requests_per_minute": "60", "tokens_per_minute": "", "requests_in_flight_max": "7"}
LIMIT = {"spending_type": "RECURRING", "spending_limit": "2.50", "spending_period": "DAILY"}


def until(**ahead):
    return f"{timezone.now() + timedelta(**ahead):%Y-%m-%dT%H:%M}"


def limited(key):
    lifecycle.set_spending_limit(key, SpendingLimit(500, "RECURRING", "DAILY"))
    return key


def test_a_limit_is_raised_for_a_time_and_the_page_and_the_owner_see_until_when(desk, alice, key):
    limited(key)
    page, ends = key_page(key, "raise"), until(hours=2)
    assert desk.post(page, open_form(desk, page, raised_limit="20", until=ends)).status_code == 302
    key.refresh_from_db()
    assert (key.spending_limit_cents, key.raised_limit_cents) == (500, 2_000)
    assert f"{key.raised_until:%Y-%m-%dT%H:%M}" == ends
    assert "$5.00 per day, raised to $20.00 until" in text(desk.get(key_page(key)))
    assert "$20.00 per day, raised until" in text(desk.get(account_page(alice)))
    assert "raised by support until" in text(signed_in(owner_of(alice)).get("/dashboard/keys/"))
    record = Activity.objects.get()
    assert (record.act, record.reason, record.after["raised_limit_cents"]) == ("KEY_RAISED", "typed twice", 2_000)


@pytest.mark.parametrize(
    ("fields", "at_fault"),
    [
        ({"raised_limit": "5"}, "raised_limit"),
        ({"raised_limit": ""}, "raised_limit"),
        ({"until": until(hours=-1)}, "until"),
        ({"until": until(days=32)}, "until"),
        ({"until": "tomorrow"}, "until"),
        ({"until": ""}, "until"),
    ],
)
def test_an_impossible_raise_is_refused_at_the_field(desk, key, rows, fields, at_fault):
    limited(key)
    page = key_page(key, "raise")
    form = open_form(desk, page, **{"raised_limit": "20", "until": until(hours=2), **fields})
    before = rows()
    assert list(errors_of(desk.post(page, form))) == [at_fault]
    assert rows() == before


def test_a_new_limit_of_the_owner_ends_a_raise(desk, alice, key):
    limited(key)
    page = key_page(key, "raise")
    desk.post(page, open_form(desk, page, raised_limit="20", until=until(hours=2)))
    fixed = {"spending_type": "FIXED", "spending_limit": "1", "spending_period": ""}
    signed_in(owner_of(alice)).post(f"/dashboard/keys/{key.pk}/limit/", fixed)
    key.refresh_from_db()
    assert (key.spending_limit_cents, key.raised_limit_cents, key.raised_until) == (100, None, None)


@pytest.mark.parametrize(
    ("act", "fields"),
    [("limit", LIMIT), ("rates", RATES), ("revoke", {}), ("raise", {"raised_limit": "20", "until": until(hours=2)})],
)
def test_a_keys_form_that_is_sent_twice_acts_once(desk, key, rows, act, fields):
    limited(key)
    page = key_page(key, act)
    form = open_form(desk, page, **fields)
    assert desk.post(page, form).status_code == 302
    before = rows()
    again = desk.post(page, form)
    assert again.status_code == 302
    assert rows() == before
    assert len(before["Activity"]) == 1


@pytest.mark.parametrize(
    ("act", "fields", "at_fault"),
    [
        ("limit", LIMIT, "spending_limit"),
        ("raise", {"raised_limit": "20", "until": until(hours=2)}, "raised_limit"),
        ("rates", RATES, "requests_per_minute"),
    ],
)
def test_a_keys_form_that_was_opened_before_a_change_says_what_changed(desk, key, rows, act, fields, at_fault):
    limited(key)
    page = key_page(key, act)
    form = open_form(desk, page, **fields)
    lifecycle.set_spending_limit(key, SpendingLimit(700, "RECURRING", "DAILY"))
    lifecycle.change_key(key, requests_per_minute=9, tokens_per_minute=None, requests_in_flight_max=None)
    before = rows()
    assert "Changed since you opened this page: it was" in errors_of(desk.post(page, form))[at_fault]
    assert rows() == before


# --- A link for the owner ----------------------------------------------------------------------------------------


def test_a_member_is_sent_one_link_for_a_form(desk, desk_user, alice, django_capture_on_commit_callbacks):
    owner = owner_of(alice)
    page = account_page(alice, f"password-link/{owner.pk}")
    form = open_form(desk, page)
    for _ in range(2):
        assert desk.post(page, form).status_code == 302
    assert [message.to for message in mail.outbox] == [[owner.email]]
    assert PasswordLink.objects.get().sent_by == desk_user
    assert Activity.objects.get().act == "INVITED"


@pytest.mark.parametrize("who", ["staff", "nobody", "inactive"])
def test_no_link_is_sent_to_staff_strangers_or_inactive_members(desk, alice, charlie, who):
    owner = owner_of(charlie if who == "nobody" else alice)
    if who == "staff":
        User.objects.filter(pk=owner.pk).update(is_staff=True)
    if who == "inactive":
        User.objects.filter(pk=owner.pk).update(is_active=False)
    page = account_page(alice, f"password-link/{owner.pk}")
    form = {"token": identifiers.short_uuid7(), "seen": "{}"}
    assert desk.post(page, form).status_code == (403 if who == "staff" else 404)
    assert mail.outbox == []
