"""A row of an export as what it charges for, or why it is left out."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow
from itertools import chain

from completions.bills.files import Refused, Row
from completions.bills.formats import FORMATS, Format
from completions.models.bills import DECIMALS_MAX
from gateway_project.text import ascii_numbers

# Sums of costs lose no digit: should one ever need more, that is an error.
EXACT = Context(prec=200, traps=[Inexact, InvalidOperation, Overflow])
_USD_MAX = Decimal(10) ** 15
_TOKENS_MAX = 10**12  # of a line: millions of them have a sum that a column holds
_FIRST_DAY = date(2000, 1, 1)
_CURRENCY = re.compile(r"[A-Z]{3}")
_MONTH_FIRST = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})(?:\s.*)?", re.ASCII)
_TOKENS = re.compile(r"(?:(?P<number>1|10|100|1000|1000000)?\s*(?P<letter>[km]?)\s*(?:tokens?|count)?)", re.IGNORECASE)
_LETTERS = {"": 1, "k": 1_000, "m": 1_000_000}
_TEXT_MAX = {"name": 300, "account": 500, "request_id": 100}


@dataclass(frozen=True, slots=True)
class Charge:
    """A line that charges for a model. ``tokens`` is None where another thing was counted, or nothing."""

    day: date
    hour: int | None
    name: str
    account: str
    request_id: str
    tokens: int | None
    cost_usd: Decimal


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A line that does not. ``kind`` is "unreadable", "not models", "empty", another currency, or "of" other accounts."""

    kind: str
    why: str
    cost: Decimal = Decimal(0)


def recognize(head: Sequence[str]) -> Format:
    """Return the format whose columns a file has. Raises Refused, which names what the nearest one lacks or has twice."""
    known = set(head)

    def lacks(form: Format) -> list[str]:
        return [f"{role} ({' or '.join(names)})" for role, names in form.required.items() if known.isdisjoint(names)]

    nearest = min(FORMATS, key=lambda form: (len(lacks(form)) / len(form.required), -len(form.required)))
    if missing := ", ".join(lacks(nearest)):
        kind = f"It is nearest to {nearest.title}, and lacks columns for {missing}."
        raise Refused(f"The file is of no known format. {kind} {nearest.wanted}")
    if twice := sorted(name for name in known.intersection(chain(*nearest.columns.values())) if head.count(name) > 1):
        raise Refused(f"The file has two columns of a name: {', '.join(twice)}.")
    return nearest


def read(form: Format, row: Row, ours: Iterable[str], until: date) -> Charge | LeftOut:
    """Read a row of a day ``until`` this one. With ``ours`` only lines count that name one of them, or what is below it."""
    told, name = _first(form, row, "cost"), _first(form, row, "name")
    if not told and not name:
        return LeftOut("empty", "a period without costs")
    try:
        cost, at = _cost(told, form.dollars), _moment(_first(form, row, "time"), until, is_month_first=form.is_month_first)
    except ValueError as error:
        return LeftOut("unreadable", str(error))
    currency = (_first(form, row, "currency") if form.columns["currency"] else "USD").upper()
    if not _CURRENCY.fullmatch(currency):
        return LeftOut("unreadable", f"the currency {currency[:20]!r} is none", cost)
    if currency != "USD":
        return LeftOut(currency, f"a cost in {currency}", cost)
    if not (model := _model(form, row)):
        return LeftOut("not models", f"{name[:100]}, {_first(form, row, 'kind')[:40]}".strip(", ") or "no model", cost)
    accounts = [*_texts(form, row, "account")] or ["none"]
    if ours and not any(f"{account}/".lower().startswith(f"{each}/".lower()) for account in accounts for each in ours):
        return LeftOut(f"of {', '.join(accounts)}"[:200], model[:100], cost)
    texts = {"name": model, "account": _first(form, row, "account"), "request_id": _first(form, row, "request_id")}
    for column, text in texts.items():
        if len(text) > _TEXT_MAX[column] or not text.isprintable():  # a terminal would obey escape sequences
            return LeftOut("unreadable", f"its {column.replace('_', ' ')} is too long or no text", cost)
    if form.columns["request_id"] and not texts["request_id"]:
        return LeftOut("unreadable", "no id of a request", cost)
    hour = at.hour if form.has_hours else None
    return Charge(day=at.date(), hour=hour, **texts, tokens=_read_tokens(form, row), cost_usd=cost)


def _model(form: Format, row: Row) -> str:
    if (kind := _first(form, row, "kind")) and kind.lower() not in form.kinds:
        return ""
    if form.columns["service"] and not any(map(form.services.search, _texts(form, row, "service"))):
        return ""
    matches = filter(None, map(form.model.search, _texts(form, row, "name")))
    return next((next(filter(None, match.groups())).strip() for match in matches), "")


def _texts(form: Format, row: Row, says: str) -> Iterator[str]:
    return filter(None, (" ".join(row.get(column, "").split()) for column in form.columns[says]))


def _first(form: Format, row: Row, says: str) -> str:
    return next(_texts(form, row, says), "")


def _cost(text: str, dollars: Decimal) -> Decimal:
    try:
        cost = EXACT.multiply(ascii_numbers.decimal(text), dollars)
    except ValueError:
        raise ValueError(f"the cost {text[:40]!r} is not a number") from None
    if not -_USD_MAX < cost < _USD_MAX or EXACT.normalize(cost).as_tuple().exponent < -DECIMALS_MAX:  # type: ignore[operator]
        raise ValueError(f"the cost {text[:40]} has more than {DECIMALS_MAX} decimals, or is too large")
    return cost


def _moment(text: str, until: date, *, is_month_first: bool) -> datetime:
    """Return a time in UTC, which is written as seconds since 1970, in ISO 8601, or where Azure writes it as 08/31/2026."""
    try:
        if text.isascii() and text.isdigit():
            at = datetime.fromtimestamp(int(text), UTC)
        elif is_month_first and (match := _MONTH_FIRST.fullmatch(text)):
            at = datetime(int(match[3]), int(match[1]), int(match[2]), tzinfo=UTC)
        else:
            at = datetime.fromisoformat(text.replace(" UTC", "+00:00"))
        at = at if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        at = datetime(1, 1, 1, tzinfo=UTC)
    if not _FIRST_DAY <= at.date() <= until:
        raise ValueError(f"the time {text[:40]!r} cannot be read, or is yet to come")
    return at


def _read_tokens(form: Format, row: Row) -> int | None:
    """Return how many tokens a line counts; None unless it says that it counts tokens, and a whole number of them."""
    unit, quantity = _first(form, row, "quantity_unit"), _first(form, row, "quantity")
    match = _TOKENS.fullmatch(unit) if unit and quantity else None
    if match is None:
        return None
    try:
        tokens = EXACT.multiply(ascii_numbers.decimal(quantity), int(match["number"] or 1) * _LETTERS[match["letter"].lower()])
    except ValueError:
        return None
    return int(tokens) if tokens == int(tokens) and abs(tokens) < _TOKENS_MAX else None
