"""Requests and tokens per minute of a key: which limits apply, count a request, refuse it, report the state in headers.

The arithmetic is in ``gcra``. The state is on the key's row, read and written while the key is locked: a timestamp for each
limit, and the tokens owed: what settlements counted beyond a minute's allowance.
"""

import math
from collections.abc import Collection
from datetime import datetime, timedelta

import msgspec
from django.conf import settings

from billing.models import Account
from gateway_project import errors
from gateway_project.db.pipelined_transaction import Statement
from keys.limits import gcra
from keys.limits.gcra import Decision
from keys.models import ApiKey


class RateLimits(msgspec.Struct, frozen=True):
    requests: int | None  # per minute; None: no limit
    tokens: int | None


def effective_limits(key: ApiKey, account: Account) -> RateLimits:
    """Return the limits that apply: each is the key's own, else its account's, else the deployment's."""
    requests, tokens = key.requests_per_minute, key.tokens_per_minute
    if requests is None:
        requests = account.requests_per_minute
    if tokens is None:
        tokens = account.tokens_per_minute
    return RateLimits(
        settings.KEY_REQUESTS_PER_MINUTE if requests is None else requests,
        settings.KEY_TOKENS_PER_MINUTE if tokens is None else tokens,
    )


def account_limits(account: Account) -> RateLimits:
    """Return the limits that apply to a key without its own. Only support sets higher ones."""
    return effective_limits(ApiKey(), account)


def describe_limits(limits: RateLimits) -> str:
    """Return the limits in words: "60 requests and 100,000 tokens per minute"; "" without a limit."""
    counts = ((limits.requests, "request"), (limits.tokens, "token"))
    words = [f"{limit:,} {what}{'' if limit == 1 else 's'}" for limit, what in counts if limit is not None]
    return f"{' and '.join(words)} per minute" if words else ""


class CountedRequest(msgspec.Struct, frozen=True):
    """One counted request, not yet applied to the key's row: it may still be refused for another reason."""

    requests: Decision | None
    tokens: Decision | None

    def apply(self, key: ApiKey) -> None:
        """Apply the count to the given row; ``update_rate_limits_statements`` writes it."""
        if self.requests:
            key.requests_full_at = self.requests.full_at
        if self.tokens:
            key.tokens_full_at, key.tokens_owed = self.tokens.full_at, 0

    def headers(self) -> dict[str, str]:
        """Return OpenAI's x-ratelimit-* headers for the limits that the key has."""
        headers = {}
        for what, decision in (("requests", self.requests), ("tokens", self.tokens)):
            if decision:
                headers[f"x-ratelimit-limit-{what}"] = str(decision.limit)
                headers[f"x-ratelimit-remaining-{what}"] = str(decision.remaining)
                headers[f"x-ratelimit-reset-{what}"] = go_duration(decision.resets_in)
        return headers


class RateLimitState(msgspec.Struct, frozen=True):
    """A key's limits, when each whole allowance is available again (None: it is now), and tokens owed."""

    limits: RateLimits
    requests_full_at: datetime | None
    tokens_full_at: datetime | None
    tokens_owed: int = 0

    def count_request(self, now: datetime, tokens: int | None) -> CountedRequest:
        """Count one request of ``tokens`` (None: do not check tokens). Raises RateLimitExceeded."""
        counted = self._decide(now, requests=1, tokens=tokens)
        for what, decision in (("requests", counted.requests), ("tokens", counted.tokens)):
            if decision and not decision.allowed:
                raise _refusal(what, decision, tokens, self.inspect(now).headers())
        return counted

    def inspect(self, now: datetime) -> CountedRequest:
        """Return the state at ``now`` without counting a request."""
        return self._decide(now, requests=0, tokens=0)

    def _decide(self, now: datetime, *, requests: int, tokens: int | None) -> CountedRequest:
        if self.limits.requests is None and self.limits.tokens is None:
            return CountedRequest(None, None)
        return CountedRequest(
            requests=_decide(self.limits.requests, self.requests_full_at, now, requests),
            tokens=_decide(self.limits.tokens, self.tokens_full_at, now, tokens, self.tokens_owed),
        )


def read_state(key: ApiKey, account: Account) -> RateLimitState:
    return RateLimitState(effective_limits(key, account), key.requests_full_at, key.tokens_full_at, key.tokens_owed)


def count_request(key: ApiKey, account: Account, now: datetime, tokens: int) -> CountedRequest:
    return read_state(key, account).count_request(now, tokens)


def correct_token_count(key: ApiKey, account: Account, now: datetime, difference: int) -> None:
    """Correct the row after a request used ``difference`` tokens more, or fewer, than admission counted."""
    if key.tokens_full_at is None:
        return
    limit = effective_limits(key, account).tokens
    if limit is not None:
        key.tokens_full_at, key.tokens_owed = gcra.correct(
            limit=limit, full_at=key.tokens_full_at, now=now, difference=difference, owed=key.tokens_owed
        )


def update_rate_limits_statements(keys: Collection[ApiKey]) -> list[Statement]:
    """Update the rows of the keys that have any state; no statement if none has. Only a key with a limit has state."""
    limited = [key for key in keys if key.requests_full_at is not None or key.tokens_full_at is not None]
    if not limited:
        return []
    sql = """
        UPDATE keys_apikey
        SET requests_full_at = state.requests_full_at, tokens_full_at = state.tokens_full_at, tokens_owed = state.tokens_owed
        FROM json_to_recordset($1::json)
            AS state (id text, requests_full_at timestamptz, tokens_full_at timestamptz, tokens_owed bigint)
        WHERE keys_apikey.id = state.id
        """
    columns = ("requests_full_at", "tokens_full_at", "tokens_owed")
    return [Statement(sql, [{"id": key.id} | {column: getattr(key, column) for column in columns} for key in limited])]


def _decide(limit: int | None, full_at: datetime | None, now: datetime, cost: int | None, owed: int = 0) -> Decision | None:
    if limit is None or cost is None:
        return None
    return gcra.decide(limit=limit, full_at=full_at, now=now, cost=cost, owed=owed)


def _refusal(what: str, decision: Decision, tokens: int | None, headers: dict[str, str]) -> errors.ApiError:
    if decision.retry_in is None:
        headers["x-should-retry"] = "false"
        why = f"this request alone counts {tokens}"
    else:
        headers |= errors.retry_after(decision.retry_in)
        if decision.retry_in.total_seconds() > errors.RETRY_AFTER_SECONDS_MAX:
            headers["x-should-retry"] = "false"
        why = f"try again in {go_duration(decision.retry_in)}"
    return errors.RateLimitExceeded(f"The key is limited to {decision.limit} {what} per minute: {why}.", headers=headers)


def go_duration(duration: timedelta) -> str:
    """Format a duration as OpenAI does: 12ms, 1s, 6m0s."""
    milliseconds = math.ceil(duration.total_seconds() * 1000)
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, seconds = divmod(math.ceil(milliseconds / 1000), 60)
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
