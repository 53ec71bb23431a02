"""Reads the figures of a page, and says where they do not add up as they are shown."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from html.parser import HTMLParser
from itertools import combinations, pairwise

_VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "path", "rect", "source", "wbr", "circle", "line"}
_UNREAD = {"script", "style", "code", "pre", "textarea", "title"}
_HIDDEN = ("usd-exact", "exact")  # what a rounded amount is exactly
_AMOUNT = re.compile(r"[+-]?\$[\d,]+\.\d+")
_COUNT = re.compile(r"[+-]?[\d,]+(?:\.\d+)?(?: %)?")
_NEGATIVE_ZERO = re.compile(r"(?<![\w.,])-\$?0(?:[.,]0+)?(?![\w.,/:-])")
_GROUP_MAX = 8  # amounts that are read as a group, such as what is left, spent and held of a limit


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    children: list["Element | str"] = field(default_factory=list)

    @cached_property
    def names(self) -> list[str]:
        return self.attributes.get("class", "").split()

    @cached_property
    def text(self) -> str:
        """What is read, without what is shown only on hover."""
        if self.tag in _UNREAD or set(_HIDDEN) & set(self.names):
            return ""
        return "".join(each if isinstance(each, str) else each.text for each in self.children)

    @cached_property
    def amounts(self) -> "list[Shown]":
        """The amounts in the element, in their order. One that is not rounded is exact."""
        found: list[Shown] = []
        for child in self.children:
            if isinstance(child, str):
                found += [Shown(text, number(text)) for text in _AMOUNT.findall(child)]
            elif child.tag == "data" and "usd" in child.names:
                found.append(Shown(child.text.strip(), Decimal(child.attributes["value"])))
            elif child.tag not in _UNREAD and not set(_HIDDEN) & set(child.names):
                found += child.amounts
        return found

    @cached_property
    def descendants(self) -> "list[Element]":
        elements = [child for child in self.children if isinstance(child, Element)]
        return [each for element in elements for each in (element, *element.descendants)]

    def find(self, *tags: str) -> Iterator["Element"]:
        return (each for each in self.descendants if each.tag in tags)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Element("page", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in _VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        places = [place for place, element in enumerate(self.open) if element.tag == tag]
        if places:
            del self.open[places[-1] :]

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def read(page: str) -> Element:
    reader = _Reader()
    reader.feed(page)
    return reader.open[0]


@dataclass(frozen=True)
class Shown:
    """An amount as it is shown, and exactly."""

    text: str
    exact: Decimal

    @property
    def value(self) -> Decimal:
        return number(self.text)

    @property
    def decimals(self) -> int:
        return len(self.text.rpartition(".")[2])


def number(text: str) -> Decimal:
    return Decimal(re.sub(r"[$,+ %]", "", text))


def faults(page: str) -> list[str]:
    """Return what is wrong with the figures of a page, in sentences."""
    root = read(page)
    found = [f"{each!r} is a negative zero" for each in _NEGATIVE_ZERO.findall(root.text)]
    found += ["an amount has its sign after the dollar"] * ("$-" in root.text)
    found += [
        f"{each.text} is too few digits of {each.exact}"
        for each in root.amounts
        if abs(each.exact) < 1 and each.value != each.exact and len(str(abs(each.value)).replace(".", "").strip("0")) < 3
    ]
    for table in root.find("table"):
        found += [*_of_totals(table), *_of_columns(table), *_of_balances(table)]
    for element in root.find("dl", "article", "section", "figure", "p", "li", "div", "tr", "td", "dd"):
        if not any(element.find("table")):
            found += _of_group(element.amounts)
    return found


# --- Tables -------------------------------------------------------------------------------------------------------


def _cells(row: Element) -> list[Element]:
    """Return a cell for each column."""
    cells = [each for each in row.children if isinstance(each, Element) and each.tag in ("th", "td")]
    return [cell for cell in cells for _ in range(int(cell.attributes.get("colspan", "1")))]


def _of_totals(table: Element) -> Iterator[str]:
    """A total is the sum of the rows above: of those with its heading, if any have it."""
    titles = [cell.text.strip() for cell in _cells(next(table.find("tr")))]
    feet = [id(row) for foot in table.find("tfoot") for row in foot.find("tr")]
    above: list[list[Element]] = []
    for row in table.find("tr"):
        cells = _cells(row)
        if id(row) not in feet and "total" not in row.names:
            above += [cells] if any(each.tag == "td" for each in cells) else []
            continue
        alike = [each for each in above if each[0].text.strip() == cells[0].text.strip()]
        for column, cell in enumerate(cells[1:], start=1):
            text = " ".join(cell.text.split())
            if cell is cells[0] or titles[column].endswith("%") or not _COUNT.fullmatch(text.replace("$", "")):
                continue
            parts = [" ".join(each[column].text.split()) for each in alike or above]
            numbers = [match[0] for part in parts if (match := re.match(r"[+-]?\$?[\d,.]+", part))]
            if sum(map(number, numbers)) != number(text):
                yield f"{titles[column]}: {' + '.join(numbers)} is not {text}"


def _of_columns(table: Element) -> Iterator[str]:
    columns: dict[int, set[int]] = {}
    for row in table.find("tr"):
        for place, cell in enumerate(_cells(row)):
            if (
                cell.tag == "td"
                and (found := cell.amounts)
                and " ".join(cell.text.split()).lstrip("+-") == found[0].text.lstrip("+-")
            ):
                columns.setdefault(place, set()).add(found[0].decimals)
    yield from (f"column {place} has amounts of {each} decimals" for place, each in columns.items() if len(each) > 1)


def _of_balances(table: Element) -> Iterator[str]:
    """Between two entries of an account that follow each other, the balance shown changes by the amount shown."""
    rows = [found for row in table.find("tr") if len(found := row.amounts) == 2]
    if not any(cell.text.strip().lower() == "balance after" for cell in table.find("th")):
        return
    for (amount, after), (_, before) in pairwise(rows):
        if before.exact + amount.exact == after.exact and before.value + amount.value != after.value:
            yield f"{before.text} and {amount.text} is not {after.text}"


def _of_group(group: list[Shown]) -> Iterator[str]:
    """Where some amounts are exactly the parts of another, they are as they are shown."""
    if not 3 <= len(group) <= _GROUP_MAX:
        return
    for whole in group:
        others = [each for each in group if each is not whole and each.exact]
        for count in (2, 3):
            for parts in combinations(others, count):
                if sum(each.exact for each in parts) == whole.exact and sum(each.value for each in parts) != whole.value:
                    yield f"{' + '.join(each.text for each in parts)} is not {whole.text}"
