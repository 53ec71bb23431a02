"""The models that a key may use. The catalog is another app's."""

from collections.abc import Collection

from gateway_project import app_config

MODELS_MAX = 100
MODEL_CHARACTERS_MAX = 200  # of the column


def unknown(ids: Collection[str]) -> list[str]:
    """Return those of ``ids`` that are no model and no alias."""
    known = {model_id for app in app_config.installed() for model_id in app.known_models(ids)}
    return [model_id for model_id in ids if model_id not in known]
