"""LMSYS_ARENA: ratings by people who compare two answers, as the dataset that LMArena publishes on Hugging Face."""

from datetime import UTC, date, datetime
from typing import Any, ClassVar

from completions.models import Category
from rankings.models import Source
from rankings.sources import boards, wire
from rankings.sources.base import Reading, StandingRow, Unchanged, once
from rankings.sources.client import Answer, Client, Implausible, Unavailable

DATASET = "lmarena-ai/leaderboard-dataset"
CONFIG = "text_style_control"  # the board that arena.ai shows
PAGE_ROWS = 100
PAGES_MAX = 20
RATING_MAX = 4_000
ATTRIBUTION = (
    "LMArena, lmarena-ai/leaderboard-dataset, CC BY 4.0. Filtered to the models served here and renamed; percentiles added."
)


class Arena:
    source: ClassVar[Source] = Source.LMSYS_ARENA
    rows_min: ClassVar[int] = 150
    is_conditional: ClassVar[bool] = False

    def __init__(self, hub: Client) -> None:
        self._hub = hub  # another host than the data's: it knows which revision is the newest

    def read(self, client: Client, *, revision: str) -> Reading:
        newest = wire.optional_text(wire.table(self._hub.get(f"/api/datasets/{DATASET}").body, "the dataset").get("sha"))
        if revision and newest == revision:
            raise Unchanged
        pages = {board: _pages(client, category) for board, category in boards.ARENA.items()}
        served = {answer.headers.get("X-Revision") for answers in pages.values() for answer in answers}
        if len(served) > 1:
            raise Unavailable("the dataset changed while it was read")
        notes: list[str] = []
        days, standings = _standings(pages, notes)
        return Reading(
            standings=once(standings, notes),
            as_of=datetime.combine(min(days), datetime.min.time(), UTC),
            attribution=ATTRIBUTION,
            # What was read may be older than the newest: the server needs a while after each change.
            revision=served.pop() or newest,
            notes=notes,
        )


def _pages(client: Client, category: str) -> list[Answer]:
    """All pages of a category, which must agree on how much there is."""
    answers: list[Answer] = []
    count = 0
    for number in range(PAGES_MAX):
        answer = client.get(
            "/filter",
            dataset=DATASET,
            config=CONFIG,
            split="latest",
            where=f"\"category\"='{category}'",
            offset=number * PAGE_ROWS,
            length=PAGE_ROWS,
        )
        body = wire.table(answer.body, "a page")
        total = wire.finite(body.get("num_rows_total"), "num_rows_total", minimum=0)
        if body.get("partial") is not False:
            raise Implausible(f"the page of {category} says that it is partial")
        if answers and total != answers[0].body["num_rows_total"]:
            raise Implausible(f"the pages of {category} disagree on how many rows there are")
        answers.append(answer)
        read = len(wire.rows(body.get("rows"), "rows"))
        count += read
        client.say(f"{category}: {count} of {total:.0f} rows")
        if count >= total or not read:
            break
    if count != total:
        raise Implausible(f"{category} has {count} rows, and says {total:.0f}")
    return answers


def _standings(pages: dict[Category, list[Answer]], notes: list[str]) -> tuple[set[date], list[StandingRow]]:
    """The rows of each board's newest day, and those days: a split may hold several."""
    days, standings = set(), []
    for board, answers in pages.items():
        dated = [(_day(row), row) for answer in answers for row in _cells(answer.body, boards.ARENA[board])]
        if not dated:
            raise Implausible(f"{boards.ARENA[board]} is empty")
        newest = max(day for day, _ in dated)
        days.add(newest)
        standings += [_standing(board, row) for day, row in dated if day == newest]
        if older := sum(day != newest for day, _ in dated):
            notes.append(f"{older} rows of {boards.ARENA[board]} are of an earlier day")
    return days, standings


def _cells(body: dict[str, Any], category: str) -> list[dict[str, Any]]:
    found = []
    for item in body["rows"]:
        if item.get("truncated_cells"):
            raise Implausible(f"a row of {category} has truncated cells")
        row = wire.table(item.get("row"), "row")
        if row.get("category") != category:
            raise Implausible(f"a row of {category} is of another category")
        found.append(row)
    return found


def _day(row: dict[str, Any]) -> date:
    try:
        return date.fromisoformat(wire.text(row.get("leaderboard_publish_date"), "leaderboard_publish_date")[:10])
    except ValueError:
        raise Implausible("leaderboard_publish_date is no date") from None


def _standing(board: Category, row: dict[str, Any]) -> StandingRow:
    name = wire.text(row.get("model_name"), "model_name")
    return StandingRow(
        board=board,
        external_key=name,
        key_kind="model_name",
        name=name,
        organization=wire.optional_text(row.get("organization")),
        rank=int(wire.finite(row.get("rank"), "rank", minimum=1, maximum=100_000)),
        value=wire.finite(row.get("rating"), "rating", minimum=1, maximum=RATING_MAX),
        facts={
            "lower": wire.optional(row.get("rating_lower")),
            "upper": wire.optional(row.get("rating_upper")),
            "votes": int(wire.finite(row.get("vote_count"), "vote_count", minimum=0, maximum=1e12)),
        },
    )
