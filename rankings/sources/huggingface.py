"""HUGGINGFACE: benchmark leaderboards that the Hub keeps of what model cards report. Open weights, mostly unverified."""

from dataclasses import dataclass
from typing import Any

from completions.models import Category
from rankings import environment
from rankings.models import Source, Standing
from rankings.sources import base, documents
from rankings.sources.base import FetchedSnapshot, FetchedSourceSpec, Placement, SourceRun, StandingFigures
from rankings.sources.documents import ImplausibleData


@dataclass(frozen=True, kw_only=True)
class HubBoard(base.Board):
    """A benchmark on the Hub, on a scale of 0-100. A gated one answers only to a token whose owner accepted its terms."""

    dataset: str
    is_gated: bool = False


BOARDS = {
    Category.GENERAL: HubBoard(dataset="TIGER-Lab/MMLU-Pro"),
    # Shown, and no evidence: in February 2026 those who had made it gave it up, as most of the tasks that models still failed
    # had wrong tests, and models had seen the solutions. https://openai.com/index/why-we-no-longer-evaluate-swe-bench-verified/
    Category.CODING: HubBoard(dataset="SWE-bench/SWE-bench_Verified", weight=0),
    Category.MATH: HubBoard(dataset="MathArena/aime_2026", version="2026"),
    Category.REASONING: HubBoard(dataset="Idavidrein/gpqa", is_gated=True),
}
KEY_KIND = "hf_repo"
PRECISION_VERIFIED, PRECISION_UNVERIFIED = 0.9, 0.5
ATTRIBUTION = "Hugging Face benchmark leaderboards: {boards}. Values as their authors report them."
TOKEN = environment.text("GATEWAY_HF_TOKEN")  # Hugging Face's own word for its keys


def read(run: SourceRun) -> FetchedSnapshot:
    notes: list[str] = []
    boards = {board: leaderboard for board, leaderboard in BOARDS.items() if TOKEN.value or not leaderboard.is_gated}

    def read_board(board: Category) -> list[Standing]:
        dataset = boards[board].dataset
        listed = documents.rows(run.client.get(f"/api/datasets/{dataset}/leaderboard").json(), dataset)
        run.client.say(f"{dataset}: {len(listed)} rows")
        return _standings(board, listed, dataset, notes)

    found, stopped = base.read_boards(boards, read_board)
    links = ", ".join(f"https://huggingface.co/datasets/{leaderboard.dataset}" for leaderboard in boards.values())
    return FetchedSnapshot(
        standings=[standing for standings in found.values() for standing in standings],
        attribution=ATTRIBUTION.format(boards=links),
        notes=notes,
        stopped=stopped,
        unread=BOARDS.keys() - boards.keys(),
    )


def _standings(board: Category, listed: list[dict[str, Any]], dataset: str, notes: list[str]) -> list[Standing]:
    usable = []
    for item in listed:
        if item.get("lower_is_better") is True:
            raise ImplausibleData(f"{dataset} says that lower is better")
        if standing := _standing(board, item):
            usable.append(standing)
    if not usable:
        raise ImplausibleData(f"{dataset} has no usable row")
    if dropped := len(listed) - len(usable):
        notes.append(f"{dropped} values of {dataset} are off its scale")
    # Of several rows of a model a verified one is kept, else the worst.
    kept = base.one_of_each(usable, lambda row: row.external_key.casefold(), lambda row: (row.facts["verified"], -row.value))
    if repeated := len(usable) - len(kept):
        notes.append(f"{repeated} rows of {dataset} repeat a model")
    return kept


def _standing(board: Category, item: dict[str, Any]) -> Standing | None:
    """Return None for a value off the board's scale of 0-100. 0.412 may mean 41.2 or less than one; we do not guess."""
    value = documents.optional(item.get("value"))
    if value is None or not 0 <= value <= 100 or 0 < value <= 1:
        return None
    name = documents.text(item.get("modelId"), "modelId")
    return Standing(
        board=board,
        external_key=name,
        key_kind=KEY_KIND,
        name=name.rpartition("/")[2],
        organization=name.partition("/")[0] if "/" in name else "",
        rank=int(documents.finite(item.get("rank"), "rank", minimum=1, maximum=1_000_000)),
        value=value,
        facts={"verified": item.get("verified") is True},
    )


def figures(placement: Placement) -> StandingFigures:
    precision = PRECISION_VERIFIED if placement.facts.get("verified") else PRECISION_UNVERIFIED
    return StandingFigures(precision=precision, overall=placement.value, quality=placement.value)


SPEC = FetchedSourceSpec(
    source=Source.HUGGINGFACE,
    title="Hugging Face",
    home_url="https://huggingface.co/docs/hub/leaderboard-data-guide",
    base_url=environment.text("GATEWAY_HF_HUB_URL", "https://huggingface.co"),
    key=TOKEN,
    boards=BOARDS,
    rows_min=1,
    is_conditional=True,
    read=read,
    figures=figures,
    short_name="hf",
    half_life_hours=720,
    weight=0.20,
    lists_open_weights_only=True,
)
