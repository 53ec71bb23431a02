"""LMSYS_ARENA: ratings by people who compare two replies, from the dataset that LMArena publishes on Hugging Face."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

from completions.models import Category
from rankings import environment
from rankings.models import Source
from rankings.sources import base, documents, huggingface
from rankings.sources.base import FetchedSnapshot, FetchedSourceSpec, Placement, SourceRun, StandingFigures, StandingRow
from rankings.sources.client import ImplausibleData, SourceClient, SourceDocument, SourceUnavailable

DATASET = "lmarena-ai/leaderboard-dataset"
CONFIG = "text_style_control"  # the board that arena.ai shows
# Arena has no board for reasoning; hard prompts are the nearest it has.
BOARDS = {
    Category.GENERAL: "overall",
    Category.CODING: "coding",
    Category.MATH: "math",
    Category.REASONING: "hard_prompts",
    Category.CREATIVE: "creative_writing",
}
KEY_KIND = "model_name"
PAGE_ROWS = 100
PAGES_MAX = 20
RATING_MAX = 4_000
PRECISION_MIN = 0.3
PRECISION_WITHOUT_INTERVAL = 0.5
INTERVAL_HALF_MAX = 50  # points of a rating
ATTRIBUTION = (
    "LMArena, lmarena-ai/leaderboard-dataset, CC BY 4.0. Filtered to the models served here and renamed; percentiles added."
)


def read(run: SourceRun) -> FetchedSnapshot:
    hub = run.open_client(huggingface.SPEC.access())  # not the host of the data, but it names the newest revision
    newest = documents.optional_text(documents.table(hub.get(f"/api/datasets/{DATASET}").body, "the dataset").get("sha"))
    if run.revision and newest == run.revision:
        raise base.Unchanged
    pages = {board: _pages(run.client, category) for board, category in BOARDS.items()}
    served = {answer.headers.get("X-Revision") for answers in pages.values() for answer in answers}
    if len(served) > 1:
        raise SourceUnavailable("the dataset changed while it was read")
    notes: list[str] = []
    days, standings = _standings(pages, notes)
    return FetchedSnapshot(
        standings=_without_repetitions(standings, notes),
        as_of=datetime.combine(min(days), datetime.min.time(), UTC),
        attribution=ATTRIBUTION,
        # The data may be older than the newest revision: its server needs a while after each change.
        revision=served.pop() or newest,
        notes=notes,
    )


def _pages(client: SourceClient, category: str) -> list[SourceDocument]:
    """Return all pages of a category. Raises ImplausibleData if they disagree on the number of rows."""
    answers: list[SourceDocument] = []
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
        body = documents.table(answer.body, "a page")
        total = documents.finite(body.get("num_rows_total"), "num_rows_total", minimum=0)
        if body.get("partial") is not False:
            raise ImplausibleData(f"the page of {category} says that it is partial")
        if answers and total != answers[0].body["num_rows_total"]:
            raise ImplausibleData(f"the pages of {category} disagree on how many rows there are")
        answers.append(answer)
        read = len(documents.rows(body.get("rows"), "rows"))
        count += read
        client.say(f"{category}: {count} of {total:.0f} rows")
        if count >= total or not read:
            break
    if count != total:
        raise ImplausibleData(f"{category} has {count} rows, and says {total:.0f}")
    return answers


def _standings(pages: dict[Category, list[SourceDocument]], notes: list[str]) -> tuple[set[date], list[StandingRow]]:
    """Return the newest day of each board, and the standings of that day: a split may hold several days."""
    days, standings = set(), []
    for board, answers in pages.items():
        dated = [(_day(row), row) for answer in answers for row in _cells(answer.body, BOARDS[board])]
        if not dated:
            raise ImplausibleData(f"{BOARDS[board]} is empty")
        newest = max(day for day, _ in dated)
        days.add(newest)
        standings += [_standing(board, row) for day, row in dated if day == newest]
        if older := sum(day != newest for day, _ in dated):
            notes.append(f"{older} rows of {BOARDS[board]} are of an earlier day")
    return days, standings


def _cells(body: dict[str, Any], category: str) -> list[dict[str, Any]]:
    found = []
    for item in body["rows"]:
        if item.get("truncated_cells"):
            raise ImplausibleData(f"a row of {category} has truncated cells")
        row = documents.table(item.get("row"), "row")
        if row.get("category") != category:
            raise ImplausibleData(f"a row of {category} is of another category")
        found.append(row)
    return found


def _day(row: dict[str, Any]) -> date:
    try:
        return date.fromisoformat(documents.text(row.get("leaderboard_publish_date"), "leaderboard_publish_date")[:10])
    except ValueError:
        raise ImplausibleData("leaderboard_publish_date is not a date") from None


def _standing(board: Category, row: dict[str, Any]) -> StandingRow:
    name = documents.text(row.get("model_name"), "model_name")
    return StandingRow(
        board=board,
        external_key=name,
        key_kind=KEY_KIND,
        name=name,
        organization=documents.optional_text(row.get("organization")),
        rank=int(documents.finite(row.get("rank"), "rank", minimum=1, maximum=100_000)),
        value=documents.finite(row.get("rating"), "rating", minimum=1, maximum=RATING_MAX),
        facts={
            "lower": documents.optional(row.get("rating_lower")),
            "upper": documents.optional(row.get("rating_upper")),
            "votes": int(documents.finite(row.get("vote_count"), "vote_count", minimum=0, maximum=1e12)),
        },
    )


def _without_repetitions(standings: list[StandingRow], notes: list[str]) -> list[StandingRow]:
    """Return one row for each model on each board. Of several rows the worst is kept: the best would flatter the model."""
    kept: dict[tuple[str, str], StandingRow] = {}
    for row in standings:
        previous = kept.setdefault((row.board, row.external_key), row)
        if (row.value, -row.rank) < (previous.value, -previous.rank):
            kept[row.board, row.external_key] = row
    if len(kept) < len(standings):
        notes.append(f"{len(standings) - len(kept)} rows repeat a model")
    return list(kept.values())


def rating_precision(lower: float | None, upper: float | None) -> float:
    """Return how far a rating may be believed, by its 95 % interval, as a share."""
    if lower is None or upper is None:
        return PRECISION_WITHOUT_INTERVAL
    return min(1.0, max(PRECISION_MIN, 1 - (upper - lower) / 2 / INTERVAL_HALF_MAX))


def figures(placement: Placement) -> StandingFigures:
    """The score is the percentile of the rating, because ratings are on a scale without ends."""
    return StandingFigures(
        precision=rating_precision(placement.facts.get("lower"), placement.facts.get("upper")),
        overall=placement.percentile,
        quality=placement.percentile,
        elo=round(placement.value),
    )


SPEC = FetchedSourceSpec(
    source=Source.LMSYS_ARENA,
    title="LMArena",
    home_url=f"https://huggingface.co/datasets/{DATASET}",
    license=base.CC_BY,
    cadence=timedelta(hours=24),
    age_max=timedelta(hours=72),
    data_age_max=timedelta(days=21),  # the dataset still answers when it is no longer updated
    base_url=environment.text("GATEWAY_HF_DATASETS_SERVER_URL", "https://datasets-server.huggingface.co"),
    key=huggingface.TOKEN,
    boards=BOARDS,
    key_kind=KEY_KIND,
    rows_min=150,
    is_conditional=False,
    read=read,
    figures=figures,
    short_name="arena",
    half_life_hours=336,
    weight=0.45,
    is_compared=True,
)
