"""Credits above the threshold wait for a second person, who approves or declines them. Nothing books one twice."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.core import mail
from django.db import connection, transaction
from django.db.models.functions import Now

from billing import money
from billing.models import Account, CreditRequest, LedgerEntry, Membership
from gateway_project.activity.models import Activity
from tests import factories
from tests.pages.conftest import SUPPORT_PERMISSIONS, make_staff, signed_in
from tests.pages.dashboard_pages import text
from tests.pages.desk_pages import account_page, accounts_form, credit_form

LEAD_PERMISSIONS = [*SUPPORT_PERMISSIONS, "billing.approve_support_credit"]
LIST = "/admin/billing/creditrequest/"


def request_page(asked, action="change"):
    return f"{LIST}{asked.pk}/{action}/"


def ask(client, account, **fields):
    """Ask for $200, and return the request."""
    form = credit_form(client, account, **{"amount": "200", "ticket": "T-1", **fields})
    assert client.post(account_page(account, "credit"), form).status_code == 302
    return CreditRequest.objects.get(reference=form["token"])


def age(asked, **time):
    """Make the request older, which only the database's owner can do."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; ALTER TABLE billing_creditrequest DISABLE TRIGGER USER")
        CreditRequest.objects.filter(pk=asked.pk).update(requested_at=Now() - timedelta(**time))
        cursor.execute("ALTER TABLE billing_creditrequest ENABLE TRIGGER USER")


def balance_of(account):
    account.refresh_from_db()
    return money.floor_cents(account.balance_nanos)


@pytest.fixture
def lead_user(db):
    return make_staff("lead@example.org", LEAD_PERMISSIONS)


@pytest.fixture
def lead(lead_user):
    return signed_in(lead_user)


# --- Asking ------------------------------------------------------------------------------------------------------


def test_a_credit_above_the_threshold_waits_and_its_requester_is_told(support, support_user, lead, alice):
    asked = ask(support, alice)
    assert (balance_of(alice), alice.entries.count()) == (1_000, 1)
    assert (asked.amount_cents, asked.reason, asked.ticket) == (20_000, "Sorry for the outage", "T-1")
    assert (asked.requested_by, asked.decision, asked.entry) == (support_user, "", None)
    page = text(support.get(account_page(alice)))
    assert "A credit of $200.00 waits for approval. Nothing is booked until a colleague approves it." in page
    log = Activity.objects.get()
    assert (log.act, log.actor, log.account_id) == ("CREDIT_REQUESTED", support_user, alice.pk)
    assert (log.summary, log.reason, log.ticket) == ("Asked for a credit of $200.00.", "Sorry for the outage", "T-1")
    for client in (support, lead):
        assert "$200.00 credit Sorry for the outage T-1 support@example.org waits for approval" in text(
            client.get(LIST, {"state": "waiting"})
        )
    page = text(lead.get(account_page(alice, "credit")))
    assert "Waiting for approval: $200.00 for Alice , requested by support@example.org." in page


def test_credit_at_the_threshold_is_booked_and_leaves_the_ticket_in_the_log(support, alice):
    form = credit_form(support, alice, amount="100", ticket="T-2")
    support.post(account_page(alice, "credit"), form)
    assert (balance_of(alice), CreditRequest.objects.count()) == (11_000, 0)
    assert Activity.objects.get().ticket == "T-2"


def test_a_large_credit_cannot_be_issued_in_parts(support, alice, charlie):
    support.post(account_page(alice, "credit"), credit_form(support, alice, amount="60"))
    assert ask(support, alice, amount="40.01").amount_cents == 4_001
    support.post(account_page(alice, "credit"), credit_form(support, alice, amount="40"))
    support.post(account_page(charlie, "credit"), credit_form(support, charlie, amount="100"))
    assert (balance_of(alice), balance_of(charlie)) == (11_000, 11_000)


def test_a_form_sent_twice_asks_once(support, lead, alice):
    form = credit_form(support, alice, amount="200")

    def sent_again():
        assert support.post(account_page(alice, "credit"), form).status_code == 302
        return text(support.get(account_page(alice)))

    assert "waits for approval. Nothing is booked until a colleague approves it." in sent_again()
    assert "This form was already sent. Nothing was done again." in sent_again()
    lead.post(request_page(CreditRequest.objects.get(), "approve"))
    assert "This form was already sent. Nothing was done again." in sent_again()
    assert (CreditRequest.objects.count(), balance_of(alice)) == (1, 21_000)


def test_a_used_form_asks_for_nothing_else(support, lead, alice, charlie, rows):
    form = credit_form(support, alice, amount="200")
    support.post(account_page(alice, "credit"), form)
    before = rows()
    for client, account, changed in (
        (support, alice, {**form, "amount": "210"}),
        (support, alice, {**form, "amount": "1"}),
        (support, charlie, form),
        (lead, alice, form),
    ):
        reply = client.post(account_page(account, "credit"), changed, follow=True)
        assert "already sent. Nothing was done again." in text(reply)
    assert rows() == before


def test_what_waits_counts_for_the_cap_of_the_day_until_it_is_declined(support, lead, settings, alice, charlie):
    settings.SUPPORT_CREDIT_DAY_CENTS_MAX = 25_000
    asked = ask(support, alice)
    form = credit_form(support, charlie, amount="60")
    assert "You can credit $50.00 more until midnight UTC." in text(support.post(account_page(charlie, "credit"), form))
    lead.post(request_page(asked, "decline"), {"reason": "Not due"})
    assert support.post(account_page(charlie, "credit"), form).status_code == 302
    assert balance_of(charlie) == 7_000


def test_concurrent_credits_and_requests_stay_within_the_cap_of_the_day(transactional_db, settings, alice, charlie):
    settings.SUPPORT_CREDIT_DAY_CENTS_MAX = 50_000
    settings.USER_PAGES_IN_FLIGHT = 12
    user = make_staff("support@example.org", SUPPORT_PERMISSIONS)
    clients = [signed_in(user) for _ in range(12)]
    accounts = [alice, charlie] * 6
    amounts = ["200", "100", "90", "200", "80", "100"] * 2
    forms = [credit_form(clients[0], account, amount=amount) for account, amount in zip(accounts, amounts, strict=True)]

    def post(client, account, form):
        try:
            return client.post(account_page(account, "credit"), form).status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(12) as threads:
        replies = list(threads.map(post, clients, accounts, forms))
    issued = sum(money.floor_cents(entry.amount_nanos) for entry in LedgerEntry.objects.filter(issued_by=user))
    asked = sum(CreditRequest.objects.values_list("amount_cents", flat=True))
    done = LedgerEntry.objects.filter(issued_by=user).count() + CreditRequest.objects.count()
    assert (set(replies), replies.count(302)) == ({200, 302}, done)
    assert 30_000 < issued + asked <= 50_000  # a refused one, of $200 at most, did not fit beside them
    assert Activity.objects.count() == done


# --- Deciding ----------------------------------------------------------------------------------------------------


def test_a_second_person_approves_and_the_credit_is_booked_once(settings, support, support_user, lead, lead_user, alice):
    settings.SENDS_MAIL = True
    asked = ask(support, alice)
    assert "Approve…" in text(lead.get(request_page(asked)))
    page = text(lead.get(request_page(asked, "approve")))
    assert "support@example.org asks for a credit of $200.00 for Alice , whose balance is $10.00." in page
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transaction, "on_commit", lambda send: send())
        assert lead.post(request_page(asked, "approve"))["Location"] == request_page(asked)
    entry = alice.entries.get(seq=2)
    assert (entry.type, entry.amount_nanos, entry.issued_by) == ("SUPPORT_CREDIT", money.nanos(20_000), support_user)
    assert entry.metadata == {"reason": "Sorry for the outage"}
    asked.refresh_from_db()
    assert (asked.decision, asked.decided_by, asked.entry) == ("APPROVED", lead_user, entry)
    assert "The credit of $200.00 for Alice is approved and booked. The balance is $210.00." in text(
        lead.get(request_page(asked))
    )
    log = Activity.objects.order_by("-pk").first()
    assert (log.act, log.actor, log.account_id, log.ticket) == ("CREDITED", lead_user, alice.pk, "T-1")
    assert log.summary == "Approved the credit of $200.00."
    assert log.after == {"entry": str(entry.pk), "amountInCents": 20_000, "request": str(asked.pk)}
    [told] = mail.outbox
    assert (told.to, told.subject) == (["support@example.org"], "Decision on your credit of $200.00 for Alice")
    assert "It is approved and booked. The balance is $210.00." in told.body
    lead.post(request_page(asked, "approve"))
    assert "Already approved by lead@example.org on" in text(lead.get(request_page(asked)))
    assert (balance_of(alice), alice.last_seq, Activity.objects.count()) == (21_000, 2, 2)


def test_concurrent_approvals_and_a_decline_decide_once(transactional_db, alice):
    support = signed_in(make_staff("support@example.org", SUPPORT_PERMISSIONS))
    asked = ask(support, alice)
    leads = [signed_in(make_staff(f"lead{number}@example.org", LEAD_PERMISSIONS)) for number in range(4)]
    acts = ["approve", "approve", "approve", "decline"]

    def decide(client, act):
        try:
            return client.post(request_page(asked, act), {"reason": "Not due"}).status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(decide, leads, acts)) == [302] * 4
    asked.refresh_from_db()
    booked = alice.entries.filter(reference=f"support:{asked.reference}").count()
    assert booked == (1 if asked.decision == "APPROVED" else 0)
    assert balance_of(alice) == 1_000 + 20_000 * booked
    assert Activity.objects.exclude(act="CREDIT_REQUESTED").count() == 1


def test_nobody_approves_what_they_asked_for(lead, alice, rows):
    asked = ask(lead, alice)
    before = rows()
    assert "You asked for this. Someone else must approve it." in text(lead.get(request_page(asked, "approve")))
    assert "Approve…" not in text(lead.get(request_page(asked)))
    lead.post(request_page(asked, "approve"))
    assert "You asked for this." in text(lead.get(request_page(asked)))
    assert rows() == before


def test_a_request_is_declined_with_a_reason_and_never_booked(support, lead, lead_user, alice):
    asked = ask(support, alice)
    assert list(lead.post(request_page(asked, "decline"), {"reason": " "}).context["form"].errors) == ["reason"]
    assert lead.post(request_page(asked, "decline"), {"reason": "Not due"}).status_code == 302
    assert "is declined" in text(support.get(request_page(asked)))
    assert "Not due" in text(support.get(request_page(asked)))
    lead.post(request_page(asked, "approve"))
    assert "Already declined by lead@example.org on" in text(lead.get(request_page(asked)))
    assert balance_of(alice) == 1_000
    log = Activity.objects.order_by("-pk").first()
    assert (log.act, log.actor, log.reason) == ("CREDIT_DECLINED", lead_user, "Not due")


def test_who_asked_takes_it_back(support, support_user, lead, alice):
    asked = ask(support, alice)
    assert "Withdraw…" in text(support.get(request_page(asked)))
    support.post(request_page(asked, "decline"), {"reason": "Wrong account"})
    asked.refresh_from_db()
    assert (asked.decision, asked.decided_by) == ("DECLINED", support_user)
    lead.post(request_page(asked, "approve"))
    assert balance_of(alice) == 1_000


def test_support_decides_on_nothing_of_others(support, lead, alice, rows):
    asked = ask(lead, alice)
    before = rows()
    page = text(support.get(request_page(asked)))
    assert ("Approve…" in page, "Decline…" in page) == (False, False)
    for act in ("approve", "decline"):
        assert support.get(request_page(asked, act)).status_code == 403
        assert support.post(request_page(asked, act), {"reason": "x"}).status_code == 403
    assert rows() == before


def test_an_old_request_says_so_and_is_not_booked(support, lead, alice):
    asked = ask(support, alice)
    age(asked, days=7)
    assert "was not decided in time" in text(lead.get(LIST))
    assert "asked for more than 7 days ago" in text(lead.get(request_page(asked, "approve")))
    lead.post(request_page(asked, "approve"))
    assert "asked for more than 7 days ago" in text(lead.get(request_page(asked)))
    assert balance_of(alice) == 1_000
    assert "waits for approval" not in text(lead.get(LIST, {"state": "waiting"}))


def test_a_request_for_an_account_that_closed_says_so_and_is_not_booked(support, lead, alice):
    asked = ask(support, alice)
    Account.objects.filter(pk=alice.pk).update(is_active=False)
    assert "The account has been closed since." in text(lead.get(request_page(asked, "approve")))
    lead.post(request_page(asked, "approve"))
    assert "The account has been closed since." in text(lead.get(request_page(asked)))
    assert balance_of(alice) == 1_000
    refused = support.post(account_page(alice, "credit"), credit_form(support, alice))
    assert "The account is closed. Reopen it before you credit it." in text(refused)


@pytest.mark.parametrize("member", ["lead@example.org", "support@example.org"])
def test_no_member_has_a_part_in_a_credit(support, lead, alice, member):
    asked = ask(support, alice)
    factories.add_member(user=factories.User.objects.get(email=member), account=alice)
    lead.post(request_page(asked, "approve"))
    assert f"Members cannot take part in crediting their own account, and {member} is one." in text(
        lead.get(request_page(asked))
    )
    assert balance_of(alice) == 1_000


@pytest.mark.parametrize("approved", [True, False])
def test_who_has_a_part_in_a_credit_becomes_no_member(support, lead, superuser, alice, approved):
    asked = ask(support, alice)
    person = "support@example.org"
    if approved:
        lead.post(request_page(asked, "approve"))
        person = "lead@example.org"
    user = factories.User.objects.get(email=person)
    row = {"memberships-1-user": user.pk, "memberships-1-account": alice.pk, "memberships-TOTAL_FORMS": 2}
    page = superuser.post(account_page(alice), accounts_form(alice, **row)).content.decode()
    assert re.search(rf"{person} has asked for a credit of this account or approved one", page)
    assert not Membership.objects.filter(user__email=person).exists()
