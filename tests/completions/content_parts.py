"""Parts of messages other than text, and models to send them to."""

from typing import Any

from completions.models import LanguageModel
from tests import factories

IMAGE_URL = "data:image/png;base64,iVBORw0KGgo="
IMAGE: dict[str, Any] = {"type": "image_url", "image_url": {"url": IMAGE_URL}}
SOUND = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
PDF: dict[str, Any] = {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0="}}


def question_with(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, *parts]}]


def make_sibling_model(model_id: str, large: LanguageModel, **fields: Any) -> LanguageModel:
    """Create a model at the provider of ``large``, with its own id as the upstream's name."""
    return factories.make_model(model_id, provider=large.routes.get().provider, upstream_model=model_id, **fields)
