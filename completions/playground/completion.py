"""Sends the request of a form with a key. It passes admission, limits, hold and settlement, as every completion does."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from rest_framework.authentication import BaseAuthentication
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from completions.chat import ChatRequest, RequestBody
from completions.inbound.completion_view import CompletionView
from completions.relay.reply_format import ChatFormat
from completions.request import schema
from completions.request.fields import Fields
from gateway_project.db import pool
from gateway_project.text import compact_json
from gateway_project.web.request_notes import notes_of_api
from gateway_project.web.strict_json import Body
from keys.authentication import Caller


@dataclass(frozen=True)
class FormRequest:
    """What a form asks for, as the body of a completion, and the key that pays."""

    caller: Caller
    body: bytes


class FormAuthentication(BaseAuthentication):
    """The page has authenticated the member by the session. The caller is the key that the page chose."""

    def authenticate(self, request: Request) -> Any:
        caller = request.parser_context["kwargs"]["form"].caller
        notes_of_api(request).key_id = caller.key_id
        return caller, caller


class FormParser(BaseParser):
    """The form has been read, and is at hand as the body of a completion."""

    media_type = "*/*"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        assert parser_context is not None
        body: Body = parser_context["view"].body
        body.text = parser_context["kwargs"]["form"].body
        return body


class FormCompletion(CompletionView):
    authentication_classes = [FormAuthentication]
    parser_classes = [FormParser]
    reply_format = ChatFormat()

    def read(self, fields: Fields, raw: bytes | None, pause: Callable[[], None]) -> ChatRequest:
        return schema.parse(RequestBody(fields, raw), pause)

    def post(self, request: Request, form: FormRequest) -> HttpResponseBase:
        return self.complete(request)


_complete = FormCompletion.as_view()


def send(request: HttpRequest, caller: Caller, fields: dict[str, Any]) -> HttpResponseBase:
    """Return the reply in the API's format. The page has checked the CSRF token and the member's role."""
    form = FormRequest(caller, compact_json.dumps(fields))
    pool.release_connection()  # others need it while the provider works
    return _complete(request, form=form)
