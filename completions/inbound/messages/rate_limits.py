"""The rate-limit headers of Anthropic's API, from ours. Pure."""

import math
import re
from collections.abc import Mapping
from datetime import datetime, timedelta

_DURATION = re.compile(r"(?:(\d+)m(?!s))?(?:(\d+)s)?(?:(\d+)ms)?", re.ASCII)  # as ``go_duration`` of keys writes it


def headers(ours: Mapping[str, str], now: datetime) -> dict[str, str]:
    """Return anthropic-ratelimit-* for the x-ratelimit-* of a reply. A reset is a time there, in whole seconds, rounded up."""
    named = {}
    for what in ("requests", "tokens"):
        if (limit := ours.get(f"x-ratelimit-limit-{what}")) is None:
            continue
        reset_at = now + _duration(ours[f"x-ratelimit-reset-{what}"])
        named[f"anthropic-ratelimit-{what}-limit"] = limit
        named[f"anthropic-ratelimit-{what}-remaining"] = ours[f"x-ratelimit-remaining-{what}"]
        named[f"anthropic-ratelimit-{what}-reset"] = reset_at.strftime("%Y-%m-%dT%H:%M:%SZ")
    return named


def _duration(text: str) -> timedelta:
    found = _DURATION.fullmatch(text)
    minutes, seconds, milliseconds = (int(number or 0) for number in found.groups()) if found else (0, 0, 0)
    return timedelta(minutes=minutes, seconds=seconds + math.ceil(milliseconds / 1000))
