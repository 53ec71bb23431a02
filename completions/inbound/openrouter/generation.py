"""The body of GET /v1/generation: what happened to a completion, as OpenRouter says it.

Its clients read every field as required. What the gateway does not keep is null.
"""

from typing import Any
from uuid import UUID

from completions.history import explanation
from completions.inbound.chat_completions.completion_object import find_completion
from completions.models import Completion, ModelKind
from gateway_project import errors
from gateway_project.text import dollars, timestamps

NOT_KEPT = (
    *("app_id", "cache_discount", "cancelled", "finish_reason", "http_referer", "moderation_latency", "native_finish_reason"),
    *("native_tokens_completion_images", "native_tokens_reasoning", "num_fetches", "num_input_audio_prompt"),
    *("num_media_completion", "num_search_results", "preset_id", "response_cache_source_id", "router", "service_tier"),
    *("session_id", "upstream_inference_cost", "user_agent", "web_search_engine", "workspace_id"),
)


def describe_generation(completion_id: str, account_id: UUID) -> dict[str, Any]:
    """Return the reply. Raises PathNotFound, also while it is not settled: OpenRouter's clients ask again then."""
    found = find_completion(completion_id, account_id)
    if found.settlement is None:
        raise errors.PathNotFound(f"The completion {completion_id!r} is not settled yet. Ask again.")
    total_ms = explanation.total_ms(found)
    return {
        "data": {
            **dict.fromkeys(NOT_KEPT),
            "id": found.pk,
            "request_id": found.request_id,
            "upstream_id": found.provider_request_id,
            "api_type": "embeddings" if found.model.kind == ModelKind.EMBEDDING else "completions",
            "model": found.model_id,
            "provider_name": found.provider_id,
            "provider_responses": _provider_responses(found),
            "created_at": timestamps.iso_millis(found.created_at),
            "data_region": "global",
            "origin": "",
            "external_user": found.end_user,
            "is_byok": False,
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
