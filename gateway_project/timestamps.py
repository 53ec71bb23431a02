"""The API's time format."""

from datetime import UTC, datetime


def iso_millis(moment: datetime) -> str:
    """Format a time like ``2026-11-21T11:43:00.123Z``: in UTC, with milliseconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
