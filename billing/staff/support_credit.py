"""Credits that staff book: whom they may credit, how much each time and on each UTC day, and what needs approval.

A credit needs the approval of a second person when it takes what its issuer credited the account on this day above a threshold.
While it waits, it counts against the caps of its issuer, so that an approval cannot exceed them. Caps and threshold apply to
superusers, too. A payment by bank transfer has no caps and always needs approval, because only the person who books it has seen
the bank account. The operator's command ``manage.py grant_credit`` has no limits: whoever runs it could write to the database.
"""

from datetime import UTC, datetime, time
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet, Sum

from billing import money, staff_permissions
from billing.ledger import writer
from billing.models import Account, CreditRequest, LedgerEntry, User
from billing.staff import approvals
from billing.staff.approvals import ApprovalRefused, Decision
from billing.staff.people_requests import state_of_owners
from gateway_project.db import everywhere, pool
from gateway_project.text import dollars

Kind = CreditRequest.Kind


def issue(
    account: Account, issuer: User, *, amount_cents: int, reason: str, reference: str, ticket: str = ""
) -> LedgerEntry | CreditRequest:
    """Credit the account, or ask for it if it needs approval.

    The caller has locked the issuer and the account, so that concurrent credits do not exceed a cap together. Raises
    ApprovalRefused, ReferenceReused.
    """
    _require_allowed(account, amount_cents, issuer)
    alone_nanos = _sum_nanos(_issued_today(issuer).filter(account=account, credit_request__isnull=True))
    if alone_nanos + money.nanos(amount_cents) > money.nanos(settings.SUPPORT_CREDIT_ALONE_CENTS_MAX):
        terms: dict[str, Any] = {"amount_cents": amount_cents, "reason": reason, "reference": reference, "ticket": ticket}
        return CreditRequest.objects.create(account=account, requested_by=issuer, seen=_state(account), **terms)
    return writer.grant_support_credit(
        account.pk, amount_cents=amount_cents, reason=reason, reference=reference, issued_by=issuer
    ).entry


def _require_allowed(account: Account, amount_cents: int, issuer: User) -> None:
    """Refuse what the issuer may not credit, with or without approval. The issuer and the account are locked."""
    if not staff_permissions.may_credit(issuer, account):
        raise ApprovalRefused("You are a member of this account. A colleague must credit it.")
    if not account.is_active:
        raise ApprovalRefused("The account is closed. Reopen it before you credit it.")
    if amount_cents > settings.SUPPORT_CREDIT_CENTS_MAX:
        raise ApprovalRefused(f"The maximum is {dollars.format_cents(settings.SUPPORT_CREDIT_CENTS_MAX)}.")
    left_cents = left_today_cents(issuer)
    if amount_cents > left_cents:
        raise ApprovalRefused(f"You can credit {dollars.format_cents(max(left_cents, 0))} more until midnight UTC.")


def left_today_cents(issuer: User) -> int:
    """Return how much the person may still credit in total until midnight UTC. It is negative if the cap was lowered since.

    A waiting credit counts on every day until it is decided. An approved one then counts on the day of its entry.
    """
    of_issuer = approvals.waiting(CreditRequest).filter(requested_by=issuer, kind=Kind.SUPPORT_CREDIT)
    asked_cents = sum(everywhere.run(lambda: of_issuer.aggregate(cents=Sum("amount_cents"))["cents"] or 0))
    issued_cents = money.floor_cents(sum(everywhere.run(lambda: _sum_nanos(_issued_today(issuer)))))
    return settings.SUPPORT_CREDIT_DAY_CENTS_MAX - issued_cents - asked_cents


def _issued_today(issuer: User) -> QuerySet[LedgerEntry]:
    day_began = datetime.combine(pool.database_time().astimezone(UTC).date(), time.min, tzinfo=UTC)
    return LedgerEntry.objects.filter(issued_by=issuer, type=LedgerEntry.Type.SUPPORT_CREDIT, created_at__gte=day_began)


def _sum_nanos(entries: QuerySet[LedgerEntry]) -> int:
    return entries.aggregate(nanos=Sum("amount_nanos"))["nanos"] or 0


def ask_for_purchase(account: Account, requester: User, *, payment_id: str, **terms: int | str) -> CreditRequest:
    """Ask that a payment by bank transfer be booked. The requester and the account are locked."""
    return CreditRequest.objects.create(
        account=account,
        requested_by=requester,
        kind=Kind.CREDIT_PURCHASE,
        payment_id=payment_id,
        seen=state_of_owners(account),
        **terms,
    )


def approve(request_id: UUID, *, by: User) -> writer.BookedEntry:
    """Book the credit, once, in the name of who asked for it. Raises ApprovalRefused, CreditRequest.DoesNotExist."""
    with transaction.atomic():
        asked = approvals.lock(CreditRequest, request_id, by.pk)
        if refusal := approval_refusal(asked, by):
            raise ApprovalRefused(refusal)
        booked = _book(asked)
        approvals.decide(asked, Decision.APPROVED, by, entry=booked.entry)
        return booked


def _book(asked: CreditRequest) -> writer.BookedEntry:
    terms: dict[str, Any] = {"amount_cents": asked.amount_cents, "issued_by": asked.requested_by}
    if asked.kind == Kind.SUPPORT_CREDIT:
        booked = writer.grant_support_credit(asked.account_id, reason=asked.reason, reference=asked.reference, **terms)
        if not booked.is_new:  # only a command can have taken the reference
            raise ApprovalRefused("An operator booked a credit with the same reference.")
        return booked
    try:
        booked = writer.credit_purchase(asked.account, processor="bank", payment_id=asked.payment_id, **terms)
    except writer.ReferenceReused:
        raise ApprovalRefused("This payment is already booked with other terms.") from None
    if not booked.is_new:
        raise ApprovalRefused("This payment is already booked.")
    return booked


def approval_refusal(asked: CreditRequest, by: User) -> str:
    """Return why ``by`` cannot approve the request, or ''."""
    if refusal := approvals.refusal(asked, by):
        return refusal
    for person in (by, asked.requested_by):
        if not staff_permissions.may_credit(person, asked.account):
            return f"Members cannot take part in crediting their own account, and {person.email} is one."
    if not asked.account.is_active:
        return "The account has been closed since. Reopen it before you credit it."
    if asked.account.balance_nanos + money.nanos(asked.amount_cents) > money.NANOS_MAX:
        return "The balance would be larger than the ledger can store."
    is_support = asked.kind == Kind.SUPPORT_CREDIT
    return approvals.change_since(asked, _state(asked.account) if is_support else state_of_owners(asked.account))


def _state(account: Account) -> dict[str, Any]:
    """Return the owners of the account and its last support credit: another one may have been booked for the same reason."""
    support = account.entries.filter(type=LedgerEntry.Type.SUPPORT_CREDIT, issued_by__isnull=False).order_by("-seq")
    return {
        "The support credit of the account": support.values_list("seq", flat=True).first(),
        **state_of_owners(account),
    }
