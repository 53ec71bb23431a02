"""Inserts images that the gateway fetched into a body, at the places of their addresses. Pure.

Until then a picture of one pixel replaces each image, so that the whole request can be checked before any image is fetched.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from completions.request.fields import Fields

ADDRESS_CHARACTERS_MAX = 8_192
PLACEHOLDER = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
_PATH = re.compile(r"messages\[(\d+)\]\.content\[(\d+)\]\.image_url\.url")


def insert(fields: Fields, found: Sequence[tuple[str, str]], images: Mapping[str, str] | None = None) -> Fields:
    """Return a copy of a chat body with a data URL for each address that was ``found``: from ``images``, else PLACEHOLDER."""
    messages = list(fields["messages"])
    for path, address in found:
        message, part = map(int, _PATH.fullmatch(path).groups())  # type: ignore[union-attr]
        content = list(messages[message]["content"])
        url = PLACEHOLDER if images is None else images[address]
        content[part] = {**content[part], "image_url": {**content[part]["image_url"], "url": url}}
        messages[message] = {**messages[message], "content": content}
    return {**fields, "messages": messages}


def insert_in_blocks(body: Any, images: Mapping[str, str]) -> Any:
    """Return a body of Anthropic's Messages with base64 in place of each address that is in ``images``."""
    return {**body, "messages": [_with_images(message, images) for message in body["messages"]]}


def _with_images(block: Fields, images: Mapping[str, str]) -> Fields:
    source, content = block.get("source"), block.get("content")
    if isinstance(source, dict) and source.get("type") == "url" and source["url"] in images:
        kind, _, data = images[source["url"]].removeprefix("data:").partition(";base64,")
        return {**block, "source": {"type": "base64", "media_type": kind, "data": data}}
    if isinstance(source, dict) and isinstance(source.get("content"), list):  # a document in blocks
        return {**block, "source": _with_images(source, images)}
    if isinstance(content, list):
        return {**block, "content": [_with_images(each, images) for each in content]}
    return block
