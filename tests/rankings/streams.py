"""Creates rows of ended streams with their times and tokens."""

from datetime import timedelta

from completions.models import Completion, LanguageModel
from gateway_project import identifiers
from gateway_project.db import pool


def streamed(caller, model_id, first_token_ms, streamed_ms, tokens, *, hours_ago=0, **columns):
    """Create a stream that ended successfully, except for ``columns``."""
    account, key = caller
    at = pool.database_time() - timedelta(hours=hours_ago)
    model = LanguageModel.objects.get(pk=model_id)
    values = {
        "provider_id": "echo",
        "is_stream": True,
        "settlement": "reported",
        "completion_tokens": tokens,
        "first_token_ms": first_token_ms,
        "streamed_ms": streamed_ms,
        "created_at": at,
        "finished_at": at,
        **columns,
    }
    return Completion.objects.create(
        id=f"chatcmpl-{int(at.timestamp() * 1000):012x}{identifiers.uuid7().hex[12:]}",
        account=account,
        key=key,
        model=model,
        price=model.prices.get(),
        spending_day=at.date(),
        counted_tokens=1,
        **values,
    )
