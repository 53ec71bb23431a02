"""/dashboard/billing/top-up/: turns automatic top-ups on, changes them and turns them off."""

from typing import Any

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from billing import locks
from billing.models import Account, TopUpRule
from billing.payments import configuration, purchases, top_ups
from billing.payments.forms import TopUpForm
from billing.payments.pages import leads_to_processor, payer_page
from billing.payments.processor import Processor
from billing.sign_in.reauthentication import reauthenticates
from gateway_project.activity import log
from gateway_project.activity.models import Activity


@require_http_methods(["GET", "HEAD", "POST"])
@leads_to_processor
@payer_page
@reauthenticates
def change(request: HttpRequest, account: Account) -> HttpResponse:
    """Show the rule. A POST changes it. Without a working card, the POST also begins a payment and keeps its card."""
    processor = configuration.processor() if account.is_active else None
    rule = top_ups.find_rule(account, processor)
    if request.method == "POST" and "off" in request.POST:
        return _turn_off(request, account)
    form = TopUpForm(request.POST if request.method == "POST" else None, rule=rule)
    if request.method == "POST" and processor and form.is_valid():
        _write(request, account, processor, form.values)
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


def _write(request: HttpRequest, account: Account, processor: Processor, values: dict[str, int]) -> None:
    with transaction.atomic():
        locks.lock_account(account.pk)
        # Another member may change the rule: it stays in the name of who gave the card (``booking``).
        first: dict[str, Any] = {"set_by": request.user, "processor": processor.name}
        rule, is_new = TopUpRule.objects.get_or_create(account=account, defaults={**values, **first})
        before = {} if is_new else {name: getattr(rule, name) for name in values}
        if not is_new:
            TopUpRule.objects.filter(pk=rule.pk).update(**values)
        _record(request, rule, "Set the automatic top-up.", before=before, after=values)


def _turn_off(request: HttpRequest, account: Account) -> HttpResponse:
    with transaction.atomic():
        locks.lock_account(account.pk)
        rule = TopUpRule.objects.filter(account=account).first()
        if rule and (rule.is_on or rule.card_payment_id):
            TopUpRule.objects.filter(pk=rule.pk).update(is_on=False, card_payment=None)
            _record(request, rule, "Turned the automatic top-up off.", is_defence=True)
    messages.success(request, "Automatic top-up is off.")
    return redirect("billing")


def _record(request: HttpRequest, rule: TopUpRule, summary: str, **values: Any) -> None:
    log.record(request, Activity.Act.TOP_UP_CHANGED, rule, summary, account_id=rule.pk, **values)
