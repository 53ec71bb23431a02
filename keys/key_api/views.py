"""The endpoints of /api/keys. Each finds the key among those of the management key's account, and makes one call inward."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from billing.models import Account
from gateway_project import errors
from gateway_project.db import pool
from gateway_project.text import timestamps
from gateway_project.web import strict_json
from gateway_project.web.openapi import specification
from gateway_project.web.query_parameters import FilteredView, ParameterSet, WholeNumber
from keys import acts, lifetimes, rotation, summaries
from keys.key_api import idempotency, request_fields
from keys.key_api.authentication import ManagementAuthentication
from keys.key_api.key_object import ApiKeyPageSerializer, ApiKeySerializer, ApiKeyWithSecretSerializer, describe_keys
from keys.key_api.request_fields import ChangeSerializer, NewKeySerializer, RotationSerializer
from keys.models import ApiKey
from keys.spending_limit import NO_LIMIT

LIMIT_DEFAULT, LIMIT_MAX = 10, 100
_IDEMPOTENCY_KEY = OpenApiParameter(
    idempotency.HEADER,
    {"type": "string", "minLength": 1, "maxLength": idempotency.CHARACTERS_MAX, "pattern": "^[ -~]+$"},
    OpenApiParameter.HEADER,
    description="Within an hour, a request with the same one gets the first one's reply.",
)
_OF_ALL = (errors.InvalidApiKey, errors.RateLimitExceeded)
_OF_ONE = (*_OF_ALL, errors.PathNotFound)
_OF_BODIES = (
    errors.InvalidRequest,
    errors.RequestTimeout,
    errors.LengthRequired,
    errors.RequestTooLarge,
    errors.UnsupportedMediaType,
)
_OF_POSTS = (errors.InvalidRequest, errors.ReplyUnreadable)


@dataclass(frozen=True)
class Page:
    """Which keys of the list to return."""

    limit: int = LIMIT_DEFAULT
    offset: int = 0


class PageFilterSet(ParameterSet):
    """Selects one page of keys."""

    limit = WholeNumber(1, LIMIT_MAX, default=LIMIT_DEFAULT, description="Maximum number of keys to return.")
    offset = WholeNumber(0, None, default=0, description="How many keys to skip.")


class KeyListView(FilteredView):
    authentication_classes = [ManagementAuthentication]
    queryset = ApiKey.objects.none()
    filterset_class = PageFilterSet

    @specification.extend_schema(
        operation_id="listKeys",
        summary="List the keys",
        description="A page of the account's keys: those not revoked first, each newest first.",
        filters=True,
        responses={200: ApiKeyPageSerializer, **specification.error_responses(errors.InvalidRequest, *_OF_ALL)},
    )
    def get(self, request: Request) -> Response:
        page = self.select(Page())
        keys = summaries.keys_newest_first(_account(request)).select_related("account")
        offset = min(page.offset, 2**31)
        described = describe_keys(keys[offset : offset + page.limit], pool.database_time())
        return Response({"keys": described, "limit": page.limit, "offset": page.offset, "count": len(described)})

    @specification.extend_schema(
        operation_id="createKey",
        summary="Create a key",
        description="The reply has the key's secret, which cannot be read again.",
        parameters=[_IDEMPOTENCY_KEY],
        filters=False,
        request=NewKeySerializer,
        responses={201: ApiKeyWithSecretSerializer, **specification.error_responses(*_OF_BODIES, *_OF_POSTS, *_OF_ALL)},
    )
    def post(self, request: Request) -> Response:
        strict_json.content_length(request)
        fields = request_fields.read(NewKeySerializer, request.data)

        def act() -> tuple[int, dict[str, Any]]:
            account = _account(request)
            given = request_fields.details(fields, account)
            limit = request_fields.limit(fields) or NO_LIMIT
            with _expires_in_time():
                key, minted = acts.make_key(request._request, account, limit=limit, **given)
            return 201, {**_describe(account, key.pk), "secret": minted}

        return idempotency.once(request, act)


class KeyView(APIView):
    authentication_classes = [ManagementAuthentication]

    @specification.extend_schema(
        operation_id="retrieveKey",
        summary="Retrieve a key",
        description="What a key may do, and what it spent. Its secret is not stored.",
        responses={200: ApiKeySerializer, **specification.error_responses(*_OF_ONE)},
    )
    def get(self, request: Request, key_id: str) -> Response:
        return Response(_describe(_account(request), key_id))

    @specification.extend_schema(
        operation_id="updateKey",
        summary="Change a key",
        description="Sets the fields that are given. null clears one. The three of the spending limit are set together.",
        request=ChangeSerializer,
        responses={200: ApiKeySerializer, **specification.error_responses(*_OF_BODIES, *_OF_ONE)},
    )
    def patch(self, request: Request, key_id: str) -> Response:
        strict_json.content_length(request)
        fields = request_fields.read(ChangeSerializer, request.data)

        def act(key: ApiKey) -> dict[str, Any]:
            limit = request_fields.limit(fields)
            with _expires_in_time():
                acts.change(request._request, key, request_fields.details(fields, key.account, key))
            if limit is not None:
                acts.set_spending_limit(request._request, key, limit)
            return {}

        return _act_on(request, key_id, act)


class RotateView(APIView):
    authentication_classes = [ManagementAuthentication]

    @specification.extend_schema(
        operation_id="rotateKey",
        summary="Rotate a key",
        description="Gives the key a new secret, which the reply has. Every secret that works now ends after the grace period.",
        parameters=[_IDEMPOTENCY_KEY],
        request=RotationSerializer,
        responses={200: ApiKeyWithSecretSerializer, **specification.error_responses(*_OF_BODIES, *_OF_POSTS, *_OF_ONE)},
    )
    def post(self, request: Request, key_id: str) -> Response:
        strict_json.refuse_chunks(request)  # the former secrets would work for longer than it says
        fields = request_fields.read(RotationSerializer, request.data)

        def act(key: ApiKey) -> dict[str, Any]:
            try:
                return {"secret": acts.rotate(request._request, key, timedelta(seconds=fields["graceSeconds"]))}
            except rotation.TooManySecrets as refusal:
                raise errors.wrong("graceSeconds", f"must be 0: {refusal}") from None

        return _act_on(request, key_id, act)


def _act_view(operation_id: str, summary: str, description: str, act: Callable[[Any, ApiKey], object]) -> type[APIView]:
    """Return the view of an act that needs nothing but the key."""

    class ActView(APIView):
        authentication_classes = [ManagementAuthentication]

        @specification.extend_schema(
            operation_id=operation_id,
            summary=summary,
            description=description,
            parameters=[_IDEMPOTENCY_KEY],
            request=None,
            responses={200: ApiKeySerializer, **specification.error_responses(*_OF_POSTS, *_OF_ONE)},
        )
        def post(self, request: Request, key_id: str) -> Response:
            return _act_on(request, key_id, lambda key: act(request._request, key))

    return ActView


_PAUSED = "Its requests are refused until it is resumed. Nothing happens if it is paused already."
PauseView = _act_view("pauseKey", "Pause a key", _PAUSED, acts.pause)
ResumeView = _act_view("resumeKey", "Resume a key", "Admits the requests of a paused key again.", acts.resume)
RevokeView = _act_view(
    "revokeKey", "Revoke a key", "Disables the key for good. Nothing happens if it is revoked already.", acts.revoke
)


@contextmanager
def _expires_in_time() -> Iterator[None]:
    try:
        yield
    except lifetimes.ExpiresTooLate as refusal:
        raise errors.wrong("expiresAt", f"must be at most {timestamps.iso_millis(refusal.latest)}: {refusal}") from None


def _account(request: Request) -> Account:
    assert isinstance(request.user, Account)
    return request.user


def _find(account: Account, key_id: str) -> ApiKey:
    key = account.keys.select_related("account").filter(pk=key_id).first()
    if key is None:
        raise errors.PathNotFound("The account has no key with this ID.")
    return key


def _describe(account: Account, key_id: str) -> dict[str, Any]:
    [described] = describe_keys([_find(account, key_id)], pool.database_time())
    return described


def _act_on(request: Request, key_id: str, act: Callable[[ApiKey], Any]) -> Response:
    """Reply with the key after the act, and with what the act returns, if that is a dict."""

    def act_and_describe() -> tuple[int, dict[str, Any]]:
        account = _account(request)
        try:
            outcome = act(_find(account, key_id))
        except acts.KeyRevoked:
            raise errors.InvalidRequest("The key is revoked and can no longer be changed.") from None
        return 200, _describe(account, key_id) | (outcome if isinstance(outcome, dict) else {})

    return idempotency.once(request, act_and_describe)
