"""The time formats of the API, and of sentences."""

from datetime import UTC, datetime


def iso_millis(moment: datetime) -> str:
    """Format a time like ``2026-11-21T11:43:00.123Z``: in UTC, with milliseconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def in_words(moment: datetime) -> str:
    """Format a time for a sentence: ``21 Nov 2026, 11:43:00 UTC``."""
    utc = moment.astimezone(UTC)
    return f"{utc.day} {utc:%b %Y, %H:%M:%S} UTC"
