"""The record of a completion's end on disk: a file of the outbox, or a line of the journal."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
from msgspec import structs

from completions.charging.idempotency import IdempotencyKey
from completions.charging.records import CompletionRecord, ServedBy
from completions.charging.resolution import ReplyRetention, Resolution
from completions.charging.stored_responses import ResponseRecord
from completions.models import Completion
from completions.pricing import meters
from completions.pricing.usage import Usage

VERSION = 2  # of the format
_SERVED_FIELDS = 8  # of ``ServedBy``, which a process of the former release reads


class Unreadable(Exception):
    """A file that does not contain a valid resolution. The message says why."""


def dumps(resolution: Resolution) -> str:
    retention, usage = resolution.reply_retention, structs.asdict(resolution.usage) if resolution.usage else None
    record = {
        "version": VERSION,
        "completion": resolution.completion.id,
        "admission": structs.asdict(resolution.completion),  # read only if the database has forgotten it
        "served_by": list(resolution.served_by[:_SERVED_FIELDS]),
        "settlement": resolution.settlement,
        # Without searches and others, a process of the former release can read the usage, too.
        "usage": usage and {name: value for name, value in usage.items() if value or name not in ("web_searches", "others")},
        "cost_nanos": resolution.cost_nanos,
        "reply_retention": {"sealed_reply": retention.sealed_reply, "is_kept": retention.is_kept} if retention else None,
        "unpaid_nanos": resolution.unpaid_nanos,
        # A process of the former release reads none of these.
        **({"served_with": more} if (more := _served_with(resolution.served_by)) else {}),
        **({"idempotency_key": asdict(retention.key)} if retention and retention.key else {}),
        **({} if resolution.provider_nanos is None else {"provider_nanos": resolution.provider_nanos}),
        **({"response": asdict(resolution.response)} if resolution.response else {}),
    }
    return json.dumps(record, default=str)


def _served_with(served_by: ServedBy) -> dict[str, Any]:
    return {name: value for name in ServedBy._fields[_SERVED_FIELDS:] if (value := getattr(served_by, name)) is not None}


def load(path: Path, row: Completion | None) -> Resolution:
    """Return the resolution in a file, of its row; without one, as it was admitted. Raises Unreadable, or an OSError."""
    completion = CompletionRecord.from_row(row) if row else _admitted(path)
    try:
        record = json.loads(path.read_text())
        if (record["version"], record["completion"]) != (VERSION, path.stem):
            raise Unreadable(f"it is of version {record['version']}, for {record['completion']}")
        served_by = ServedBy(*record["served_by"], **record.get("served_with", {}))
        usage = Usage(**record["usage"]) if record["usage"] else None
        key = IdempotencyKey(**record["idempotency_key"]) if "idempotency_key" in record else None
        reply_retention = ReplyRetention(**record["reply_retention"], key=key) if record["reply_retention"] else None
        settlement, cost_nanos = Completion.Settlement(record["settlement"]), record["cost_nanos"]
        unpaid_nanos = record.get("unpaid_nanos", 0)  # files of earlier releases do not have it
        response = ResponseRecord(**record["response"]) if record.get("response") else None
        provider_nanos = record.get("provider_nanos")
        _require_whole_numbers(usage, cost_nanos, unpaid_nanos, 0 if provider_nanos is None else provider_nanos)
    except (ValueError, LookupError, TypeError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error
    ended = completion, served_by, settlement, usage, cost_nanos, reply_retention, unpaid_nanos, response
    return Resolution(*ended, provider_nanos)


def _admitted(path: Path) -> CompletionRecord:
    try:
        return msgspec.convert(json.loads(path.read_text())["admission"], CompletionRecord)
    except (ValueError, LookupError, TypeError) as error:  # msgspec's error is a ValueError
        raise Unreadable(f"it does not say what was admitted: {type(error).__name__}: {error}") from error


def _require_whole_numbers(usage: Usage | None, cost_nanos: Any, *amounts_nanos: Any) -> None:
    """A charge has a usage and a cost, a release has neither. Raises ValueError for anything else."""
    if not all(type(nanos) is int and nanos >= 0 for nanos in amounts_nanos):
        raise ValueError("an amount is no whole number")
    if usage is None and cost_nanos is None:
        return
    numbers: list[Any] = [None]
    if usage:
        counts = structs.asdict(usage)
        numbers = [cost_nanos, *counts.pop("others").values(), *(value for name, value in counts.items() if name != "tier")]
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError("usage and cost are no whole numbers")
    if usage and usage.tier not in ("", *meters.TIERS):
        raise ValueError("there is no such service tier")


def account_of(path: Path) -> UUID:
    """Return the id of a file's account; of a file that cannot be read, that of none: it is no better found anywhere else."""
    try:
        return UUID(json.loads(path.read_text())["admission"]["account_id"])
    except (OSError, ValueError, LookupError, TypeError):
        return UUID(int=0)


def stated_cost_nanos(path: Path) -> int:
    """Return what the file says that its completion costs; 0 if it does not say so."""
    try:
        cost_nanos = json.loads(path.read_text())["cost_nanos"]
    except (OSError, ValueError, LookupError, TypeError):
        return 0
    return cost_nanos if type(cost_nanos) is int and cost_nanos > 0 else 0
