"""/dashboard/billing/: the balance, credit to add, payments, receipts, billing details, automatic top-ups. For payers."""

import functools
from datetime import timedelta
from typing import Any
from uuid import UUID

from csp.decorators import csp_update
from django.contrib import messages
from django.db import transaction
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from billing import locks
from billing.accounts.member_pages import Page, act_page, form_page, page_of, plain_page
from billing.accounts.roles import Permission
from billing.ledger import credits
from billing.models import Account, BillingDetails, Payment, TopUpRule
from billing.payments import booking, configuration, issuing, purchases, summaries, top_ups
from billing.payments.documents import taxes
from billing.payments.forms import BillingDetailsForm, CreditForm, TopUpForm
from billing.payments.processor import Processor, ProcessorUnavailable
from billing.sign_in.reauthentication import reauthenticates
from gateway_project.activity import log
from gateway_project.db import pool
from gateway_project.text import dollars

PAYMENTS_PER_PAGE = 25
ASKED_AGAIN_AFTER = timedelta(seconds=3)


def leads_to_processor(view: Page) -> Page:
    """Let the page's forms lead to the processor's page: browsers apply form-action to redirects, too."""

    def page(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        processor = configuration.processor()
        return csp_update({"form-action": [processor.page_origin if processor else "'self'"]})(view)(request, *args, **kwargs)

    return functools.wraps(view)(page)


@leads_to_processor
@form_page(Permission.PAY)
def overview(request: HttpRequest, account: Account) -> HttpResponse:
    """Show the balance and all payments. A POST begins a payment and leads to the processor's page."""
    processor = configuration.processor() if account.is_active else None
    form = CreditForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and processor and form.is_valid():
        try:
            return redirect(purchases.begin(request, account, processor, amount_cents=form.amount_cents).page_url)
        except purchases.NotBegun as error:
            form.add_error(None, str(error))
    page = page_of(request, account.payments.order_by("-id"), PAYMENTS_PER_PAGE)
    notes = summaries.notes_by_payment(account)
    context = {
        "form": form if processor else None,
        "account": account,
        "page": page,
        "payments": [summaries.summarize(payment, notes.get(str(payment.pk), [])) for payment in page],
        "details": BillingDetails.objects.filter(account=account).first(),
        "rule": top_ups.summarize(top_ups.find_rule(account, processor)),
        "is_demo": processor is not None and processor.name == "demo",
    }
    return render(request, "billing/overview.html", context)


@leads_to_processor
@plain_page(Permission.PAY)
def show_payment(request: HttpRequest, account: Account, payment_id: UUID) -> HttpResponse:
    """Show one payment; where payers come back to. Asks the processor itself, without waiting for the webhook."""
    payment = get_object_or_404(account.payments, pk=payment_id)
    is_asked = _ask(payment)
    payment.refresh_from_db()
    is_young = pool.database_time() - payment.created_at < timedelta(hours=1)
    context = {
        "payment": summaries.summarize(payment),
        "is_asked": is_asked,
        "refreshes": bool(summaries.open_page(payment)) and is_young,  # a bank takes days
        "may_retry": summaries.is_over(payment) and account.is_active and configuration.processor() is not None,
    }
    return render(request, "billing/payment.html", context)


@act_page(Permission.PAY)
def cancel_payment(request: HttpRequest, account: Account, payment_id: UUID) -> HttpResponse:
    """Close the processor's page of an open payment, which can then no longer be paid by mistake."""
    payment = get_object_or_404(account.payments, pk=payment_id)
    processor = configuration.processor()
    if processor and processor.name == payment.processor and summaries.open_page(payment):
        try:
            if purchases.cancel(request, payment, processor):
                messages.success(request, f"The payment of {dollars.format_cents(payment.amount_cents)} is cancelled.")
        except ProcessorUnavailable:
            messages.warning(request, "We could not reach the payment processor. Try again in a minute.")
    return redirect("payment", payment_id)


@leads_to_processor
@act_page(Permission.PAY)
def retry_payment(request: HttpRequest, account: Account, payment_id: UUID) -> HttpResponse:
    """Begin another payment of the amount of one that was not paid, and lead to its page."""
    payment = get_object_or_404(account.payments, pk=payment_id)
    processor = configuration.processor() if account.is_active else None
    if processor is None or not summaries.is_over(payment):
        return redirect("payment", payment_id)
    form = CreditForm({"amount": f"{payment.amount_cents // 100}.{payment.amount_cents % 100:02d}"})
    try:
        if not form.is_valid():  # the bounds were others then
            raise purchases.NotBegun(" ".join(str(each) for errors in form.errors.values() for each in errors))
        return redirect(purchases.begin(request, account, processor, amount_cents=form.amount_cents).page_url)
    except purchases.NotBegun as error:
        messages.error(request, str(error))
        return redirect("billing")


def _ask(payment: Payment) -> bool:
    """Bring a payment that is not paid up to date, at most every few seconds. Return False if the processor did not answer."""
    processor = configuration.processor()
    if payment.status == Payment.Status.PAID or processor is None or processor.name != payment.processor:
        return True
    now = pool.database_time()
    may_ask = Q(asked_at=None) | Q(asked_at__lt=now - ASKED_AGAIN_AFTER)
    if not Payment.objects.filter(may_ask, pk=payment.pk).update(asked_at=now):
        return True
    try:
        booking.bring_up_to_date(processor, payment.pk)
    except ProcessorUnavailable:
        return False
    return True


@plain_page(Permission.PAY)
def show_receipt(request: HttpRequest, account: Account, payment_id: UUID) -> HttpResponse:
    payment = get_object_or_404(account.payments, pk=payment_id, status=Payment.Status.PAID)
    context = {
        "payment": summaries.summarize(payment),
        "credit": payment.credit,
        "number": summaries.receipt_number(payment),
        "payer": issuing.payer(payment),
        "tax": taxes.of(payment),
        "seller": issuing.seller(payment),
        "notes": summaries.notes_by_payment(account).get(str(payment.pk), []),
    }
    return render(request, "billing/receipt.html", context)


@plain_page(Permission.PAY)
def download_invoice(request: HttpRequest, account: Account, payment_id: UUID) -> HttpResponse:
    payment = get_object_or_404(account.payments.select_related("account"), pk=payment_id, status=Payment.Status.PAID)
    return _pdf(issuing.invoice(payment), f"invoice-{summaries.receipt_number(payment)}")


@plain_page(Permission.PAY)
def download_credit_note(request: HttpRequest, account: Account, number: str) -> HttpResponse:
    note = credits.find_note(account, number)
    if note is None:
        raise Http404
    return _pdf(issuing.credit_note(note), f"credit-note-{note.number}")


def _pdf(content: bytes, name: str) -> HttpResponse:
    return HttpResponse(content, "application/pdf", headers={"Content-Disposition": f'attachment; filename="{name}.pdf"'})


@form_page(Permission.PAY)
def change_details(request: HttpRequest, account: Account) -> HttpResponse:
    """Change whom receipts name from the next payment on."""
    details = BillingDetails.objects.filter(account=account).first() or BillingDetails(account=account)
    form = BillingDetailsForm(request.POST if request.method == "POST" else None, instance=details)
    if request.method == "POST" and form.is_valid():
        with transaction.atomic():
            saved = form.save()
            log.record(request, log.Act.BILLING_CHANGED, saved, "Changed the billing details.", after=form.cleaned_data)
        messages.success(request, "Billing details saved. New receipts show them.")
        return redirect("billing")
    return render(request, "billing/details.html", {"form": form})


# --- Automatic top-ups ----------------------------------------------------------------------------------------------


@leads_to_processor
@form_page(Permission.PAY)
@reauthenticates
def change_top_up(request: HttpRequest, account: Account) -> HttpResponse:
    """Show the rule. A POST changes it. Without a working card, the POST also begins a payment and keeps its card."""
    processor = configuration.processor() if account.is_active else None
    rule = top_ups.find_rule(account, processor)
    if request.method == "POST" and "off" in request.POST:
        return _turn_top_up_off(request, account)
    form = TopUpForm(request.POST if request.method == "POST" else None, rule=rule)
    if request.method == "POST" and processor and form.is_valid():
        _write_rule(request, account, processor, form.values)
        rule = top_ups.find_rule(account, processor)
        if rule and top_ups.has_working_card(rule) and "new_card" not in request.POST:
            messages.success(request, "Automatic top-up saved.")
            return redirect("billing")
        try:
            amount_cents = form.values["amount_cents"]
            return redirect(purchases.begin(request, account, processor, amount_cents=amount_cents, keeps_card=True).page_url)
        except purchases.NotBegun as error:
            form.add_error(None, str(error))
    return render(request, "billing/top_up.html", {"form": form if processor else None, "rule": top_ups.summarize(rule)})


def _write_rule(request: HttpRequest, account: Account, processor: Processor, values: dict[str, int]) -> None:
    with transaction.atomic():
        locks.lock_account(account.pk)
        # Another member may change the rule: it stays in the name of who gave the card (``booking``).
        first: dict[str, Any] = {"set_by": request.user, "processor": processor.name}
        rule, is_new = TopUpRule.objects.get_or_create(account=account, defaults={**values, **first})
        before = {} if is_new else {name: getattr(rule, name) for name in values}
        if not is_new:
            TopUpRule.objects.filter(pk=rule.pk).update(**values)
        log.record(request, log.Act.TOP_UP_CHANGED, rule, "Set the automatic top-up.", before=before, after=values)


def _turn_top_up_off(request: HttpRequest, account: Account) -> HttpResponse:
    with transaction.atomic():
        locks.lock_account(account.pk)
        rule = TopUpRule.objects.filter(account=account).first()
        if rule and (rule.is_on or rule.card_payment_id):
            TopUpRule.objects.filter(pk=rule.pk).update(is_on=False, card_payment=None)
            log.record(request, log.Act.TOP_UP_CHANGED, rule, "Turned the automatic top-up off.", is_defence=True)
    messages.success(request, "Automatic top-up is off.")
    return redirect("billing")
