"""Writes that catalog files and catalog proposals share."""

from datetime import datetime

from completions.models import Price
from completions.pricing.rates import RateSheet
from gateway_project.db import cell


def lock_catalog() -> None:
    """Hold the catalog's advisory lock until the transaction ends, so that a second writer sees what the first one wrote."""
    cell.take_turn("completions.catalog")


def set_price(model_id: str, sheet: RateSheet, *, starts_at: datetime | None = None) -> Price:
    """Insert a price, effective now or later. Older rows stay: completions refer to them."""
    return Price.objects.create(model_id=model_id, rates=sheet.rows, **({"effective_from": starts_at} if starts_at else {}))
