"""LEAF. Times as the API writes them."""

from datetime import UTC, datetime


def iso_millis(moment: datetime) -> str:
    """``2026-11-21T11:43:00.123Z``: UTC, milliseconds, Z."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
