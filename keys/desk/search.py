"""Finds keys by what is public of their secrets, and refused requests by their ids."""

import re

from django.db.models import QuerySet

from gateway_project.desk import short_ids
from gateway_project.desk.search import Finder
from keys import secret, summaries
from keys.models import ApiKey, RefusedRequest

_ID_CHARACTERS_MIN = 6  # without the prefix: fewer may be a word of a name
_ID = re.compile(rf"(?:{secret.PREFIX}[0-9A-Za-z]{{1,22}}|[0-9A-Za-z]{{{_ID_CHARACTERS_MIN},22}})", re.ASCII)
_MASKED = re.compile(rf"(?:{secret.PREFIX})?(?:…|\.\.\.)?([0-9A-Za-z]{{4}})", re.ASCII)

_KEYS = ApiKey.objects.select_related("account")


def _keys_by_id(term: str) -> QuerySet[ApiKey]:
    part = short_ids.parse(term)
    if not _ID.fullmatch(part.beginning):
        return ApiKey.objects.none()
    begun = _KEYS.filter(pk__startswith=part.beginning.removeprefix(secret.PREFIX))
    return begun.filter(pk__endswith=part.end)


def _keys_by_last_four(term: str) -> QuerySet[ApiKey]:
    match = _MASKED.fullmatch(term)
    return _KEYS.filter(last_four=match[1]) if match else ApiKey.objects.none()


def _keys_by_former_last_four(term: str) -> QuerySet[ApiKey]:
    match = _MASKED.fullmatch(term)
    return _KEYS.filter(former_secrets__last_four=match[1]) if match else ApiKey.objects.none()


def _refused_requests(term: str) -> QuerySet[RefusedRequest]:
    return RefusedRequest.objects.filter(request_id=term).select_related("key")


def _describe_key(key: ApiKey) -> str:
    state = ", revoked" if key.revoked_at else ""
    return f"{summaries.mask_secret(key)} of {key.account}{state}"


def _describe_refused(refused: RefusedRequest) -> str:
    return f"{refused.status} {refused.code}, key {refused.key}"


_IDS = "a key's secret (not stored), its ID, or the ID's beginning"
FINDERS = [
    Finder(ApiKey, _keys_by_id, _describe_key, _IDS, conceal=secret.conceal_all),
    Finder(ApiKey, _keys_by_last_four, _describe_key, "a key as owners see it, or the last four of its secret"),
    Finder(ApiKey, _keys_by_former_last_four, _describe_key, "a key by the last four of a secret from before it was rotated"),
    Finder(RefusedRequest, _refused_requests, _describe_refused, "the request ID of a refusal"),
]
