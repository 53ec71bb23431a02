"""Seals a model's reasoning into the reply. The caller keeps the seal, and the provider gets its content in the next turn.

A seal is one string with everything that the provider needs: the text beside the seal may be lost. ENCRYPTION_KEYS encrypt it
for one account, one kind of provider and one model. Where a provider encrypts reasoning for itself alone, the
seal is for this provider only: any other would refuse the content with a 400. Elsewhere the seal cannot be opened; the request
is sent without it, and the reply names it among the ignored fields.

Messages and deltas of chat carry seals in ``reasoning_details``, in OpenRouter's shape: as the ``signature`` of a text, or as
``data`` where there is no text. ``reasoning`` and ``reasoning_content`` are two other names of the text.
"""

import json
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from completions.chat import Call
from completions.request.fields import Fields
from gateway_project import secretbox
from gateway_project.text import compact_json

FIELDS = frozenset({"reasoning", "reasoning_content", "reasoning_details"})  # of a message
Seal = Callable[[Fields], str]
Open = Callable[[Fields], list[Fields]]  # returns what was sealed into a message, such as blocks with their places in a reply
_PREFIX = "sealed."
_TAKING_TEXT = ("openai",)  # kinds of providers whose models want their reasoning back as it was shown
_OF_ONE_PROVIDER = ("openai-responses",)  # kinds whose providers encrypt it: no other one can read it


def seal(call: Call, given: Fields) -> str:
    """Return what the provider of this call is to get back, sealed."""
    packed = zlib.compress(compact_json.dumps_ascii(given))
    return _PREFIX + secretbox.encrypt_bytes(packed, purpose=_purpose(call))


def seal_text(call: Call, text: str) -> str:
    """Return the text of reasoning, sealed; "" where the provider does not take it back, or there is none."""
    return seal(call, {"text": text}) if text and call.route.kind in _TAKING_TEXT else ""


def is_sealed(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(_PREFIX) and value.isascii()


def secrets(message: Fields) -> list[Any]:
    """Return what only a provider can read of a message or delta, each once: some clients repeat the details with each call."""
    found: dict[Any, Any] = {}
    for detail in message.get("reasoning_details") or ():
        if isinstance(detail, dict) and (value := detail.get("signature") or detail.get("data")):
            found[value if isinstance(value, str) else id(value)] = value
    return list(found.values())


def seals(message: Fields) -> list[str]:
    return [value for value in secrets(message) if is_sealed(value)]


def opened(call: Call, message: Fields) -> list[Fields]:
    """Return what is in the seals of a message that are this account's, and of this kind of provider and this model."""
    return [given for each in seals(message) if (given := _open(call, each)) is not None]


def carried_fields(call: Call) -> frozenset[str]:
    """Return the fields of messages about reasoning, if each message with any has seals that can all be opened; else none."""
    if call.request.contents.message_fields.isdisjoint(FIELDS):
        return frozenset()
    return FIELDS if all(_is_carried(call, message) for message in call.request.messages) else frozenset()


def _is_carried(call: Call, message: Fields) -> bool:
    if not any(message.get(name) for name in FIELDS):
        return True
    given = secrets(message)
    return bool(given) and len(opened(call, message)) == len(given)


def _open(call: Call, sealed: str) -> Fields | None:
    """Open a seal, or return what was in it: to open one takes 50 microseconds, and several places ask."""
    if sealed not in call.opened_seals:
        call.opened_seals[sealed] = None
        with suppress(secretbox.Unreadable):
            packed = secretbox.decrypt_bytes(sealed.removeprefix(_PREFIX), purpose=_purpose(call))
            call.opened_seals[sealed] = json.loads(zlib.decompress(packed))
    given: Fields | None = call.opened_seals[sealed]
    return given


def _purpose(call: Call) -> str:
    kind = call.route.kind
    provider = f"{kind}:{call.route.provider_slug}" if kind in _OF_ONE_PROVIDER else kind
    return f"reasoning:{call.account_id}:{provider}:{call.offer.model_id}"


def text_members(text: str, form: str, index: int = 0) -> Fields:
    """Return what a model shows of its reasoning, under all its names. ``form`` says in OpenRouter's words whose it is."""
    return {"reasoning_content": text, "reasoning": text, "reasoning_details": [text_detail(text, form, index)]}


def text_detail(text: str, form: str, index: int, sealed: str = "") -> Fields:
    signature = {"signature": sealed} if sealed else {}
    return {"type": "reasoning.text", "text": text, **signature, "format": form, "index": index}


def signature_detail(sealed: str, form: str, index: int) -> Fields:
    """Return the end of a text that was told in pieces."""
    return {"type": "reasoning.text", "signature": sealed, "format": form, "index": index}


def hidden_detail(sealed: str, form: str, index: int, call_id: str | None = None) -> Fields:
    """Return what has no text. It may belong to a call of a tool."""
    detail = {"type": "reasoning.encrypted", "data": sealed, "format": form, "index": index}
    return detail if call_id is None else {**detail, "id": call_id}


# --- The place of reasoning in a reply ----------------------------------------------------------------------------------
#
# Some providers take it in no other. A place is the number of characters, and of calls of tools, that come before.


class PlacedReasoning:
    """Seals the pieces of reasoning of one reply, one after another."""

    def __init__(self, seal: Seal | None) -> None:
        self.index = 0  # of the piece, among its kind
        self._seal = seal
        self._at = (0, 0)

    def begin(self, at: tuple[int, int]) -> None:
        self._at = at

    def _sealed(self, given: Fields) -> str:
        return self._seal({**given, "at": self._at}) if self._seal else ""


def place(
    said: list[Fields],
    reasoning: list[Fields],
    member: str,
    text_of: Callable[[Fields], str | None],
    with_text: Callable[[Fields, str, bool], Fields],
) -> list[Fields]:
    """Return the pieces of a reply with its reasoning in between. Reasoning at the end is left out: providers refuse it.

    ``member`` has the reasoning, beside its place. ``text_of`` returns None for a call. ``with_text`` returns a part of a text,
    and is told whether it is the last one.
    """
    placed, left, characters, calls = list[Fields](), list(reasoning), 0, 0
    for piece in said:
        text, start = text_of(piece), characters
        if text is None:
            while left and left[0]["at"][1] <= calls:
                placed.append(left.pop(0)[member])
            calls += 1
            placed.append(piece)
            continue
        characters += len(text)
        while left and left[0]["at"][1] <= calls and (at := max(left[0]["at"][0], start)) < characters:
            placed += [with_text(piece, text[: at - start], False)] if at > start else []
            text, start = text[at - start :], at
            placed.append(left.pop(0)[member])
        placed.append(with_text(piece, text, True))
    return placed
