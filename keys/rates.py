"""A key's limits per minute, as an admission meets them: count, refuse, tell.

The arithmetic is in ``rate_limits``; the state is two timestamps on the key's row, read and written with the key locked.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from gateway_project import errors
from gateway_project.two_steps import Statement
from keys import rate_limits
from keys.models import ApiKey
from keys.rate_limits import Decision


@dataclass(frozen=True)
class Count:
    """One request counted against its key, but not yet on the key's row: it may still be refused for another reason."""

    requests: Decision | None
    tokens: Decision | None

    def apply(self, key: ApiKey) -> None:
        """Keep the count on the given row; ``counted`` writes it."""
        if self.requests:
            key.requests_full_at = self.requests.full_at
        if self.tokens:
            key.tokens_full_at = self.tokens.full_at

    def headers(self) -> dict[str, str]:
        """OpenAI's x-ratelimit-* headers, for the limits there are."""
        headers = {}
        for what, decision in (("requests", self.requests), ("tokens", self.tokens)):
            if decision:
                headers[f"x-ratelimit-limit-{what}"] = str(decision.limit)
                headers[f"x-ratelimit-remaining-{what}"] = str(decision.remaining)
                headers[f"x-ratelimit-reset-{what}"] = go_duration(decision.resets_in)
        return headers


def count(key: ApiKey, now: datetime, tokens: int) -> Count:
    """Count one request of ``tokens``. Raises RateLimitExceeded."""
    counted = Count(
        requests=_decide(key.requests_per_minute, key.requests_full_at, now, 1),
        tokens=_decide(key.tokens_per_minute, key.tokens_full_at, now, tokens),
    )
    for what, decision in (("requests", counted.requests), ("tokens", counted.tokens)):
        if decision and not decision.allowed:
            raise _refusal(what, decision, tokens, counted.headers())
    return counted


def correct(key: ApiKey, now: datetime, difference: int) -> None:
    """Find that a request cost ``difference`` tokens more, or fewer, than it was counted."""
    if key.tokens_per_minute is not None and key.tokens_full_at is not None:
        key.tokens_full_at = rate_limits.correct(
            limit=key.tokens_per_minute, full_at=key.tokens_full_at, now=now, difference=difference
        )


def counted(keys: Collection[ApiKey]) -> list[Statement]:
    """Write the state of those keys that have a limit per minute."""
    limited = [key for key in keys if key.requests_per_minute is not None or key.tokens_per_minute is not None]
    if not limited:
        return []
    sql = """
        UPDATE keys_apikey SET requests_full_at = state.requests_full_at, tokens_full_at = state.tokens_full_at
        FROM json_to_recordset($1::json) AS state (id text, requests_full_at timestamptz, tokens_full_at timestamptz)
        WHERE keys_apikey.id = state.id
        """
    states = [{"id": key.pk, "requests_full_at": key.requests_full_at, "tokens_full_at": key.tokens_full_at} for key in limited]
    return [Statement(sql, states)]


def _decide(limit: int | None, full_at: datetime | None, now: datetime, cost: int) -> Decision | None:
    return None if limit is None else rate_limits.decide(limit=limit, full_at=full_at, now=now, cost=cost)


def _refusal(what: str, decision: Decision, tokens: int, headers: dict[str, str]) -> errors.ApiError:
    if decision.retry_in is None:
        headers["x-should-retry"] = "false"
        why = f"this request alone counts {tokens}"
    else:
        headers["Retry-After"] = str(max(math.ceil(decision.retry_in.total_seconds()), 1))
        headers["retry-after-ms"] = str(max(math.ceil(decision.retry_in.total_seconds() * 1000), 1))
        if decision.retry_in.total_seconds() > errors.CLIENT_PATIENCE_SECONDS:
            headers["x-should-retry"] = "false"
        why = f"try again in {go_duration(decision.retry_in)}"
    return errors.RateLimitExceeded(f"The key is limited to {decision.limit} {what} per minute: {why}.", headers=headers)


def go_duration(duration: timedelta) -> str:
    """As OpenAI writes it: 12ms, 1s, 6m0s."""
    milliseconds = math.ceil(duration.total_seconds() * 1000)
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, seconds = divmod(math.ceil(milliseconds / 1000), 60)
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
