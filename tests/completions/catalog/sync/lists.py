"""A provider that lists its models: a server on loopback, entries in OpenRouter's and OpenAI's shapes, and rows."""

import json
from typing import Any

from completions.models import CatalogProposal, LanguageModel, Price, Provider, Route
from tests import factories
from tests.document_server import DocumentServer, Reply, reply

OLD_PRICE: dict[str, str | None] = {"input": "3.00", "output": "15.00", "cached_input": "0.30"}


class ListServer(DocumentServer):
    """Sends lists of models."""

    @property
    def url(self) -> str:
        return f"{self.origin}/v1"

    def lists(self, *entries: dict[str, Any], **headers: str) -> None:
        """Send these entries to every request."""
        self.will(listing(*entries, **headers))


def listing(*entries: dict[str, Any], **headers: str) -> Reply:
    return reply(json.dumps({"data": entries}), **headers)  # type: ignore[arg-type]


def entry(model_id: str = "acme/large", **changed: Any) -> dict[str, Any]:
    """Return a model as OpenRouter lists it. By default it agrees with acme/large in the tests' catalog."""
    fine = {
        "id": model_id,
        "canonical_slug": f"{model_id}-20260422",
        "hugging_face_id": "",
        "name": "Acme: Large",
        "created": 1,
        "context_length": 128_000,
        "architecture": {"modality": "text->text", "input_modalities": ["text"], "output_modalities": ["text"]},
        "pricing": {"prompt": "0.000003", "completion": "0.000015", "input_cache_read": "0.0000003", "image": "0"},
        "top_provider": {"context_length": 128_000, "max_completion_tokens": 4_096, "is_moderated": False},
        "per_request_limits": None,
        "supported_parameters": ["max_tokens", "temperature"],
        "expiration_date": None,
    }
    return {**fine, **changed}


def bare(model_id: str) -> dict[str, Any]:
    """Return a model as OpenAI lists it."""
    return {"id": model_id, "object": "model", "created": 1721172741, "owned_by": "acme"}


def priced(model_id: str = "acme/large", **changed: Any) -> dict[str, Any]:
    """An entry with other prices; None removes one."""
    pricing = {**entry()["pricing"], **changed}
    return entry(model_id, pricing={name: value for name, value in pricing.items() if value is not None})


# --- Rows -----------------------------------------------------------------------------------------------------------


def make_provider(lists: ListServer, slug: str = "barn", **fields: Any) -> Provider:
    return factories.make_provider(slug, kind="openai", **{"base_url": lists.url, "sync": "propose", **fields})


def make_model(provider: Provider, model_id: str = "acme/large", **fields: Any) -> LanguageModel:
    terms = {"input": "3.00", "output": "15.00", "cached_input": "0.30", "upstream_model": model_id}
    return factories.make_model(model_id, provider=provider, **{**terms, **fields})


def catalog() -> list[list[tuple[Any, ...]]]:
    """Return every row of the catalog."""
    return [list(table.objects.order_by("pk").values_list()) for table in (Provider, LanguageModel, Price, Route)]


def proposed(state: str = "pending") -> list[tuple[str, str | None, dict[str, Any], dict[str, Any]]]:
    """The kind, model, old and new values of every proposal in this state."""
    found = CatalogProposal.objects.filter(state=state).order_by("pk")
    return [(each.kind, each.model_id, each.old, each.new) for each in found]
