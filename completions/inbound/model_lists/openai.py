"""A model in OpenAI's shape, with what OpenRouter adds: prices, limits and capabilities. Pure."""

from typing import Any

from completions.catalog.lookup import Listing
from completions.models import LanguageModel, ModelKind, Route
from completions.pricing import rates
from completions.pricing.meters import METERS, OPENROUTER_NAMES, Meter, Unit
from completions.pricing.rates import RateSheet
from gateway_project.text import dollars


def model_object(listing: Listing) -> dict[str, Any]:
    """Return OpenAI's model object with prices, limits and capabilities. Prices are dollars per token, as strings."""
    model, price = listing.model, listing.price
    inputs = ["text", "image"] if model.image_support else ["text"]
    outputs = ["embeddings"] if model.kind == ModelKind.EMBEDDING else ["text"]
    modalities = {"input_modalities": inputs, "output_modalities": outputs}
    return {
        "id": listing.id,
        "object": "model",
        "created": int(model.created_at.timestamp()),
        "owned_by": model.maker,
        "name": model.name,
        "canonical_slug": model.pk,
        "kind": model.kind,
        "available": listing.is_available,
        "category": model.category,
        "context_window": model.context_window,
        "max_output_tokens": model.max_output_tokens,
        "pricing": {
            **_pricing(price.sheet, rates.STANDARD, 0),
            "service_tiers": {tier: _pricing(price.sheet, tier, 0) for tier in price.sheet.tiers},
        },
        "architecture": {"modality": f"{'+'.join(inputs)}->{'+'.join(outputs)}", **modalities},
        "context_length": model.context_window,
        "top_provider": {
            "context_length": model.context_window,
            "max_completion_tokens": model.max_output_tokens,
            "is_moderated": False,
        },
        "supported_parameters": _supported_parameters(model),
        **dict.fromkeys(("default_parameters", "per_request_limits", "supported_voices")),
        "expiration_date": model.ends_on and model.ends_on.isoformat(),
        "successor": model.successor_id,
        "links": {"details": f"/v1/models/{model.pk}"},
        "capabilities": {"image_support": model.image_support, "function_calling": model.function_calling},
        "commercial_use": model.commercial_use,
        "license": model.license,
        **({"alias_of": model.pk} if listing.alias else {}),
    }


def _pricing(sheet: RateSheet, tier: str, above: int) -> dict[str, Any]:
    """Return dollars for each token, image or search, and those of long prompts. OpenRouter's SDKs refuse null."""
    shown = [meter for meter in METERS if not meter.is_asked_for or sheet.stated(meter.name, tier, above) is not None]
    pricing: dict[str, Any] = {
        OPENROUTER_NAMES.get(meter.name, meter.name): _per_one(meter, sheet.nanos_of(meter.name, tier, above))
        for meter in shown
    }
    if bands := [] if above else sheet.bands(tier):
        pricing["above"] = [{"prompt_tokens": band, **_pricing(sheet, tier, band)} for band in bands]
    return pricing


def _per_one(meter: Meter, nanos: int) -> str:
    if meter.unit is Unit.EACH:
        return dollars.format_plain(nanos)
    return dollars.format_per_one(nanos, meter.unit.number)


def _supported_parameters(model: LanguageModel) -> list[str]:
    """Return what every provider of the model honours, in OpenRouter's words."""
    if model.kind == ModelKind.EMBEDDING:
        return []
    of_tools = ["tools", "tool_choice"] if model.function_calling else []
    of_reasoning = ["reasoning", "reasoning_effort"] if model.reasoning else []
    of_chat = [] if any(route.api == Route.Api.RESPONSES for route in model.enabled_routes) else ["stop"]
    return ["max_tokens", *of_chat, "structured_outputs", *of_tools, *of_reasoning]
