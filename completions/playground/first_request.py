"""The first request of an account: one form makes a key, shows its secret once, and sends a request with it.

With scripts the page streams the reply; without, it has the whole one. The secret is only in the reply that made the key.
"""

from typing import Any

from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render

from billing.accounts.member_pages import act_page, form_page
from billing.accounts.roles import Permission
from billing.forms import SelectedAccountForm
from billing.models import Account
from billing.sign_in.reauthentication import reauthenticates
from completions.catalog import lookup
from completions.catalog.lookup import Listing
from completions.models import ModelKind
from completions.playground import completion
from gateway_project import errors
from gateway_project.text import dollars
from gateway_project.web import hosts
from keys import acts
from keys.authentication import Caller
from keys.models import ApiKey

KEY_NAME = "First key"
PROMPT = "Say hello in three languages."


class FirstRequestForm(SelectedAccountForm):
    """``streams``: whether the page has scripts, which then send the request."""

    streams = forms.BooleanField(required=False, widget=forms.HiddenInput)
    purpose = "create a key and send a request"


@form_page(Permission.MANAGE_KEYS)
@reauthenticates
def first_request(request: HttpRequest, account: Account) -> HttpResponse:
    """Show what the button does; a POST does it. One that is sent again sends with the key that is there."""
    form, listing = FirstRequestForm(account, request.POST or None), _choose_model()
    context: dict[str, Any] = {"form": form, "prompt": PROMPT, "listing": listing, "api_url": hosts.api_url(request)}
    context["limit"] = dollars.format_cents(completion.LIMIT_CENTS)
    if request.method == "POST" and listing and form.is_valid():
        try:
            made = completion.find_or_make_key(request, account, KEY_NAME, makes_another=True)
        except (errors.MaximumReached, acts.AccountClosed) as refusal:
            form.add_error(None, refusal.message)
        else:
            assert made is not None
            (key, secret), streams = made, form.cleaned_data["streams"]
            reply = {} if streams else _reply(request, account, key, listing)
            context |= {"key": key, "secret": secret, "streams": streams, **reply}
    return render(request, "completions/first_request.html", context)


def _reply(request: HttpRequest, account: Account, key: ApiKey, listing: Listing) -> dict[str, Any]:
    reply = completion.read(completion.send(request, Caller(key.pk, account.pk), _fields(listing)))
    return {"reply": reply, "left_nanos": completion.balance_after(account, reply.completion_id)}


@act_page(Permission.SEND_REQUESTS)
def stream_first_request(request: HttpRequest, account: Account) -> HttpResponseBase:
    form, listing, key = FirstRequestForm(account, request.POST), _choose_model(), completion.find_key(account, KEY_NAME)
    if not (form.is_valid() and listing and key):
        raise Http404
    stream = {"stream": True, "stream_options": {"include_usage": True}}
    return completion.send(request, Caller(key.pk, account.pk), {**_fields(listing), **stream})


def _fields(listing: Listing) -> dict[str, Any]:
    return {"model": listing.model.pk, "messages": [{"role": "user", "content": PROMPT}]}


def _choose_model() -> Listing | None:
    """Return the cheapest model that chats and can be called now: the echo only where there is no other."""
    found = lookup.list_models(available=True)
    chats = [each for each in found if each.model.kind == ModelKind.CHAT and not each.alias]
    return min(chats, key=lambda each: (each.model.is_echo, each.price.output_nanos), default=None)
