"""The models that a key may use. The catalog is another app's, which lists the ids (``desk.known_models``)."""

from collections.abc import Collection

from gateway_project import contributions

MODELS_MAX = 100
MODEL_CHARACTERS_MAX = 200  # of the column


def unknown(ids: Collection[str]) -> list[str]:
    """Return those of ``ids`` that are no model and no alias."""
    known = {model_id for find in contributions.collect("desk.known_models", "KNOWN") for model_id in find(ids)}
    return [model_id for model_id in ids if model_id not in known]
