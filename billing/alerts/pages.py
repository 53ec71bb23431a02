"""/dashboard/alerts/: the alerts of an account and who got them, the threshold of the balance, and webhooks."""

import logging
import re
from typing import Any
from urllib.parse import quote
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponsePermanentRedirect
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse

from billing import locks
from billing.accounts.list_forms import ListForm
from billing.accounts.member_pages import act_page, form_page, page_of, plain_page
from billing.accounts.roles import Permission
from billing.alerts import endpoints, payload, summaries
from billing.forms import DollarsField
from billing.models import Account, AccountAlert, AlertDelivery, WebhookEndpoint
from billing.sign_in.reauthentication import reauthenticates
from gateway_project.activity import log
from gateway_project.db import pool
from gateway_project.text import dollars, number_fields

logger = logging.getLogger("gateway.warnings")

ALERTS_PER_PAGE = 25
FACTOR_MIN, FACTOR_MAX = 2, 100
DELIVERIES_PER_PAGE = 25
REPEATED_MAX = 100
_HEX = re.compile("[0-9a-f]{32}")
DEPRECATED_SINCE = "@1795478400"  # 24 November 2026, as RFC 9745 writes it


class SettingsForm(forms.Form):
    """Below which balance members are warned, and above how many times the usual hour of a key. Empty: they are not."""

    threshold = DollarsField(
        label="Alert when the balance falls below",
        min_cents=1,
        required=False,
        help_text="In US dollars. Leave empty for no alert.",
    )
    factor = number_fields.IntegerField(
        label="Alert when a key spends so many times its usual hour",
        min_value=FACTOR_MIN,
        max_value=FACTOR_MAX,
        required=False,
        help_text="From 2 to 100. Leave empty for no alert.",
    )


class EndpointForm(forms.Form):
    """Where alerts are posted to."""

    url = forms.CharField(
        label="Address",
        max_length=500,
        widget=forms.URLInput(attrs={"placeholder": "https://example.org/hooks/gateway", "autocomplete": "off"}),
        help_text="It receives a signed POST for each alert and must answer with a status of 200 to 299 within 10 seconds.",
    )


class RepeatForm(ListForm):
    """Which events are sent again: those of some UTC days, or after one event, or both."""

    event = forms.CharField(required=False, max_length=37, label="After event", help_text="The ID of the last event you have.")

    def __init__(self, account: Account, *given: Any) -> None:
        super().__init__(*given)
        self._sent = summaries.alerts_of(account).exclude(kind=AccountAlert.Kind.TEST).exclude(prepared_at=None)

    def clean_event(self) -> AccountAlert | None:
        text = self.cleaned_data["event"].removeprefix("warn_")
        found = self._sent.filter(pk=text).first() if _HEX.fullmatch(text) else None
        if text and found is None:
            raise forms.ValidationError("No event has this ID. Events are kept for 90 days.")
        return found

    def clean(self) -> None:
        super().clean()
        if not self.errors and not any(self.cleaned_data.values()):
            raise forms.ValidationError("Enter a day or an event.")

    @property
    def alerts(self) -> QuerySet[AccountAlert]:
        """The events, oldest first."""
        given = {"created_at__gte": self.begin, "created_at__lt": self.end}
        alerts = self._sent.filter(**{name: moment for name, moment in given.items() if moment}).order_by("created_at", "pk")
        if (last := self.cleaned_data["event"]) is None:
            return alerts
        return alerts.filter(Q(created_at__gt=last.created_at) | Q(created_at=last.created_at, pk__gt=last.pk))


def moved(request: HttpRequest, rest: str) -> HttpResponse:
    """Redirect from /dashboard/warnings/, the former address, and say so: to clients in headers, to operators in the log."""
    logger.info("deprecated path %s", request.path)
    query = request.META["QUERY_STRING"]
    address = f"{reverse('alerts')}{quote(rest)}{f'?{query}' if query else ''}"
    reply = HttpResponsePermanentRedirect(address, preserve_request=True)
    reply["Deprecation"], reply["Link"] = DEPRECATED_SINCE, f'<{address}>; rel="successor-version"'
    return reply


@plain_page()
def show(request: HttpRequest, account: Account) -> HttpResponse:
    """List the alerts, newest first, with their deliveries; and what warns."""
    page = page_of(request, summaries.alerts_of(account), ALERTS_PER_PAGE)
    context = {
        "account": account,
        "page": page,
        "alerts": summaries.read_alerts(account, page),
        "endpoints": [(each, summaries.describe_state(each)) for each in account.webhook_endpoints.order_by("pk")],
        "endpoints_max": settings.ACCOUNT_WEBHOOKS_MAX,
    }
    return render(request, "alerts/list.html", context)


@form_page(Permission.PAY)
def change_threshold(request: HttpRequest, account: Account) -> HttpResponse:
    """Set when members are warned."""
    initial = {"threshold": account.warning_threshold_cents, "factor": account.unusual_hour_factor}
    form = SettingsForm(request.POST if request.method == "POST" else None, initial=initial)
    if request.method == "POST" and form.is_valid():
        cents = form.cleaned_data["threshold"]
        factor = form.cleaned_data["factor"]
        whens = [f"when the balance falls below {dollars.format_cents(cents)}"] if cents else []
        whens += [f"when a key spends {factor} times its usual hour"] if factor else []
        summary = f"Members get an alert {' and '.join(whens) or 'neither of a low balance nor of an unusual hour'}."
        after = {"warning_threshold_cents": cents, "unusual_hour_factor": factor}
        with transaction.atomic():
            log.change(request, log.Act.THRESHOLD_SET, locks.lock_account(account.pk), summary, after)
        messages.success(request, summary)
        return redirect("alerts")
    return render(request, "alerts/threshold.html", {"form": form})


# --- Webhooks -----------------------------------------------------------------------------------------------------


@form_page(Permission.MANAGE_WEBHOOKS)
@reauthenticates
def new_endpoint(request: HttpRequest, account: Account) -> HttpResponse:
    """Make an endpoint. Its secret is shown only in the reply to the POST: it is in no URL, cookie or session."""
    form = EndpointForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            endpoint, secret = endpoints.make(request, account, form.cleaned_data["url"])
            return _show_secret(request, endpoint, secret)
        except endpoints.EndpointRefused as refusal:
            form.add_error("url", str(refusal))
    return render(request, "alerts/new.html", {"form": form})


@form_page(Permission.MANAGE_WEBHOOKS)
@reauthenticates
def rotate(request: HttpRequest, account: Account, endpoint_id: UUID) -> HttpResponse:
    """Ask first; a POST makes a new secret and shows it once."""
    endpoint = get_object_or_404(account.webhook_endpoints, pk=endpoint_id)
    if request.method == "POST":
        return _show_secret(request, endpoint, endpoints.rotate(request, endpoint), is_rotated=True)
    return render(request, "alerts/rotate.html", {"url": endpoint.url, "id": endpoint.pk})


def _show_secret(request: HttpRequest, endpoint: WebhookEndpoint, secret: str, *, is_rotated: bool = False) -> HttpResponse:
    return render(request, "alerts/secret.html", {"endpoint": endpoint, "secret": secret, "is_rotated": is_rotated})


@plain_page(Permission.MANAGE_WEBHOOKS)
def show_endpoint(request: HttpRequest, account: Account, endpoint_id: UUID) -> HttpResponse:
    """Show an endpoint with its deliveries, newest first."""
    endpoint = get_object_or_404(account.webhook_endpoints, pk=endpoint_id)
    page = page_of(request, endpoint.deliveries.select_related("alert", "endpoint").order_by("-pk"), DELIVERIES_PER_PAGE)
    context: dict[str, Any] = {
        "endpoint": endpoint,
        "state": summaries.describe_state(endpoint),
        "now": pool.database_time(),
        "page": page,
        "deliveries": [(payload.describe(each.alert), summaries.summarize_delivery(each)) for each in page],
    }
    return render(request, "alerts/endpoint.html", context)


@act_page(Permission.MANAGE_WEBHOOKS)
def pause(request: HttpRequest, account: Account, endpoint_id: UUID) -> HttpResponse:
    """Pause or resume the endpoint, as the button says: a second press changes nothing."""
    endpoint = get_object_or_404(account.webhook_endpoints, pk=endpoint_id)
    is_paused = "pause" in request.POST
    endpoints.set_paused(request, endpoint, is_paused=is_paused)
    outcome = "is paused. We send nothing to it" if is_paused else "is resumed. Waiting deliveries are sent now"
    messages.success(request, f"{endpoint.url} {outcome}.")
    return redirect("webhook", endpoint_id)


@act_page(Permission.MANAGE_WEBHOOKS)
def send_test(request: HttpRequest, account: Account, endpoint_id: UUID) -> HttpResponse:
    """Send a test, which appears among the deliveries."""
    endpoint = get_object_or_404(account.webhook_endpoints, pk=endpoint_id)
    try:
        endpoints.send_test(request, endpoint)
        messages.success(request, "We are sending a test. The result appears here in a few seconds.")
    except endpoints.EndpointRefused as refusal:
        messages.error(request, str(refusal))
    return redirect("webhook", endpoint_id)


@form_page(Permission.MANAGE_WEBHOOKS)
def delete(request: HttpRequest, account: Account, endpoint_id: UUID) -> HttpResponse:
    """Ask first; a POST deletes the endpoint with its deliveries."""
    endpoint = get_object_or_404(account.webhook_endpoints, pk=endpoint_id)
    if request.method == "POST":
        endpoints.delete(request, endpoint)
        messages.success(request, f"{endpoint.url} is deleted.")
        return redirect("alerts")
    return render(request, "alerts/delete.html", {"url": endpoint.url, "id": endpoint.pk})


@act_page(Permission.MANAGE_WEBHOOKS)
def send_again(request: HttpRequest, account: Account, delivery_id: UUID) -> HttpResponse:
    """Send an ended delivery again, with its former id."""
    sent = AlertDelivery.objects.filter(alert__account=account, endpoint__isnull=False).select_related("endpoint", "alert")
    delivery = get_object_or_404(sent, pk=delivery_id)
    assert delivery.endpoint
    try:
        if endpoints.send_again(request, delivery.endpoint, [delivery.alert]):
            messages.success(request, "We are sending it again.")
        else:
            messages.warning(request, "It is already waiting to be sent.")
    except endpoints.EndpointRefused as refusal:
        messages.error(request, str(refusal))
    return redirect("webhook", delivery.endpoint_id)


@form_page(Permission.MANAGE_WEBHOOKS)
def repeat(request: HttpRequest, account: Account, endpoint_id: UUID) -> HttpResponse:
    """Send what happened in a time, or after an event, again, the oldest first: REPEATED_MAX at once."""
    endpoint = get_object_or_404(account.webhook_endpoints, pk=endpoint_id)
    form = RepeatForm(account, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        found = list(form.alerts[: REPEATED_MAX + 1])
        alerts = found[:REPEATED_MAX]
        try:
            if number := endpoints.send_again(request, endpoint, alerts):
                more = f" There are more: continue after {payload.message_id(alerts[-1])}." if found != alerts else ""
                messages.success(request, f"We are sending {number} of them again, one a second.{more}")
                return redirect("webhook", endpoint_id)
            form.add_error(None, "There is nothing to send: no event happened then, or all of them are waiting already.")
        except endpoints.EndpointRefused as refusal:
            form.add_error(None, str(refusal))
    return render(request, "alerts/repeat.html", {"form": form, "endpoint": endpoint, "maximum": REPEATED_MAX})
