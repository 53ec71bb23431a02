"""GET /v1/key and GET /v1/generation, as OpenRouter has them. They are reads of the key.

OpenRouter's clients read every field as required. Fields about features that the gateway does not have, such as callers' own
keys of providers, are zero, empty or null; those that it does not keep are null.
"""

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from completions.history import explanation
from completions.inbound import descriptions
from completions.inbound.chat_completions.completion_object import find_completion
from completions.inbound.completion_view import RatedView, json_reply
from completions.inbound.openrouter import serializers
from completions.inbound.openrouter.serializers import GenerationObject, KeyObject
from completions.models import Completion, ModelKind
from gateway_project import errors
from gateway_project.text import dollars, timestamps
from keys.limits import rate_limits, spending
from keys.models import ApiKey
from keys.usage import read_sums

UNLIMITED = -1  # requests in a minute
_NO_FREE_MODELS = dict.fromkeys(("limit", "remaining", "used"), 0)
_ID = OpenApiParameter("id", str, required=True, description="The id of a completion of the account.")


class KeyView(RatedView):
    """The used and remaining amounts of the key. Also when it is used up."""

    @descriptions.key_read(
        "retrieveCurrentKey",
        "Retrieve the key, in OpenRouter's format",
        "What the key has used and may use, in OpenRouter's format. GET /v1/usage says more.",
        KeyObject,
    )
    def get(self, request: Request) -> HttpResponse:
        return json_reply(describe_key(self.key))


class GenerationView(RatedView):
    """The history of a completion of the account, once it is settled."""

    @descriptions.key_read(
        "retrieveGeneration",
        "Retrieve a completion, in OpenRouter's format",
        "Who answered a completion of the account, its tokens and its exact cost, in OpenRouter's format.",
        GenerationObject,
        errors.InvalidRequest,
        errors.PathNotFound,
        parameters=[_ID],
    )
    def get(self, request: Request) -> HttpResponse:
        if not (completion_id := request.query_params.get("id")):
            raise errors.wrong("id", "is required")
        return json_reply(describe_generation(completion_id, self.key.account_id))


_SPANS = {"": "total", "_daily": "today", "_weekly": "thisWeek", "_monthly": "thisMonth"}


def describe_key(key: ApiKey) -> dict[str, Any]:
    """Return the reply, for ``compact_json.dumps``. Dollars are exact numbers."""
    window, sums = spending.read_window(key), read_sums(key)
    requests = rate_limits.effective_limits(key, key.account).requests
    has_counted = key.account.has_own_keys and key.account.own_keys.filter(counts_price=True).exists()
    return {
        "data": {
            "label": key.name,
            "limit": window and dollars.json_number(window.limit_nanos),
            "limit_remaining": window and dollars.json_number(window.available_nanos),
            "limit_reset": key.spending_period and key.spending_period.lower() if window else None,
            **{f"usage{span}": dollars.json_number(sums[name].spent_nanos) for span, name in _SPANS.items()},
            **{f"byok_usage{span}": dollars.json_number(sums[name].provider_spent_nanos) for span, name in _SPANS.items()},
            "include_byok_in_limit": has_counted,
            "expires_at": key.expires_at and timestamps.iso_millis(key.expires_at),
            "is_free_tier": not key.account.has_paid,
            "rate_limit": {
                "requests": UNLIMITED if requests is None else requests,
                "interval": "1m",
                "note": "Requests in a minute. GET /v1/usage has all limits.",
            },
            **dict.fromkeys(serializers.NO_FLAGS, False),
            "free_model_daily_requests": _NO_FREE_MODELS,
            "allowed_data_regions": _allowed_regions(key),
            "budgets": [],
            **dict.fromkeys(serializers.NO_VALUES),
        }
    }


def _allowed_regions(key: ApiKey) -> list[str]:
    demanded = [set(owner.data_regions) for owner in (key, key.account) if owner.data_regions]
    return sorted(set.intersection(*demanded)) if demanded else ["global"]


def describe_generation(completion_id: str, account_id: UUID) -> dict[str, Any]:
    """Return the reply. Raises PathNotFound, also while it is not settled: OpenRouter's clients ask again then."""
    found = find_completion(completion_id, account_id)
    if found.settlement is None:
        raise errors.PathNotFound(f"The completion {completion_id!r} is not settled yet. Ask again.")
    total_ms = explanation.total_ms(found)
    return {
        "data": {
            **dict.fromkeys(serializers.NOT_KEPT),
            "id": found.pk,
            "request_id": found.request_id,
            "upstream_id": found.provider_request_id,
            "api_type": "embeddings" if found.model.kind == ModelKind.EMBEDDING else "completions",
            "model": found.model_id,
            "provider_name": found.provider_id,
            "provider_responses": _provider_responses(found),
            "created_at": timestamps.iso_millis(found.created_at),
            "data_region": (found.data_promised or {}).get("region") or "global",
            "origin": "",
            "external_user": found.end_user,
            "is_byok": found.own_key_fee is not None,
            "upstream_inference_cost": dollars.json_number(found.provider_nanos),
            "streamed": found.is_stream,
            # In milliseconds: until the reply began, where that is known, and how long it took to generate.
            "latency": total_ms if found.first_token_ms is None else found.first_token_ms,
            "generation_time": total_ms if found.first_token_ms is None else found.streamed_ms,
            **_tokens(found),
        }
    }


def _tokens(found: Completion) -> dict[str, Any]:
    """Return what was charged. Tokens are those of the model, and are not counted in another way too."""
    prompt_tokens, completion_tokens = found.prompt_tokens or 0, found.completion_tokens or 0
    cost = dollars.json_number(found.cost_nanos or 0)
    return {
        "tokens_prompt": prompt_tokens,
        "tokens_completion": completion_tokens,
        "native_tokens_prompt": prompt_tokens,
        "native_tokens_completion": completion_tokens,
        "native_tokens_cached": found.cached_tokens or 0,
        "num_media_prompt": found.images,
        "total_cost": cost,
        "usage": cost,
    }


def _provider_responses(found: Completion) -> list[dict[str, Any]]:
    """Return the attempts in order: those that failed, and the one that answered."""
    failed = [{"provider_name": each["provider"], "status": each["status"]} for each in found.failed_attempts or []]
    has_answered = (found.attempts or 0) > len(failed)
    return [*failed, {"provider_name": found.provider_id, "status": 200}] if has_answered else failed
