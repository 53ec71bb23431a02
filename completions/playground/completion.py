"""Sends the request of a form with the key that is named Playground, whose secret is not kept.

It passes admission, limits, hold and settlement, as every completion does.
"""

from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from rest_framework.authentication import BaseAuthentication
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from billing import locks as account_locks
from billing.models import Account
from completions.chat import ChatRequest, RequestBody
from completions.inbound.completion_view import CompletionView
from completions.relay.reply_format import ChatFormat
from completions.request import schema
from completions.request.fields import Fields
from gateway_project.db import pool
from gateway_project.text import compact_json
from gateway_project.web.request_notes import notes_of_api
from gateway_project.web.strict_json import Body
from keys import acts
from keys.authentication import Caller
from keys.models import ApiKey
from keys.spending_limit import SpendingLimit, SpendingPeriod, SpendingType

KEY_NAME = "Playground"
LIMIT_CENTS = 500  # a month; owners and developers change it among the keys


def find_or_make_key(request: HttpRequest, account: Account, *, makes_another: bool) -> ApiKey | None:
    """Return the key, which the first request makes; None if it is revoked or has expired, unless ``makes_another``."""
    if key := _usable(account):
        return key
    with transaction.atomic():
        account_locks.lock_account(account.pk)  # two first requests at once make one key
        if key := _usable(account):
            return key
        if account.keys.filter(name__iexact=KEY_NAME).exists() and not makes_another:
            return None
        limit = SpendingLimit(LIMIT_CENTS, SpendingType.RECURRING.value, SpendingPeriod.MONTHLY.value)
        return acts.make_key(request, account, name=KEY_NAME, created_by=request.user, limit=limit)[0]


def _usable(account: Account) -> ApiKey | None:
    not_expired = Q(expires_at=None) | Q(expires_at__gt=Now())
    return account.keys.filter(not_expired, name__iexact=KEY_NAME, revoked_at=None).order_by("pk").first()


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

    def read(self, fields: Fields, raw: bytes | None, pause: Callable[[], None]) -> ChatRequest:
        return schema.parse(RequestBody(fields, raw), pause)


_post = FormCompletion.as_view()


def send(request: HttpRequest, caller: Caller, fields: dict[str, Any]) -> HttpResponseBase:
    """Return the reply in the API's format. The page has checked the CSRF token and the member's role."""
    sent = compact_json.dumps(fields)
    pool.release_connection()  # others need it while the provider works
    return _post(request, caller=caller, sent=sent)
