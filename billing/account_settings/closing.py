"""Closes an account for its owner, pays back what is left, undoes the closing, and erases personal data some time later.

The admission of each request reads under the account's lock that it is closed, so the keys stop at once. Running requests are
settled as usual. After the last one, the processor pays back what is left, which is booked like any refund. Bank transfers are
left to staff. Support credit is forfeited.

Erased are the name of the account, the rows of which ``own_tables`` says so, what other apps erase, and addresses and access
of users who are members of nothing else. The ledger, receipts and the activity log stay as they are.
"""

import contextlib
import logging
from datetime import timedelta
from uuid import UUID

from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from billing import locks
from billing.account_settings import own_tables
from billing.accounts import lifecycle, roles
from billing.ledger import credits
from billing.members import notices
from billing.models import Account, AccountClosing, Membership, Payment, TopUpRule, User
from billing.payments import booking, configuration
from billing.payments.processor import Processor, ProcessorUnavailable, RefundRefused, UnknownToProcessor
from gateway_project import app_config, identifiers
from gateway_project.activity import log
from gateway_project.db import everywhere, pool
from gateway_project.text import dollars

logger = logging.getLogger("gateway.payments")

_PAYING_TIME = timedelta(days=1)  # after it was begun, a payment that was not completed ends


class ClosingRefused(Exception):
    """Nothing was changed; says why, as a sentence."""


def unused_cents(account: Account) -> int:
    """Return what of the account's purchases is not used up, in the whole cents of each that can be paid back."""
    return sum(credit.unused_cents for credit in credits.read_credits(account) if credit.is_purchase)


def refundable_cents(account: Account) -> int:
    """Return what of the account's purchases the processor will pay back when the account is closed."""
    processor = configuration.processor() if settings.CLOSING_REFUNDS else None
    return sum(cents for _, cents in _unused_payments(account, processor)) if processor else 0


def close(request: HttpRequest, account: Account) -> AccountClosing:
    """Close the account. One that staff closed stays so: refund and erase it all the same. Raises ClosingRefused."""
    with transaction.atomic():
        locked = _lock(request, account)
        if lifecycle.find_open_closing(locked):
            raise ClosingRefused("The account is already closed.")
        now = pool.database_time()
        closing = AccountClosing.objects.create(
            account=locked,
            closed_by=request.user,  # type: ignore[misc]
            is_refunded=settings.CLOSING_REFUNDS,
            erase_at=now + timedelta(days=settings.ERASE_AFTER_DAYS),
            kept_closed_at=None if locked.is_active else now,
        )
        summary = "Closed the account." if locked.is_active else "Asked to refund and erase the account, which staff closed."
        lifecycle.set_active(locked, is_active=False)
        TopUpRule.objects.filter(account=locked).update(is_on=False)  # else it would buy credit as soon as this is undone
        log.record(request, log.Act.CLOSED, locked, summary)
        facts = {"by": closing.closed_by.email, "is_refunded": closing.is_refunded, "erase_at": closing.erase_at}
        notices.tell_owners_of_closing(locked, "account_closed", **facts, is_kept_closed=closing.kept_closed_at is not None)
    return closing


def undo(request: HttpRequest, account: Account) -> None:
    """Open the account again. Raises ClosingRefused, also while money is on its way back: it could be spent meanwhile."""
    with transaction.atomic():
        locked = _lock(request, account)
        closing = lifecycle.find_open_closing(locked)
        if closing is None or locked.is_active:
            raise ClosingRefused("There is no closing to undo.")
        if closing.kept_closed_at:
            raise ClosingRefused("Our support closed the account, too. Only they can reopen it.")
        if closing.is_being_refunded:
            raise ClosingRefused("We are still refunding what is left. Try again in a few minutes.")
        closing.undone_at = pool.database_time()
        closing.save(update_fields=["undone_at"])
        lifecycle.set_active(locked, is_active=True)
        log.record(request, log.Act.REOPENED, locked, "Reopened the account.")


def _lock(request: HttpRequest, account: Account) -> Account:
    locked = locks.lock_account(account.pk)
    if not roles.may(request.user, locked, roles.Permission.CLOSE_ACCOUNT):  # type: ignore[arg-type]
        raise ClosingRefused("You are no longer an owner of the account.")
    return locked


def refund_closed() -> int:
    """Pay back what is left of closed accounts of which nothing runs. Return how many are done."""
    waiting = AccountClosing.objects.filter(is_refunded=True, refunded_at=None, undone_at=None, erased_at=None)
    return sum(map(_finish, waiting.filter(account__is_active=False, account__open_holds=0).select_related("account")))


def _finish(closing: AccountClosing) -> bool:
    """Return whether the closing is done with: not while a payment is under way, or staff opened the account again."""
    processor = configuration.processor()
    with transaction.atomic():
        account = locks.lock_account(closing.account_id)
        if account.is_active or account.open_holds or not lifecycle.is_being_refunded(account):
            return False
    try:
        refunded_cents = _refund(closing, processor) if processor else 0
    except ProcessorUnavailable as error:
        logger.warning("the account %s waits for its refund: %s", closing.account_id, error)
        return False
    if processor and _is_paying(closing.account, processor):
        return False
    with transaction.atomic():
        account = locks.lock_account(closing.account_id)
        is_first = AccountClosing.objects.filter(pk=closing.pk, refunded_at=None).update(refunded_at=pool.database_time())
        left_cents = unused_cents(account)
        if is_first and (refunded_cents or left_cents):
            summary = f"Refunded {dollars.format_cents(refunded_cents)} of what was left."
            if left_cents:
                summary += f" {dollars.format_cents(left_cents)} is left to support: the processor did not pay it back."
            log.record(None, log.Act.REFUNDED, account, summary)
    return bool(is_first)


def _refund(closing: AccountClosing, processor: Processor) -> int:
    """Return how many cents were paid back. Run again after a crash, it pays back what is left then: the books say it."""
    # The pages that wait for their payers are closed first.
    for payment in _payments(closing.account, processor).filter(status=Payment.Status.OPEN).exclude(session_id=None):
        with contextlib.suppress(UnknownToProcessor):
            processor.close_page(payment.session_id or "")
        _bring_up_to_date(processor, payment)
    for payment, _ in _unused_payments(closing.account, processor):
        _bring_up_to_date(processor, payment)  # a refund that was made and not booked yet
    refunded_cents = 0
    for payment, cents in _unused_payments(closing.account, processor):
        try:
            processor.refund(payment, cents, reference=f"closing-{closing.pk}-{payment.pk}-{payment.debits}")
        except (RefundRefused, UnknownToProcessor):
            logger.exception("the processor does not refund the payment %s", payment.pk)
            continue
        booking.bring_up_to_date(processor, payment.pk)
        refunded_cents += cents
    return refunded_cents


def _is_paying(account: Account, processor: Processor) -> bool:
    """Return whether a payment is under way. A bank takes days, a page or an attempt of a top-up at most one."""
    is_begun = Q(status=Payment.Status.OPEN, created_at__gt=pool.database_time() - _PAYING_TIME)
    return _payments(account, processor).filter(is_begun | Q(status=Payment.Status.PROCESSING)).exists()


def _bring_up_to_date(processor: Processor, payment: Payment) -> None:
    """Book what the processor reports. Leave a payment that it does not know to support: waiting for it would never end."""
    try:
        booking.bring_up_to_date(processor, payment.pk)
    except UnknownToProcessor:
        logger.exception("the processor does not know the payment %s of a closed account", payment.pk)


def _payments(account: Account, processor: Processor) -> QuerySet[Payment]:
    return account.payments.filter(processor=processor.name, is_live=processor.is_live)


def _unused_payments(account: Account, processor: Processor) -> list[tuple[Payment, int]]:
    """Return the payments that are not used up, each with the whole cents that the processor can pay back of it.

    Of one that staff took back a part by hand, it pays back none: a refund that it reports would count as the same money.
    """
    account.refresh_from_db()
    unused = {credit.entry.pk: credit.unused_cents for credit in credits.read_credits(account) if credit.unused_cents}
    found = []
    for payment in _payments(account, processor).filter(credit__in=unused).order_by("pk").select_related("credit"):
        if payment.credit and not credits.taken_back_by_hand(payment.credit):
            cents = min(unused[payment.credit.pk], payment.amount_cents - payment.debited_cents)
            if cents > 0:
                found.append((payment, cents))
    return found


# --- Erasure ------------------------------------------------------------------------------------------------------


def erase_closed() -> int:
    """Erase what is due. Return of how many accounts."""
    is_settled = Q(is_refunded=False) | Q(refunded_at__isnull=False)
    due = AccountClosing.objects.filter(is_settled, undone_at=None, erased_at=None, erase_at__lte=pool.database_time())
    return sum(map(_erase, due.values_list("pk", "account_id")))


def _erase(due: tuple[UUID, UUID]) -> bool:
    closing_id, account_id = due
    with transaction.atomic():
        users = User.objects.filter(memberships__account=account_id, is_staff=False)
        locks.lock_users(list(users.values_list("pk", flat=True)))
        account = locks.lock_account(account_id)
        closing = AccountClosing.objects.filter(pk=closing_id, undone_at=None, erased_at=None).first()
        if closing is None or account.open_holds:
            return False
        now = pool.database_time()
        if account.is_active:  # staff opened it again
            closing.undone_at = now
            closing.save(update_fields=["undone_at"])
            return False
        _erase_account(account)
        closing.erased_at = now
        closing.save(update_fields=["erased_at"])
        log.record(None, log.Act.ERASED, account, "Erased the personal data of the closed account.")
    return True


def _erase_account(account: Account) -> None:
    members = User.objects.filter(memberships__account=account, is_staff=False)
    of_others = Membership.objects.exclude(account=account).filter(user__in=list(members)).values_list("user", flat=True)
    users = list(members.exclude(pk__in=everywhere.gather(of_others.all)))
    TopUpRule.objects.filter(account=account).update(is_on=False, customer_id="", method_id="", card="")
    own_tables.delete_rows(account)
    for app in app_config.installed():
        app.erase(account)
    for user in users:
        keys = UserSession.objects.filter(user=user).values_list("session_key", flat=True)
        Session.objects.filter(session_key__in=list(keys)).delete()
        own_tables.delete_rows_of_user(user)
        user.email, user.first_name, user.last_name = f"erased-{user.pk}@erased.invalid", "", ""
        user.password, user.is_active, user.links_generation = make_password(None), False, user.links_generation + 1
        user.save(update_fields=["email", "first_name", "last_name", "password", "is_active", "links_generation"])
    account.name, account.keeps_responses = f"Closed account {identifiers.ending(account.pk)}", False
    account.save(update_fields=["name", "keeps_responses"])
