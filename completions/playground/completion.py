"""Sends the request of a form with a key of the account, whose secret is not kept. It is charged as every completion is."""

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from rest_framework.authentication import BaseAuthentication
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from billing import locks as account_locks
from billing.models import Account
from completions.inbound.completion_view import CompletionView
from completions.relay.reply_format import ChatFormat
from gateway_project.db import pool
from gateway_project.text import compact_json, dollars
from gateway_project.web.request_notes import notes_of_api
from gateway_project.web.strict_json import Body
from keys import acts
from keys.authentication import Caller
from keys.models import ApiKey
from keys.spending_limit import SpendingLimit, SpendingPeriod, SpendingType

KEY_NAME = "Playground"
LIMIT_CENTS = 500  # a month; owners and developers change it among the keys


def find_or_make_key(request: HttpRequest, account: Account, name: str, *, makes_another: bool) -> tuple[ApiKey, str] | None:
    """Return the key of this name, with its secret if this call made it. Raises MaximumReached, AccountClosed.

    None if it is revoked or has expired, unless ``makes_another``.
    """
    if key := find_key(account, name):
        return key, ""
    with transaction.atomic():
        account_locks.lock_account(account.pk)  # two first requests at once make one key
        if key := find_key(account, name):
            return key, ""
        if account.keys.filter(name__iexact=name).exists() and not makes_another:
            return None
        limit = SpendingLimit(LIMIT_CENTS, SpendingType.RECURRING.value, SpendingPeriod.MONTHLY.value)
        return acts.make_key(request, account, name=name, created_by=request.user, limit=limit)


def find_key(account: Account, name: str) -> ApiKey | None:
    not_expired = Q(expires_at=None) | Q(expires_at__gt=Now())
    return account.keys.filter(not_expired, name__iexact=name, revoked_at=None).order_by("pk").first()


class FormAuthentication(BaseAuthentication):
    """The page has authenticated the member by the session. The caller is the key that the page chose."""

    def authenticate(self, request: Request) -> Any:
        caller = request.parser_context["kwargs"]["caller"]
        notes_of_api(request).key_id = caller.key_id
        return caller, caller


class FormParser(BaseParser):
    """The form has been read, and is at hand as the body of a completion."""

    media_type = "*/*"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        assert parser_context is not None
        body: Body = parser_context["view"].body
        body.text = parser_context["kwargs"]["sent"]
        return body


class FormCompletion(CompletionView):
    authentication_classes = [FormAuthentication]
    parser_classes = [FormParser]
    reply_format = ChatFormat()


_post = FormCompletion.as_view()


def send(request: HttpRequest, caller: Caller, fields: dict[str, Any]) -> HttpResponseBase:
    """Return the reply in the API's format. The page has checked the CSRF token and the member's role."""
    sent = compact_json.dumps(fields)
    pool.release_connection()  # others need it while the provider works
    return _post(request, caller=caller, sent=sent)


def balance_after(account: Account, completion_id: str) -> int | None:
    """Return the balance after a completion, in nanodollars; None if it was not charged."""
    return account.entries.filter(reference=completion_id).values_list("balance_after_nanos", flat=True).first()


@dataclass(frozen=True)
class Reply:
    """A whole reply, or why there is none. ``cost_nanos``: None where it is not known."""

    completion_id: str = ""
    text: str = ""
    error: str = ""
    lacks_credit: bool = False
    is_cut: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_nanos: int | None = None


def read(response: HttpResponseBase) -> Reply:
    """Return the whole reply of a request that was not to stream."""
    assert isinstance(response, HttpResponse)
    body = json.loads(response.content, parse_float=Decimal, parse_int=Decimal)
    if "error" in body:
        error = body["error"]
        lacks_credit = error["code"] == "insufficient_quota" and error["limit_source"] == "account"
        return Reply(error=error["message"], lacks_credit=lacks_credit)
    [choice, *_], usage = body["choices"], body["usage"]
    return Reply(
        completion_id=body["id"],
        text=choice["message"].get("content") or "",
        is_cut=choice["finish_reason"] == "length",
        prompt_tokens=int(usage["prompt_tokens"]),
        completion_tokens=int(usage["completion_tokens"]),
        cost_nanos=None if usage["cost"] is None else int(usage["cost"] * dollars.NANOS_PER_DOLLAR),
    )
