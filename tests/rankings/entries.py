"""Makes published rankings without sources or a formula."""

from datetime import UTC, datetime
from typing import Any

from completions.models import Category, LanguageModel
from gateway_project.web import public_page
from rankings.api import replies, views
from rankings.models import Entry, Publication, Source
from rankings.pages import views as pages
from rankings.publishing import listing
from tests import factories

UPDATED = datetime(2026, 11, 20, 12, tzinfo=UTC)


def list_model(
    model_id: str,
    *,
    rank: int,
    source: str = Source.INTERNAL,
    board: str = Category.GENERAL,
    board_rank: int = 0,
    model: dict[str, Any] | None = None,
    **fields: Any,
) -> Entry:
    """Create an entry, and its model if there is none."""
    if not LanguageModel.objects.filter(pk=model_id).exists():
        factories.make_model(model_id, **(model or {}))
    defaults = {"overall": 100.0 - rank, "confidence": 0.5, "last_updated": UPDATED}
    return Entry.objects.create(
        source=source, board=board, model_id=model_id, rank=rank, board_rank=board_rank or rank, **{**defaults, **fields}
    )


def publish() -> None:
    """Publish what was listed, and empty the caches."""
    number = (Publication.objects.values_list("number", flat=True).first() or 0) + 1
    Publication.objects.update_or_create(pk=1, defaults={"number": number})
    forget()


def forget() -> None:
    for cache in (listing._published, listing._catalog, replies._batches, views._parsed_queries):
        cache.clear()


def forget_pages() -> None:
    public_page.forget()
    pages._facts.clear()
