"""GET /v1/models, and one model, in Anthropic's shape, for clients that send ``anthropic-version``. Pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC

from completions.catalog.lookup import Listing
from completions.request.fields import Fields, read_limit, refuse

LIMIT_DEFAULT, LIMIT_MAX = 20, 1_000


def page(listings: Sequence[Listing], parameters: Mapping[str, str]) -> Fields:
    """Return the page, with its ends, that ``limit`` and ``after_id`` or ``before_id`` ask for. Raises InvalidRequest."""
    ids, limit = [listing.id for listing in listings], read_limit(parameters, LIMIT_DEFAULT, LIMIT_MAX)
    first, last = 0, len(ids)
    if "after_id" in parameters:
        first = _place(ids, parameters["after_id"], "after_id") + 1
    if "before_id" in parameters:
        last = _place(ids, parameters["before_id"], "before_id")
        shown = range(max(first, last - limit), max(first, last))
        has_more = shown.start > first
    else:
        shown = range(first, min(first + limit, last))
        has_more = shown.stop < last
    data = [model_object(listings[index]) for index in shown]
    ends = {"first_id": data[0]["id"] if data else None, "last_id": data[-1]["id"] if data else None}
    return {"data": data, "has_more": has_more, **ends}


def model_object(listing: Listing) -> Fields:
    model = listing.model
    return {
        "type": "model",
        "id": listing.id,
        "display_name": model.name,
        "created_at": model.created_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
        "max_input_tokens": model.context_window,
        "max_tokens": model.max_output_tokens,
    }


def _place(ids: list[str], model_id: str, name: str) -> int:
    if model_id not in ids:
        refuse(name, "must be the id of a model that is listed")
    return ids.index(model_id)
