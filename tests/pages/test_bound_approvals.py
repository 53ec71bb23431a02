"""An approval does what was asked for, and nothing to what is newer. Whom a request is about can withdraw it."""

from datetime import timedelta
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.core import mail
from django.db import connection, transaction
from django.db.utils import IntegrityError
from django.test import RequestFactory

from billing.ledger import writer
from billing.models import LedgerEntry, Membership, OwnerRequest, Role, SecondFactorRequest, User
from billing.sign_in import addresses
from billing.staff import people_requests, support_credit
from completions.catalog import price_requests, writes
from completions.models import Price
from completions.pricing.rates import RateSheet
from gateway_project import identifiers
from gateway_project.activity.models import Activity
from gateway_project.db import pool
from tests import factories, second_factors
from tests.cases import undone
from tests.pages.conftest import make_staff, owner_of, signed_in

LEAD = [
    *("billing.view_account", "billing.view_creditrequest", "billing.approve_support_credit", "billing.view_ownerrequest"),
    *("billing.add_membership", "billing.view_secondfactorrequest", "billing.remove_second_factor"),
    *("completions.view_pricerequest", "completions.approve_price", "completions.view_languagemodel"),
]


@pytest.fixture
def asker(db):
    return make_staff("asker@example.org", ["billing.issue_support_credit"])


@pytest.fixture
def lead(db):
    return signed_in(make_staff("lead@example.org", LEAD))


@pytest.fixture
def world(alice, asker, settings):
    settings.SENDS_MAIL = True
    request = RequestFactory().post("/")
    request.user = asker
    model, later = factories.make_model(), pool.database_time() + timedelta(days=2)
    second_factors.give_app(owner_of(alice))
    return {"account": alice, "asker": asker, "request": request, "model": model, "later": later}


# --- Asking for each kind ---------------------------------------------------------------------------------------------


def _credit(account, asker, **_):
    reference = identifiers.short_uuid7()
    return support_credit.issue(account, asker, amount_cents=15_000, reference=reference, reason="outage", ticket="")


def _transfer(account, asker, **_):
    terms: dict[str, Any] = {
        "payment_id": "BANK-1",
        "reference": identifiers.short_uuid7(),
        "amount_cents": 100,
        "reason": "paid",
    }
    return support_credit.ask_for_purchase(account, asker, **terms)


def _owner(request, account, asker, **_):
    user = User.objects.filter(email="ann@example.org").first() or factories.make_user("ann@example.org")
    return people_requests.ask_for_owner(request, user, account, asker)[0]


def _factor(request, account, asker, **_):
    return people_requests.ask_for_removal(request, owner_of(account), account, asker, reason="Phone stolen", ticket="T-7")[0]


def _price(model, asker, later, **_):
    writes.lock_catalog()
    sheet = RateSheet.of_values({"input": "0.60", "output": "1.50"})
    return price_requests.ask(model, asker, sheet, starts_at=later + timedelta(days=9), reason="dearer")


def _withdrawal(model, asker, later, **_):
    price = factories.make_price(model, since=later, input="0.70", output="1.50")
    writes.lock_catalog()
    return price_requests.ask_to_withdraw(price, model.prices.at(), asker)


# --- What is newer ----------------------------------------------------------------------------------------------------


def _phone_is_replaced(account, **_):
    Authenticator.objects.filter(user=owner_of(account)).delete()
    second_factors.give_app(owner_of(account))


def _phone_is_added(account, **_):
    Authenticator.objects.create(user=owner_of(account), type=Authenticator.Type.WEBAUTHN, data={})


def _codes_are_renewed(account, **_):
    Authenticator.objects.create(user=owner_of(account), type=Authenticator.Type.RECOVERY_CODES, data={})


def _address_changes(email):
    def change(**_):
        user = User.objects.get(email=email)
        user.email = f"new-{email}"
        user.save()
        addresses.change_by_staff(user, email)

    return change


def _user_changes(email, **fields):
    return lambda **_: User.objects.filter(email=email).update(**fields)


def _owner_joins(account, **_):
    factories.add_member(account, factories.make_user("joins@example.org"))


def _owner_steps_down(account, **_):
    _owner_joins(account)
    account.memberships.filter(user__email="alice@example.org").update(role=Role.VIEWER)


def _member_leaves(account, **_):
    _owner_joins(account)
    account.memberships.filter(user__email="alice@example.org").delete()


def _account_closes(account, **_):
    account.is_active = False
    account.save(update_fields=["is_active"])


def _credit_is_booked(account, asker, **_):
    terms: dict[str, Any] = {
        "amount_cents": 100,
        "reason": "outage",
        "reference": identifiers.short_uuid7(),
        "issued_by": asker,
    }
    writer.grant_support_credit(account.pk, **terms)


def _payment_is_booked(account, asker, **_):
    writer.credit_purchase(account, amount_cents=100, processor="bank", payment_id="BANK-1", issued_by=asker)


def _price_changes(model, **_):
    factories.make_price(model, input="0.51", output="1.50")


def _price_is_scheduled(model, later, **_):
    at = later + timedelta(days=3)
    factories.make_price(model, since=at, input="0.51", output="1.50")


def _price_is_replaced(model, later, **_):
    model.prices.filter(effective_from=later).delete()
    factories.make_price(model, since=later, input="0.51", output="1.50")


ALICE, ANN, ASKER = "alice@example.org", "ann@example.org", "asker@example.org"
NEWER: dict[str, Any] = {
    "a phone that was replaced": (_factor, _phone_is_replaced, f"Two-factor authentication of {ALICE} changed since"),
    "a second phone": (_factor, _phone_is_added, f"Two-factor authentication of {ALICE} changed since"),
    "new recovery codes": (_factor, _codes_are_renewed, f"Two-factor authentication of {ALICE} changed since"),
    "another address of the person": (_factor, _address_changes(ALICE), "changed since this was asked for"),
    "a person who is staff now": (_factor, _user_changes(ALICE, is_staff=True), "is staff: a superuser removes"),
    "a person who left the account": (_factor, _member_leaves, "is no longer a member of Alice"),
    "an owner's new address": (_owner, _address_changes(ANN), "The address of the new owner changed since"),
    "another owner": (_owner, _owner_joins, "Who owns the account changed since"),
    "an owner who is closed": (_owner, _user_changes(ANN, is_active=False), "can no longer sign in"),
    "an account that closed, of an owner": (_owner, _account_closes, "Whether the account is open changed since"),
    "a credit that was booked": (_credit, _credit_is_booked, "The support credit of the account changed since"),
    "an account of somebody else": (_credit, _owner_steps_down, "Who owns the account changed since"),
    "an account that closed": (_credit, _account_closes, "The account has been closed since"),
    "a requester who left": (_credit, _user_changes(ASKER, is_active=False), "asked for this and can no longer sign in"),
    "a transfer for somebody else's account": (_transfer, _owner_joins, "Who owns the account changed since"),
    "a transfer that was booked": (_transfer, _payment_is_booked, "This payment is already booked"),
    "a price that was set": (_price, _price_changes, "Another price was set since"),
    "a price that was scheduled": (_price, _price_is_scheduled, "What it costs later changed since"),
    "a price in the place of the withdrawn": (_withdrawal, _price_is_replaced, "What it costs later changed since"),
}
TABLES: tuple[Any, ...] = (LedgerEntry, Membership, Authenticator, Price)


def page(asked, act):
    return f"/admin/{asked._meta.app_label}/{asked._meta.model_name}/{asked.pk}/{act}/"


def state():
    return [list(table.objects.order_by("pk").values()) for table in TABLES]


@pytest.mark.parametrize("case", NEWER)
def test_what_changed_since_it_was_asked_for_is_not_approved(world, lead, case):
    ask, change, sentence = NEWER[case]
    with transaction.atomic():
        asked = ask(**world)
    with transaction.atomic():
        change(**world)
    before = state()
    reply = lead.post(page(asked, "approve"), follow=True)
    assert sentence in reply.content.decode()
    assert state() == before
    asked.refresh_from_db()
    assert asked.decision == ""
    assert lead.post(page(asked, "decline"), {"reason": "Changed since"}).status_code == 302


@pytest.mark.parametrize("ask", [_credit, _transfer, _owner, _factor, _price, _withdrawal])
def test_what_did_not_change_is_approved_and_its_terms_stay(world, lead, ask):
    with transaction.atomic():
        asked = ask(**world)
    with undone(), pytest.raises(IntegrityError), transaction.atomic():
        type(asked).objects.filter(pk=asked.pk).update(seen={})
    before = state()
    assert lead.post(page(asked, "approve")).status_code == 302
    asked.refresh_from_db()
    assert (asked.decision, state() == before) == ("APPROVED", False)


def test_a_request_of_the_former_release_is_approved_as_before(world, lead):
    asked = OwnerRequest.objects.create(
        account=world["account"], user=factories.make_user(ANN), requested_by=world["asker"], reason="x"
    )
    lead.post(page(asked, "approve"))
    assert Membership.objects.filter(user__email=ANN).exists()


# --- Withdrawing ------------------------------------------------------------------------------------------------------

PAGE = "/dashboard/support-requests/"


@pytest.mark.parametrize(("ask", "who"), [(_factor, ALICE), (_owner, ALICE), (_owner, ANN)])
def test_whom_a_request_is_about_withdraws_it(world, lead, ask, who, django_capture_on_commit_callbacks):
    with transaction.atomic():
        asked = ask(**world)
    client = signed_in(User.objects.get(email=who))
    shown = client.get(PAGE).content.decode()
    assert asked.what in shown.replace("R", "r", 1) or asked.what.lower() in shown.lower()
    with django_capture_on_commit_callbacks(execute=True):
        assert client.post(f"{PAGE}{asked.pk}/").status_code == 302
    asked.refresh_from_db()
    assert (asked.decision, asked.decided_by.email) == ("DECLINED", who)
    assert asked.decision_reason == f"Withdrawn by {who}, whom it is about."
    assert mail.outbox[-1].to == [ASKER]
    act = Activity.objects.order_by("-id")[0]
    assert (act.account_id, act.actor.email, act.summary[:8]) == (world["account"].pk, who, "Withdrew")
    before = state()
    assert "Already declined" in lead.post(page(asked, "approve"), follow=True).content.decode()
    assert state() == before
    assert "No requests." in client.get(PAGE).content.decode()
    assert client.post(f"{PAGE}{asked.pk}/").status_code == 404


@pytest.mark.parametrize("ask", [_factor, _owner])
def test_nobody_else_withdraws_it(world, charlie, ask, stranger):
    with transaction.atomic():
        asked = ask(**world)
    viewer = factories.make_user("viewer@example.org")
    factories.add_member(world["account"], viewer, Role.VIEWER)
    for client in (signed_in(owner_of(charlie)), signed_in(viewer)):
        assert "No requests." in client.get(PAGE).content.decode()
        assert client.post(f"{PAGE}{asked.pk}/").status_code == 404
    assert stranger.post(f"{PAGE}{asked.pk}/").status_code == 302
    asked.refresh_from_db()
    assert asked.decision == ""


# --- Staff and sessions -----------------------------------------------------------------------------------------------


def test_the_second_factor_of_staff_is_not_removed_as_a_customers(alice, world):
    support = signed_in(make_staff("support@example.org", ["billing.view_account", "billing.send_password_link"]))
    staff = make_staff("colleague@example.org", [])
    factories.add_member(alice, staff)
    second_factors.give_app(staff)
    address = f"/admin/billing/account/{alice.pk}/lost-phone/{staff.pk}/"
    for reply in (support.get(address), support.post(address, {"reason": "lost"})):
        assert reply.status_code == 403
        assert "a superuser removes second factors of staff" in reply.content.decode()
    assert not SecondFactorRequest.objects.exists()
    assert address not in support.get(f"/admin/billing/account/{alice.pk}/change/").content.decode()


def by_staff(user, root):
    page = root.get(f"/admin/billing/user/{user.pk}/change/")
    form = {name: value for name, value in page.context["adminform"].form.initial.items() if value}
    form |= {"email": "new@example.org", "is_active": "on"}
    form |= {f"memberships-{name}_FORMS": "0" for name in ("TOTAL", "INITIAL")}
    assert root.post(page.request["PATH_INFO"], form).status_code == 302


def by_a_command(user, root):
    User.objects.filter(pk=user.pk).update(email="new@example.org")


def by_sql(user, root):
    with connection.cursor() as cursor:
        cursor.execute("UPDATE billing_user SET email = 'new@example.org' WHERE id = %s", [user.pk])


@pytest.mark.parametrize("change", [by_staff, by_a_command, by_sql])
def test_a_changed_address_ends_the_sessions_whoever_changed_it(alice, superuser, change):
    user = owner_of(alice)
    client = signed_in(user)
    assert client.get("/dashboard/").status_code == 200
    change(user, superuser)
    assert User.objects.get(pk=user.pk).email == "new@example.org"
    assert client.get("/dashboard/").status_code == 302
    user.first_name = "Alice"
    user.email = "new@example.org"
    user.save()  # of a copy that was read before
    assert client.get("/dashboard/").status_code == 302
    assert signed_in(User.objects.get(pk=user.pk)).get("/dashboard/").status_code == 200
