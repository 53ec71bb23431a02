"""The body of GET /v1/completions/{completion_id}: what happened to one request, as its rows say now."""

from typing import Any
from uuid import UUID

from billing.models import Hold, LedgerEntry
from completions.history import explanation
from completions.models import Completion
from gateway_project import errors
from gateway_project.text import dollars, timestamps


def find_completion(completion_id: str, account_id: UUID) -> Completion:
    """Return a completion and its model. Raises PathNotFound also for the completion of another account."""
    found = None
    if "\x00" not in completion_id:  # no id contains one, and PostgreSQL rejects a comparison with one
        found = Completion.objects.select_related("model").filter(pk=completion_id, account_id=account_id).first()
        if found is None and LedgerEntry.objects.filter(account_id=account_id, reference=completion_id).exists():
            raise errors.PathNotFound(
                f"Details of the completion {completion_id!r} are no longer kept. The ledger has what it cost."
            )
    if found is None:
        raise errors.PathNotFound(f"The account has no completion {completion_id!r}.")
    return found


def describe_completion(completion_id: str, account_id: UUID) -> dict[str, Any]:
    """Return the reply, for ``compact_json.dumps``. Raises PathNotFound."""
    found = find_completion(completion_id, account_id)
    return {
        "id": found.pk,
        "object": "completion",
        "created": int(found.created_at.timestamp()),
        "request_id": found.request_id,
        "user": found.end_user,
        "metadata": found.tags or {},
        "key": found.key_id,
        "model": found.model_id,
        "provider": found.provider_id,
        "stream": found.is_stream,
        "attempts": found.attempts,
        "own_key": found.own_key_fee is not None,
        "failed_attempts": [
            {"provider": attempt["provider"], "status": attempt["status"]} for attempt in found.failed_attempts or []
        ],
        "data_demanded": found.data_demanded,
        "data_promised": found.data_promised,
        "settlement": found.settlement,
        "service_tier": found.service_tier or "default",
        "usage": _usage(found) if found.settlement else None,
        "max_cost": dollars.json_number(Hold.objects.values_list("amount_nanos", flat=True).get(pk=found.pk)),
        "repeats": found.repeats,
        "charged_before": dollars.json_number(found.charged_before_nanos),
        "timings": _timings(found),
    }


def _usage(completion: Completion) -> dict[str, Any]:
    """Return what was charged, as the reply told it. How many of the tokens were reasoning is not kept."""
    prompt_tokens, completion_tokens = completion.prompt_tokens or 0, completion.completion_tokens or 0
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": explanation.total_tokens(completion) or 0,
        "prompt_tokens_details": {
            "cached_tokens": completion.cached_tokens or 0,
            "cache_write_tokens": completion.cache_write_tokens or 0,
            "cache_write_1h_tokens": completion.cache_write_1h_tokens or 0,
        },
        "web_searches": completion.web_searches or 0,
        "cost": dollars.json_number(completion.cost_nanos or 0),
        "cost_details": {"upstream_inference_cost": dollars.json_number(completion.provider_nanos)},
    }


def _timings(completion: Completion) -> dict[str, Any]:
    started_at, ended_at = completion.created_at, completion.finished_at
    return {
        "started_at": timestamps.iso_millis(started_at),
        "ended_at": timestamps.iso_millis(ended_at) if ended_at else None,
        "total_ms": explanation.total_ms(completion),
        "first_token_ms": completion.first_token_ms,
        "streamed_ms": completion.streamed_ms,
    }
