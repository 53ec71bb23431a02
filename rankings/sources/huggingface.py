"""HUGGINGFACE: benchmark leaderboards that the Hub keeps of what model cards report. Open weights, mostly unverified."""

from typing import Any, ClassVar

from completions.models import Category
from rankings.models import Source
from rankings.sources import boards, wire
from rankings.sources.base import Reading, StandingRow
from rankings.sources.client import Client, Implausible

ATTRIBUTION = "Hugging Face benchmark leaderboards: {boards}. Values as their authors report them."


class HuggingFace:
    source: ClassVar[Source] = Source.HUGGINGFACE
    rows_min: ClassVar[int] = 1
    is_conditional: ClassVar[bool] = True

    def __init__(self, *, has_token: bool) -> None:
        self._boards = {board: known for board, known in boards.HUGGINGFACE.items() if has_token or not known.is_gated}

    def read(self, client: Client, *, revision: str) -> Reading:
        notes: list[str] = []
        standings: list[StandingRow] = []
        for board, known in self._boards.items():
            listed = wire.rows(client.get(f"/api/datasets/{known.dataset}/leaderboard").body, known.dataset)
            client.say(f"{known.dataset}: {len(listed)} rows")
            standings += _standings(board, listed, known.dataset, notes)
        links = ", ".join(f"https://huggingface.co/datasets/{known.dataset}" for known in self._boards.values())
        return Reading(standings=standings, attribution=ATTRIBUTION.format(boards=links), notes=notes)


def _standings(board: Category, listed: list[dict[str, Any]], dataset: str, notes: list[str]) -> list[StandingRow]:
    kept: dict[str, StandingRow] = {}
    dropped = repeated = 0
    for item in listed:
        if item.get("lower_is_better") is True:
            raise Implausible(f"{dataset} says that lower is better")
        standing = _standing(board, item)
        if standing is None:
            dropped += 1
            continue
        known = kept.get(standing.external_key.casefold())
        repeated += known is not None
        if known is None or _trust(standing) > _trust(known):
            kept[standing.external_key.casefold()] = standing
    if not kept:
        raise Implausible(f"{dataset} has no usable row")
    if dropped:
        notes.append(f"{dropped} values of {dataset} are off its scale")
    if repeated:
        notes.append(f"{repeated} rows of {dataset} repeat a model")
    return list(kept.values())


def _standing(board: Category, item: dict[str, Any]) -> StandingRow | None:
    """None for a value that is not on the board's scale of 0-100: 0.412 may be 41.2 or less than one, and we do not guess."""
    value = wire.optional(item.get("value"))
    if value is None or not 0 <= value <= 100 or 0 < value <= 1:
        return None
    name = wire.text(item.get("modelId"), "modelId")
    return StandingRow(
        board=board,
        external_key=name,
        key_kind="hf_repo",
        name=name.rpartition("/")[2],
        organization=name.partition("/")[0] if "/" in name else "",
        rank=int(wire.finite(item.get("rank"), "rank", minimum=1, maximum=1_000_000)),
        value=value,
        facts={"verified": item.get("verified") is True},
    )


def _trust(standing: StandingRow) -> tuple[bool, float]:
    """Of several rows of a model: a verified one, else the worst. Never silently the best."""
    return standing.facts["verified"], -standing.value
