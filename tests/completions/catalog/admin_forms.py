"""What the forms of models and providers post."""

from django.urls import reverse

from completions.models import LanguageModel


def url(noun: str, action: str, *args: object) -> str:
    return reverse(f"admin:completions_{noun}_{action}", args=args)


def provider_fields(**changed: object) -> dict[str, object]:
    return {"base_url": "http://gpu-shed:8001/v1", "is_enabled": "on", "sync": "off", **changed}


def model_fields(model: LanguageModel, **changed: object) -> dict[str, object]:
    routes = [
        {
            "id": route.pk,
            "model": model.pk,
            "provider": route.provider_id,
            "upstream_model": route.upstream_model,
            "api": route.api,
            "priority": route.priority,
            "weight": route.weight,
            "is_enabled": "on",
        }
        for route in model.routes.all()
    ]
    return {
        "name": model.name,
        "maker": model.maker,
        "kind": model.kind,
        "category": model.category,
        "is_enabled": "on",
        "context_window": model.context_window,
        "max_output_tokens": model.max_output_tokens,
        "image_tokens_max": model.image_tokens_max,
        "routes-TOTAL_FORMS": len(routes),
        "routes-INITIAL_FORMS": len(routes),
        "prices-TOTAL_FORMS": 1,
        "prices-INITIAL_FORMS": 1,
        "prices-0-id": model.prices.get().pk,
        "prices-0-model": model.pk,
        **{f"routes-{index}-{name}": value for index, route in enumerate(routes) for name, value in route.items()},
        **changed,
    }
