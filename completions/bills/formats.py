"""Reads ``formats.toml``, the table of providers' exports."""

import re
import tomllib
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Format:
    """An export. ``model`` finds a group in one of the columns of a ``name``; a line without it charges for something else.

    So does one whose ``kind`` or ``service`` is another. ``dollars``: of one unit of costs. Without a column of a ``currency``
    they are in US dollars, as the provider says. ``has_hours``: times are exact to the hour, or all of midnight.
    ``final_days``: after so many figures of a day are final. ``wanted`` helps whoever brings a file that lacks a column.
    """

    title: str
    sources: list[str]
    wanted: str
    columns: dict[str, list[str]]  # by what they say, all of ``_COLUMNS``
    model: re.Pattern[str]
    services: re.Pattern[str]
    kinds: list[str]
    dollars: Decimal = Decimal(1)
    is_month_first: bool = False
    has_hours: bool = False
    final_days: int = 1

    @property
    def required(self) -> dict[str, list[str]]:
        """The columns without which it is not this format, by what they say."""
        return {says: self.columns[says] for says in ("time", "cost", "name", "currency", "request_id") if self.columns[says]}


_COLUMNS = ("time", "cost", "name", "currency", "kind", "service", "quantity", "quantity_unit", "account", "request_id")


def _read(table: dict[str, Any], words: str) -> Format:
    columns = {says: table.pop(says, []) for says in _COLUMNS}
    model, services = (
        re.compile(table.pop(name, "").replace("<words>", words), re.IGNORECASE | re.VERBOSE) for name in ("model", "services")
    )
    table["dollars"] = Decimal(table.get("dollars", "1"))
    return Format(columns=columns, model=model, services=services, kinds=table.pop("kinds", []), **table)


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
FORMATS = [_read(table, _TABLES["words"]) for table in _TABLES["format"]]
