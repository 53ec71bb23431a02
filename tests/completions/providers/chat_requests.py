"""Chat requests as the adapters receive them: checked by ``completions.request.schema``."""

from typing import Any

from completions.chat import ChatRequest
from completions.request import schema

HELLO = {"role": "user", "content": "Hello"}


def make_request(*messages: dict[str, Any], **fields: Any) -> ChatRequest:
    """Return a checked request. Raises InvalidRequest for one that no adapter would receive."""
    body = {"model": "acme/large", "messages": list(messages or [HELLO]), **fields}
    return schema.parse(body)
