"""LMSYS_ARENA: ratings by people who compare two replies, from the dataset that LMArena publishes on Hugging Face."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

from completions.models import Category
from rankings import environment
from rankings.models import Source, Standing
from rankings.sources import base, documents, huggingface
from rankings.sources.base import FetchedSnapshot, FetchedSourceSpec, Placement, SourceRun, StandingFigures
from rankings.sources.documents import ImplausibleData, SourceClient, SourceFailed

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
    newest = documents.optional_text(documents.table(hub.get(f"/api/datasets/{DATASET}").json(), "the dataset").get("sha"))
    if run.revision and newest == run.revision:
        raise base.Unchanged
    read = {board: _rows(run.client, category) for board, category in BOARDS.items()}
    served = {revision for _, revisions in read.values() for revision in revisions}
    if len(served) > 1:
        raise SourceFailed("the dataset changed while it was read")
    notes: list[str] = []
    boards = [_board(board, rows, notes) for board, (rows, _) in read.items()]
    standings = [standing for _, of_board in boards for standing in of_board]
    # Of several rows of a model on a board the worst is kept: the best would flatter the model.
    kept = base.one_of_each(standings, lambda row: (row.board, row.external_key), lambda row: (-row.value, row.rank))
    if len(kept) < len(standings):
        notes.append(f"{len(standings) - len(kept)} rows repeat a model")
    return FetchedSnapshot(
        standings=kept,
        as_of=datetime.combine(min(day for day, _ in boards), datetime.min.time(), UTC),
        attribution=ATTRIBUTION,
        # The data may be older than the newest revision: its server needs a while after each change.
        revision=served.pop() or newest,
        notes=notes,
    )


def _rows(client: SourceClient, category: str) -> tuple[list[dict[str, Any]], set[str | None]]:
    """Return the rows on all pages of a category, and the revisions of the dataset that these are of.

    Raises ImplausibleData if the pages disagree on the number of rows.
    """
    rows: list[dict[str, Any]] = []
    totals, revisions = set(), set()
    where = f"\"category\"='{category}'"
    for number in range(PAGES_MAX):
        place = {"offset": number * PAGE_ROWS, "length": PAGE_ROWS}
        answer = client.get("/filter", dataset=DATASET, config=CONFIG, split="latest", where=where, **place)
        body = documents.table(answer.json(), "a page")
        total = documents.finite(body.get("num_rows_total"), "num_rows_total", minimum=0)
        if body.get("partial") is not False:
            raise ImplausibleData(f"the page of {category} says that it is partial")
        totals.add(total)
        if len(totals) > 1:
            raise ImplausibleData(f"the pages of {category} disagree on how many rows there are")
        revisions.add(answer.headers.get("X-Revision"))
        page = documents.rows(body.get("rows"), "rows")
        rows += page
        client.say(f"{category}: {len(rows)} of {total:.0f} rows")
        if len(rows) >= total or not page:
            break
    if len(rows) != total:
        raise ImplausibleData(f"{category} has {len(rows)} rows, and says {total:.0f}")
    return rows, revisions


def _board(board: Category, rows: list[dict[str, Any]], notes: list[str]) -> tuple[date, list[Standing]]:
    """Return the newest day of a board, and the standings of that day: a split may hold several days."""
    dated = [_dated(item, BOARDS[board]) for item in rows]
    if not dated:
        raise ImplausibleData(f"{BOARDS[board]} is empty")
    newest = max(day for day, _ in dated)
    standings = [_standing(board, row) for day, row in dated if day == newest]
    if older := len(dated) - len(standings):
        notes.append(f"{older} rows of {BOARDS[board]} are of an earlier day")
    return newest, standings


def _dated(item: dict[str, Any], category: str) -> tuple[date, dict[str, Any]]:
    """Return the cells of a row and their day."""
    if item.get("truncated_cells"):
        raise ImplausibleData(f"a row of {category} has truncated cells")
    row = documents.table(item.get("row"), "row")
    if row.get("category") != category:
        raise ImplausibleData(f"a row of {category} is of another category")
    try:
        return date.fromisoformat(documents.text(row.get("leaderboard_publish_date"), "leaderboard_publish_date")[:10]), row
    except ValueError:
        raise ImplausibleData("leaderboard_publish_date is not a date") from None


def _standing(board: Category, row: dict[str, Any]) -> Standing:
    name = documents.text(row.get("model_name"), "model_name")
    return Standing(
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


def figures(placement: Placement) -> StandingFigures:
    """The score is the percentile of the rating, because ratings are on a scale without ends."""
    lower, upper = placement.facts.get("lower"), placement.facts.get("upper")
    precision = PRECISION_WITHOUT_INTERVAL
    if lower is not None and upper is not None:
        precision = min(1.0, max(PRECISION_MIN, 1 - (upper - lower) / 2 / INTERVAL_HALF_MAX))
    score = placement.percentile
    return StandingFigures(precision=precision, overall=score, quality=score, elo=round(placement.value))


SPEC = FetchedSourceSpec(
    source=Source.LMSYS_ARENA,
    title="LMArena",
    home_url=f"https://huggingface.co/datasets/{DATASET}",
    license=base.CC_BY,
    data_age_max=timedelta(days=21),  # the dataset still answers when it is no longer updated
    base_url=environment.text("GATEWAY_HF_DATASETS_SERVER_URL", "https://datasets-server.huggingface.co"),
    key=huggingface.TOKEN,
    boards=BOARDS,
    rows_min=150,
    is_conditional=False,
    read=read,
    figures=figures,
    short_name="arena",
    half_life_hours=336,
    weight=0.45,
    is_compared=True,
)
