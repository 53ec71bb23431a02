"""Compaction: a model sums a conversation up, and its caller continues from the sealed summary instead of the conversation.

A request asks for it with ``compaction_trigger`` as its last item, as Codex does, or at POST /v1/responses/compact, as OpenAI's
SDKs do. It is a completion as any other: the model is asked for a summary, and the tokens are charged. ENCRYPTION_KEYS seal the
summary for the account. In a later input the item becomes a message of the user, for every model. Pure.
"""

import zlib
from collections.abc import Callable
from typing import Any
from uuid import UUID

import msgspec

from completions.inbound.events import as_json
from completions.inbound.responses.output import Output
from completions.request.fields import Fields
from gateway_project import secretbox

TRIGGER, ITEM = "compaction_trigger", "compaction"
ITEMS_MAX = 100  # of an input: only the last is news, and to open the seal of one takes 50 microseconds
PROMPT = (
    "Sum this conversation up. Your summary will stand in its place: the model that continues reads it and what the user "
    "wrote, and nothing else. State what the user wants and every instruction that still holds; what was done, decided and "
    "found out, with names, paths, figures, commands and errors word for word; how things stand now; and what is left to do, "
    "in order. Reply with the summary alone, and call no tool."
)
_INTRODUCTION = "The conversation so far was replaced by this summary of it:\n\n"
_PREFIX = "compacted."


def seal_summary(account_id: UUID, summary: str) -> str:
    packed = zlib.compress(summary.encode(errors="replace"))
    return _PREFIX + secretbox.encrypt_bytes(packed, purpose=_purpose(account_id))


def open_summary(account_id: UUID | None, sealed: str) -> str | None:
    """Return the text of a summary for the model; None if it was sealed elsewhere, or for another account."""
    if account_id is None or not (sealed.startswith(_PREFIX) and sealed.isascii()):
        return None
    try:
        packed = secretbox.decrypt_bytes(sealed.removeprefix(_PREFIX), purpose=_purpose(account_id))
    except secretbox.Unreadable:
        return None
    return _INTRODUCTION + zlib.decompress(packed).decode()


def is_asked_for(items: Any) -> bool:
    last = items[-1] if isinstance(items, list) and items else None
    return isinstance(last, dict) and last.get("type") == TRIGGER


def messages_of_user(items: list[Any]) -> msgspec.Raw:
    """Return the messages of the user, as JSON: they stay in a compacted conversation, as they came."""
    kept = [item for item in items if isinstance(item, dict) and item.get("role") == "user"]
    return msgspec.Raw(as_json([{"type": "message", **item} for item in kept]))


def _purpose(account_id: UUID) -> str:
    return f"compaction:{account_id}"


class CompactionOutput(Output):
    """The output of such a request: one item with all that the model writes, sealed. Its reasoning is not part of it."""

    def __init__(self, name: str, seal: Callable[[str], str]) -> None:
        super().__init__(name, {})
        self._id, self._seal = f"cmp_{name}0", seal
        self._written: list[str] = []
        self._sealed: Fields | None = None

    def read(self, choice: Fields) -> list[Fields]:
        self._written.append((choice.get("delta") or {}).get("content") or "")
        if choice.get("finish_reason"):
            super().read({"finish_reason": choice["finish_reason"]})
        return []

    def end(self) -> list[Fields]:
        begun = {"id": self._id, "type": ITEM, "encrypted_content": ""}
        return [
            {"type": f"response.output_item.{what}", "output_index": 0, "item": item}
            for done in self.items()
            for what, item in (("added", begun), ("done", done))
        ]

    def items(self, *, is_cut: bool = False) -> list[Fields]:
        """Return the item; none if the model wrote no text, or its reply broke off."""
        summary = "".join(self._written).strip()
        if is_cut or not summary:
            return []
        self._sealed = self._sealed or {"id": self._id, "type": ITEM, "encrypted_content": self._seal(summary)}
        return [self._sealed]

    def kept_items(self) -> list[Fields]:
        return self.items()
