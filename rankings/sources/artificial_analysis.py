"""ARTIFICIAL_ANALYSIS: indexes of intelligence and measured speed, one row for each reasoning effort. Off without a key."""

from datetime import UTC, datetime, timedelta
from typing import Any

from completions.models import Category
from gateway_project.net.background_http import Headers
from rankings import environment
from rankings.models import Source, Standing
from rankings.sources import base, documents
from rankings.sources.base import FetchedSnapshot, FetchedSourceSpec, Placement, SourceRun, StandingFigures
from rankings.sources.documents import ImplausibleData, SourceClient, SourceFailed

BOARDS = {Category.GENERAL: "artificial_analysis_intelligence_index", Category.CODING: "artificial_analysis_coding_index"}
KEY_KIND = "aa_id"
PAGES_MAX = 20
QUOTA_LEFT_MIN = 10  # the key belongs to the organisation, and others may need some of its 100 requests per day
PRECISION = 0.95
ATTRIBUTION = "Artificial Analysis, https://artificialanalysis.ai"


def read(run: SourceRun) -> FetchedSnapshot:
    version, models = _models(run.client)
    standings = [standing for board in BOARDS for standing in _board(board, models)]
    return FetchedSnapshot(standings=standings, version=version, attribution=ATTRIBUTION)


def _models(client: SourceClient) -> tuple[str, list[dict[str, Any]]]:
    """Return the version of the index and the models of all pages. Raises ImplausibleData if the pages do not fit together."""
    models: dict[str, dict[str, Any]] = {}
    first_identity: tuple[float, float] | None = None
    for number in range(1, PAGES_MAX + 1):
        answer = client.get("/language/models/free", page=number)
        body = documents.table(answer.json(), "a page")
        paging = documents.table(body.get("pagination"), "pagination")
        pages = documents.finite(paging.get("total_pages"), "total_pages", minimum=1, maximum=PAGES_MAX)
        page_identity = (documents.finite(body.get("intelligence_index_version"), "intelligence_index_version"), pages)
        if paging.get("page") != number or page_identity != (first_identity or page_identity):
            raise ImplausibleData(f"page {number} does not fit the pages before it")
        first_identity = page_identity
        for model in documents.rows(body.get("data"), "data"):
            key = documents.text(model.get("id"), "id")
            if models.setdefault(key, model) != model:
                raise ImplausibleData(f"page {number} repeats a model with other values")
        client.say(f"page {number} of {pages:.0f}: {len(models)} models")
        if paging.get("has_more") is not (number < pages):
            raise ImplausibleData(f"page {number} of {pages:.0f} says has_more {paging.get('has_more')!r:.20}")
        if number == pages:
            return f"{page_identity[0]:g}", list(models.values())
        _require_quota(answer.headers)
    raise AssertionError("the last page returns")


def _require_quota(headers: Headers) -> None:
    """Raises SourceFailed when only the part of the day's quota is left that others may need."""
    left = headers.get("X-RateLimit-Remaining", "")
    if left.isascii() and left.isdigit() and int(left) <= QUOTA_LEFT_MIN:
        reset = headers.get("X-RateLimit-Reset", "")
        is_timestamp = reset.isascii() and reset.isdigit() and len(reset) < 12
        retry_at = datetime.fromtimestamp(int(reset), UTC) if is_timestamp else datetime.now(UTC) + timedelta(days=1)
        raise SourceFailed(f"{left} requests are left of today's", retry_at=retry_at)


def _board(board: Category, models: list[dict[str, Any]]) -> list[Standing]:
    """Return the models that have the board's index, ranked by it: the source gives no ranks."""
    index = BOARDS[board]
    valued = []
    for model in models:
        value = documents.table(model.get("evaluations") or {}, "evaluations").get(index)
        if value is not None:
            valued.append((model, documents.finite(value, index, minimum=0, maximum=100)))
    return [_standing(board, model, value, rank) for model, value, rank in base.ranked(valued)]


def _standing(board: Category, model: dict[str, Any], value: float, rank: int) -> Standing:
    creator = documents.table(model.get("model_creator") or {}, "model_creator")
    pricing = documents.table(model.get("pricing") or {}, "pricing")
    performance = documents.table(model.get("performance") or {}, "performance")
    return Standing(
        board=board,
        external_key=documents.text(model["id"], "id"),
        key_kind=KEY_KIND,
        name=documents.text(model.get("name"), "name"),
        organization=documents.optional_text(creator.get("name")),
        rank=rank,
        value=value,
        facts={
            "slug": documents.optional_text(model.get("slug")),
            "tokens_per_second": documents.positive(performance.get("median_output_tokens_per_second")),
            "first_token_seconds": documents.positive(performance.get("median_time_to_first_token_seconds")),
            "input_usd": _price(pricing.get("price_1m_input_tokens")),
            "output_usd": _price(pricing.get("price_1m_output_tokens")),
        },
    )


def _price(value: Any) -> float | None:
    """Return US dollars per million tokens. 0 is free; a number below 0 is not a price."""
    price = documents.optional(value)
    return price if price is not None and price >= 0 else None


def figures(placement: Placement) -> StandingFigures:
    facts = placement.facts
    return StandingFigures(
        precision=PRECISION,
        overall=placement.value,
        quality=placement.value,
        tokens_per_second=facts.get("tokens_per_second"),
        first_token_seconds=facts.get("first_token_seconds"),
        input_dollars=facts.get("input_usd"),
        output_dollars=facts.get("output_usd"),
    )


SPEC = FetchedSourceSpec(
    source=Source.ARTIFICIAL_ANALYSIS,
    title="Artificial Analysis",
    home_url="https://artificialanalysis.ai",
    cadence=timedelta(hours=12),
    age_max=timedelta(hours=48),
    base_url=environment.text("GATEWAY_AA_BASE_URL", "https://artificialanalysis.ai/api/v2"),
    key=environment.text("GATEWAY_AA_API_KEY"),
    key_headers=lambda key: {"x-api-key": key},
    needs_key=True,
    boards=BOARDS,
    rows_min=100,
    is_conditional=True,
    read=read,
    figures=figures,
    short_name="aa",
    half_life_hours=168,
    weight=0.35,
    is_compared=True,
)
