"""How fast each model answers here: measured on this gateway's own streams."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection

# Of so many of the newest completions: on a busy gateway the question stays as cheap as on a quiet one.
COMPLETIONS_MAX = 200_000
_TOKENS_MIN = 32  # a shorter reply tells how soon a model begins, and little of how fast it goes on


@dataclass(frozen=True)
class Speed:
    """Medians over ``streams`` streams. No rate where too few of them were long enough to have one."""

    tokens_per_second: float | None
    first_token_seconds: float
    streams: int


def speeds(now: datetime) -> dict[str, Speed]:
    """By model id, where there were enough streams within the window before ``now``."""
    since = now - timedelta(hours=settings.RANKINGS_SPEED_WINDOW_HOURS)
    streams_min = settings.RANKINGS_SPEED_STREAMS_MIN
    with connection.cursor() as cursor:
        cursor.execute(_SPEEDS, [_id_at(since), COMPLETIONS_MAX, _TOKENS_MIN, streams_min, streams_min])
        return {model_id: Speed(rate, begins, streams) for model_id, rate, begins, streams in cursor.fetchall()}


# Tokens a second are those of the whole reply, from asking to the last words: what a model thought before it began to answer
# is among the tokens that its provider counts, and had its time then.
# Ids sort by time, so the primary key finds the window, and there is no other index to keep.
_SPEEDS = """
    WITH newest AS (
        SELECT model_id, first_token_ms, streamed_ms, completion_tokens, is_stream, settlement
        FROM completions_completion WHERE id >= %s ORDER BY id DESC LIMIT %s
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


def _id_at(moment: datetime) -> str:
    """The least id of a completion that was admitted at or after this moment: a UUIDv7 begins with its milliseconds."""
    return f"chatcmpl-{int(moment.timestamp() * 1000):012x}"
