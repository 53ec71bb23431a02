"""OPENROUTER: how many tokens each model processed in seven days. A measure of popularity. Off without a key.

Its list of models is read because it links names to repositories of the Hub. It is not republished.
"""

from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from completions.models import Category
from gateway_project.text import ascii_numbers
from rankings import environment
from rankings.models import Source, Standing
from rankings.sources import base, documents
from rankings.sources.base import FetchedSnapshot, FetchedSourceSpec, Placement, SourceRun, StandingFigures
from rankings.sources.documents import ImplausibleData, SourceClient

# None: of everything. The others are samples, and weekly.
BOARDS = {Category.GENERAL: None, Category.CODING: "programming", Category.CREATIVE: "roleplay"}
KEY_KIND = "canonical_slug"
DAYS = 7
MODELS_MIN = 100
# Sums of seven days hardly move without a few rows. Without more than a tenth of them some model may lack whole days.
BAD_ROWS_SHARE_MAX = 0.1
PRICE_USD_MAX = 1_000  # of a token
PAGES_MAX = 20
OTHER = "other"  # the sum of all models below the first fifty of a day
PRECISION_COUNTED, PRECISION_SAMPLED = 0.9, 0.6
ATTRIBUTION = "Source: OpenRouter (openrouter.ai/rankings), as of {as_of}."


def read(run: SourceRun) -> FetchedSnapshot:
    names = _Names(_models(run.client))
    last_day = datetime.now(UTC).date() - timedelta(days=1)
    notes: list[str] = []
    doubts: list[str] = []

    def read_board(board: Category) -> tuple[datetime, str, list[Standing]]:
        body, about = _tokens_body(run.client, last_day, BOARDS[board]), BOARDS[board] or "everything"
        meta = documents.table(body.get("meta"), "meta")
        moment = _moment(meta.get("as_of"))
        version = documents.optional_text(meta.get("version"), characters_max=40)
        listed = documents.items(body.get("data"), "data")
        run.client.say(f"{about}: {len(listed)} rows")
        rows, errors = [], []
        for item in listed:
            try:
                rows.append(_token_row(item, last_day))
            except ImplausibleData as error:
                errors.append(error)
        if errors:
            note = f"{len(errors)} of {len(listed)} rows of {about} are left out, the first because {errors[0]}"
            (doubts if len(errors) > BAD_ROWS_SHARE_MAX * len(listed) else notes).append(note)
        return moment, version, _board(board, rows, names)

    found, stopped = base.read_boards(BOARDS, read_board)
    as_of = min(moment for moment, _, _ in found.values())
    return FetchedSnapshot(
        standings=[row for _, _, rows in found.values() for row in rows],
        as_of=as_of,
        version=next(version for _, version, _ in found.values()),
        attribution=ATTRIBUTION.format(as_of=f"{as_of:%Y-%m-%d}"),
        notes=notes,
        doubt="; ".join(doubts),
        stopped=stopped,
    )


def _models(client: SourceClient) -> list[dict[str, Any]]:
    """Return every model. Older replies have no ``links`` and hold all models."""
    found: list[dict[str, Any]] = []
    for page in range(PAGES_MAX):
        offset = {"offset": len(found), "limit": 1_000} if page else {}
        body = documents.table(client.get("/models", **offset).json(), "the models")
        listed = documents.rows(body.get("data"), "data")
        found += listed
        client.say(f"{len(found)} models")
        if not documents.table(body.get("links") or {}, "links").get("next"):
            break
        if not listed:
            raise ImplausibleData("a page of models is empty, but not the last one")
    else:
        raise ImplausibleData(f"there are more than {PAGES_MAX} pages of models")
    if len(found) < MODELS_MIN:
        raise ImplausibleData(f"{len(found)} models are fewer than {MODELS_MIN}")
    return found


class _Names:
    """Looks names up in the list of models. Of several models with one canonical slug, the one without a variant counts."""

    def __init__(self, models: list[dict[str, Any]]) -> None:
        self._by_id = {documents.text(model.get("id"), "id"): model for model in models}
        self._by_slug: dict[str, dict[str, Any]] = {}
        for model in sorted(models, key=lambda model: ":" in model["id"]):
            if not _is_alias_or_router(model["id"]):
                self._by_slug.setdefault(_bare(documents.text(model.get("canonical_slug"), "canonical_slug")), model)

    def canonical(self, permaslug: str) -> str | None:
        """Return the name under which tokens are summed; None for routers and for aliases without a target."""
        slug = _bare(permaslug)
        if slug.startswith("~"):
            target = documents.table(self._by_id.get(slug, {}).get("alias_target") or {}, "alias_target").get("slug")
            slug = _bare(documents.optional_text(target)) or slug
        if _is_alias_or_router(slug):
            return None
        model = None if slug in self._by_slug else self._by_id.get(slug)
        return _bare(model["canonical_slug"]) if model else slug

    def facts(self, slug: str) -> dict[str, Any]:
        model = self._by_slug.get(slug, {})
        pricing = documents.table(model.get("pricing") or {}, "pricing")
        return {
            "id": _bare(model.get("id", "")),
            "hf_repo": documents.optional_text(model.get("hugging_face_id")),
            "input_usd": _price(pricing.get("prompt")),
            "output_usd": _price(pricing.get("completion")),
        }


def _bare(slug: str) -> str:
    return slug.partition(":")[0]


def _is_alias_or_router(slug: str) -> bool:
    return slug.startswith(("~", "openrouter/"))


def _price(value: Any) -> str | None:
    """Return US dollars per million tokens from a text in dollars per token. None if unknown, which the source writes as -1."""
    try:
        price = ascii_numbers.decimal(value) if isinstance(value, str) and len(value) < 40 else Decimal(-1)
    except ValueError:
        return None
    is_price = 0 <= price <= PRICE_USD_MAX and price.as_tuple().exponent >= -40  # type: ignore[operator]
    return f"{(price * 1_000_000).normalize():f}" if is_price else None


def _tokens_body(client: SourceClient, last_day: date, category: str | None) -> dict[str, Any]:
    query: dict[str, str] = {"start_date": str(last_day - timedelta(days=DAYS - 1)), "end_date": str(last_day)}
    query |= {"category": category, "period": "week"} if category else {"period": "day"}
    return documents.table(client.get("/datasets/rankings-daily", **query).json(), "the rankings")


def _token_row(row: Any, last_day: date) -> tuple[str, int]:
    """Return the name and the tokens of a row. Raises ImplausibleData.

    A day that is not over has fewer tokens than the others. A model of the first fifty of a day has some.
    """
    row = documents.table(row, "an item of data")
    if _day(row.get("date")) > last_day:
        raise ImplausibleData(f"date is {row['date']!r:.30}, which is not over")
    name = documents.text(row.get("model_permaslug"), "model_permaslug")
    tokens: Any = row.get("total_tokens")
    is_count = isinstance(tokens, str) and tokens.isascii() and tokens.isdigit() and len(tokens) <= 20
    if not is_count or not int(tokens):
        raise ImplausibleData(f"total_tokens is {tokens!r:.30}")
    return name, int(tokens)


def _day(value: Any) -> date:
    try:
        return date.fromisoformat(documents.text(value, "date")[:10])
    except ValueError:
        raise ImplausibleData(f"date is {value!r:.30}") from None


def _board(board: Category, rows: list[tuple[str, int]], names: _Names) -> list[Standing]:
    tokens: dict[str, int] = defaultdict(int)
    for permaslug, count in rows:
        slug = None if permaslug == OTHER else names.canonical(permaslug)
        if slug is not None:
            tokens[slug] += count
    return [
        Standing(
            board=board,
            external_key=slug,
            key_kind=KEY_KIND,
            name=slug.rpartition("/")[2],
            organization=slug.partition("/")[0],
            rank=rank,
            value=value,
            facts={"tokens": str(tokens[slug]), "is_sampled": BOARDS[board] is not None, **names.facts(slug)},
        )
        for slug, value, rank in base.ranked([(slug, float(count)) for slug, count in tokens.items()])
    ]


def _moment(value: Any) -> datetime:
    try:
        moment = datetime.fromisoformat(documents.text(value, "as_of"))
    except ValueError:
        raise ImplausibleData("as_of is not a time") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def figures(placement: Placement) -> StandingFigures:
    """The score is the tokens as a share of the most used model's. OpenRouter's prices must not be published."""
    share = placement.value / placement.best_value if placement.best_value > 0 else 0.0
    precision = PRECISION_SAMPLED if placement.facts.get("is_sampled") else PRECISION_COUNTED
    return StandingFigures(precision=precision, overall=100 * share)


SPEC = FetchedSourceSpec(
    source=Source.OPENROUTER,
    title="OpenRouter",
    home_url="https://openrouter.ai/rankings",
    license=base.CC_BY,
    base_url=environment.text("GATEWAY_OPENROUTER_BASE_URL", "https://openrouter.ai/api/v1"),
    key=environment.text("GATEWAY_OPENROUTER_API_KEY"),
    needs_key=True,
    boards=BOARDS,
    rows_min=20,  # fifty a day have a row, mostly the same ones
    is_conditional=False,
    read=read,
    figures=figures,
    short_name="openrouter",
    half_life_hours=72,
    weight=0,  # how much a model is used is no evidence of how good it is
)
