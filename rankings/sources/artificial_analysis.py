"""ARTIFICIAL_ANALYSIS: indexes of intelligence and measured speed, one row for each reasoning effort. Off without a key."""

from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from completions.models import Category
from rankings.models import Source
from rankings.sources import boards, wire
from rankings.sources.base import Reading, StandingRow, ranked
from rankings.sources.client import Client, Headers, Implausible, Unavailable

PAGES_MAX = 20
QUOTA_LEFT_MIN = 10  # the key is the organisation's, and others of it may need some of its 100 requests a day
ATTRIBUTION = "Artificial Analysis, https://artificialanalysis.ai"


class ArtificialAnalysis:
    source: ClassVar[Source] = Source.ARTIFICIAL_ANALYSIS
    rows_min: ClassVar[int] = 100
    is_conditional: ClassVar[bool] = True

    def read(self, client: Client, *, revision: str) -> Reading:
        version, models = _models(client)
        standings = [standing for board in boards.ARTIFICIAL_ANALYSIS for standing in _board(board, models)]
        return Reading(standings=standings, version=version, attribution=ATTRIBUTION)


def _models(client: Client) -> tuple[str, list[dict[str, Any]]]:
    """The version of the index, and every model of every page. The pages must be of one piece."""
    models: dict[str, dict[str, Any]] = {}
    described: tuple[float, float] | None = None
    for number in range(1, PAGES_MAX + 1):
        answer = client.get("/language/models/free", page=number)
        body = wire.table(answer.body, "a page")
        paging = wire.table(body.get("pagination"), "pagination")
        pages = wire.finite(paging.get("total_pages"), "total_pages", minimum=1, maximum=PAGES_MAX)
        said = (wire.finite(body.get("intelligence_index_version"), "intelligence_index_version"), pages)
        if paging.get("page") != number or said != (described or said):
            raise Implausible(f"page {number} is not of one piece with those before it")
        described = said
        for model in wire.rows(body.get("data"), "data"):
            key = wire.text(model.get("id"), "id")
            if models.setdefault(key, model) != model:
                raise Implausible(f"page {number} repeats a model, and says something else")
        client.say(f"page {number} of {pages:.0f}: {len(models)} models")
        if paging.get("has_more") is not (number < pages):
            raise Implausible(f"page {number} of {pages:.0f} says has_more {paging.get('has_more')!r:.20}")
        if number == pages:
            return f"{said[0]:g}", list(models.values())
        _require_quota(answer.headers)
    raise AssertionError("the last page returns")


def _require_quota(headers: Headers) -> None:
    """Raises Unavailable while there is some of the day's quota left for others."""
    left = headers.get("X-RateLimit-Remaining", "")
    if left.isdigit() and int(left) <= QUOTA_LEFT_MIN:
        reset = headers.get("X-RateLimit-Reset", "")
        known = reset.isdigit() and len(reset) < 12
        retry_at = datetime.fromtimestamp(int(reset), UTC) if known else datetime.now(UTC) + timedelta(days=1)
        raise Unavailable(f"{left} requests are left of today's", retry_at=retry_at)


def _board(board: Category, models: list[dict[str, Any]]) -> list[StandingRow]:
    """Those that have the board's index, ranked by it: the source names no ranks."""
    index = boards.ARTIFICIAL_ANALYSIS[board]
    valued = []
    for model in models:
        value = wire.table(model.get("evaluations") or {}, "evaluations").get(index)
        if value is not None:
            valued.append((model, wire.finite(value, index, minimum=0, maximum=100)))
    return [_standing(board, model, value, rank) for model, value, rank in ranked(valued)]


def _standing(board: Category, model: dict[str, Any], value: float, rank: int) -> StandingRow:
    creator = wire.table(model.get("model_creator") or {}, "model_creator")
    pricing = wire.table(model.get("pricing") or {}, "pricing")
    performance = wire.table(model.get("performance") or {}, "performance")
    return StandingRow(
        board=board,
        external_key=wire.text(model["id"], "id"),
        key_kind="aa_id",
        name=wire.text(model.get("name"), "name"),
        organization=wire.optional_text(creator.get("name")),
        rank=rank,
        value=value,
        facts={
            "slug": wire.optional_text(model.get("slug")),
            "tokens_per_second": wire.positive(performance.get("median_output_tokens_per_second")),
            "first_token_seconds": wire.positive(performance.get("median_time_to_first_token_seconds")),
            "input_usd": _price(pricing.get("price_1m_input_tokens")),
            "output_usd": _price(pricing.get("price_1m_output_tokens")),
        },
    )


def _price(value: Any) -> float | None:
    """US dollars per million tokens: 0 is free, less is no price."""
    price = wire.optional(value)
    return price if price is not None and price >= 0 else None
