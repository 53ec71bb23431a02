"""Measures how fast each model answers here, from this gateway's own streams."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from completions.models import Completion
from gateway_project.db import cell, everywhere

# Only the newest completions are read, so that the query costs no more on a busy gateway.
COMPLETIONS_MAX = 200_000
_TOKENS_MIN = 32  # a shorter reply shows the time to the first token, but hardly the rate


@dataclass(frozen=True)
class MeasuredSpeed:
    """Medians over ``streams`` streams. ``tokens_per_second`` is None if too few of them were long enough."""

    tokens_per_second: float | None
    first_token_seconds: float
    streams: int


def speeds(now: datetime) -> dict[str, MeasuredSpeed]:
    """Return the speeds by model id, of models with enough streams in the window before ``now``."""
    since = now - timedelta(hours=settings.RANKINGS_SPEED_WINDOW_HOURS)
    by_model: dict[str, list[MeasuredSpeed]] = {}
    for model_id, *figures in everywhere.gather(lambda: _read(since), may_miss=True):
        by_model.setdefault(model_id, []).append(MeasuredSpeed(*figures))
    means = ("tokens_per_second", "first_token_seconds")
    return {
        model_id: MeasuredSpeed(**everywhere.merge(measured, "streams", sums=("streams",), means=means))
        for model_id, measured in by_model.items()
    }


def _read(since: datetime) -> list[Any]:
    streams_min = settings.RANKINGS_SPEED_STREAMS_MIN
    return cell.execute(_SPEEDS, [Completion.least_id(since), COMPLETIONS_MAX, _TOKENS_MIN, streams_min, streams_min])


# Tokens per second are those of the whole reply, over the time from the request to the last token: the provider counts
# reasoning tokens, too, and they took their time before the first visible token.
# Ids sort by time, so the primary key finds the window and no other index is needed.
_SPEEDS = """
    WITH newest AS (
        SELECT model_id, first_token_ms, streamed_ms, completion_tokens, is_stream, settlement
        FROM completions_completion WHERE id >= %s AND own_key_fee IS NULL ORDER BY id DESC LIMIT %s
    ), streams AS (
        SELECT model_id, first_token_ms / 1000.0 AS begins,
            CASE WHEN completion_tokens >= %s AND first_token_ms + streamed_ms > 0
                THEN completion_tokens * 1000.0 / (first_token_ms + streamed_ms) END AS rate
        FROM newest
        WHERE is_stream AND settlement = 'reported' AND first_token_ms IS NOT NULL AND streamed_ms IS NOT NULL
    )
    SELECT model_id,
        CASE WHEN count(rate) >= %s THEN percentile_cont(0.5) WITHIN GROUP (ORDER BY rate) END,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY begins), count(*)
    FROM streams GROUP BY model_id HAVING count(*) >= %s
"""
