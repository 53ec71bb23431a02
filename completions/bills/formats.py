"""Reads ``formats.toml``, the table of providers' exports."""

import re
import tomllib
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Format:
    """An export. ``model`` finds a group in one of the ``name`` columns; a line without it charges for something else.

    So does one whose ``kind`` or ``service`` is another. ``dollars``: of one unit of costs. Without a column of a ``currency``
    they are in US dollars, as the provider says. ``final_days``: after so many the provider's figures of a day are final.
    ``wanted`` helps whoever brings a file that lacks a column.
    """

    title: str
    sources: list[str]
    wanted: str
    time: list[str]
    cost: list[str]
    name: list[str]
    model: re.Pattern[str]
    dollars: Decimal
    services: re.Pattern[str]
    currency: list[str]
    kind: list[str]
    service: list[str]
    quantity: list[str]
    quantity_unit: list[str]
    account: list[str]
    request_id: list[str]
    kinds: list[str]
    is_month_first: bool = False
    final_days: int = 1

    @property
    def required(self) -> dict[str, list[str]]:
        """The columns without which it is not this format, by what they say."""
        roles = {"time": self.time, "cost": self.cost, "model": self.name, "currency": self.currency}
        return {role: columns for role, columns in {**roles, "request": self.request_id}.items() if columns}


_OPTIONAL = ("currency", "kind", "service", "quantity", "quantity_unit", "account", "request_id", "kinds")


def _read(table: dict[str, Any], words: str) -> Format:
    patterns = {
        name: re.compile(table.get(name, "").replace("<words>", words), re.IGNORECASE | re.VERBOSE)
        for name in ("model", "services")
    }
    return Format(**{**dict.fromkeys(_OPTIONAL, []), **table, **patterns, "dollars": Decimal(table.get("dollars", "1"))})


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
FORMATS = [_read(table, _TABLES["words"]) for table in _TABLES["format"]]
