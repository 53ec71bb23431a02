"""OpenAI's messages -> Gemini's: instructions apart, turns of ``user`` and ``model`` that alternate, all of it in parts. Pure.

Raises InvalidRequest, whose ``param`` names the part, for what Gemini has no part for.
"""

from collections.abc import Callable
from typing import Any

from completions.providers import wire
from completions.providers.gemini import fields
from completions.providers.gemini.fields import Fields
from gateway_project import errors

Part = dict[str, Any]
Content = dict[str, Any]

_INSTRUCTING = ("system", "developer")
_AUDIO_FORMATS = ("wav", "mp3", "aiff", "aac", "ogg", "flac")
# Google's word for a call that no Gemini made, or whose client has lost the signature. Since Gemini 3 the first call of a turn
# without any is refused with 400 (ai.google.dev/gemini-api/docs/thought-signatures).
_UNSIGNED = "skip_thought_signature_validator"


def instructions(messages: list[Fields]) -> list[Part]:
    """All that system and developer messages say, wherever they stand: Gemini takes instructions in one place."""
    numbered = ((f"messages[{index}].", message) for index, message in enumerate(messages))
    return [
        part for path, message in numbered if message.get("role") in _INSTRUCTING for part in _content(message, path, ("text",))
    ]


def conversation(messages: list[Fields], *, signs_calls: bool) -> list[Content]:
    """The conversation: messages of one speaker in a row are one content. ``signs_calls``: the model wants calls signed."""
    turns: list[Content] = []
    names: dict[str, str] = {}  # of functions, by the ids of their calls
    for index, message in enumerate(messages):
        if message.get("role") in _INSTRUCTING:
            continue
        role, parts = _spoken(message, f"messages[{index}].", names, signs_calls)
        if turns and turns[-1]["role"] == role:
            turns[-1]["parts"] += parts
        elif parts:
            turns.append({"role": role, "parts": parts})
    return turns


def _spoken(message: Fields, path: str, names: dict[str, str], signs_calls: bool) -> tuple[str, list[Part]]:
    role = fields.one_of(message, "role", ("user", "assistant", "tool", "function"), path)
    if role == "user":
        return "user", _content(message, path, ("text", "image_url", "input_audio", "file"))
    if role == "assistant":
        return "model", _content(message, path, ("text", "refusal")) + _calls(message, path, names, signs_calls)
    return "user", [_result(message, path, names, role)]


# --- Content ----------------------------------------------------------------------------------------------------


def _content(message: Fields, path: str, allowed: tuple[str, ...]) -> list[Part]:
    """Parts of a string, of parts of the ``allowed`` types, or of nothing. Empty text, which is refused, is left out."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"text": content}] if content else []
    parts = [
        _READERS[fields.one_of(part, "type", allowed, part_path)](part, part_path)
        for part_path, part in fields.tables(message, "content", path)
    ]
    return [part for part in parts if part.get("text") != ""]


def _text(part: Fields, path: str) -> Part:
    return {"text": fields.text(part, "text", path)}


def _refusal(part: Fields, path: str) -> Part:
    return {"text": fields.text(part, "refusal", path)}


def _image(part: Fields, path: str) -> Part:
    image = fields.table(part, "image_url", path)
    return _inline(image, "url", f"{path}image_url.")


def _audio(part: Fields, path: str) -> Part:
    audio, path = fields.table(part, "input_audio", path), f"{path}input_audio."
    spoken_as = fields.one_of(audio, "format", _AUDIO_FORMATS, path)
    return {"inlineData": {"mimeType": f"audio/{spoken_as}", "data": fields.text(audio, "data", path)}}


def _file(part: Fields, path: str) -> Part:
    return _inline(fields.table(part, "file", path), "file_data", f"{path}file.")


def _inline(holder: Fields, name: str, path: str) -> Part:
    """The data in a URL. One that would have to be fetched is refused: nothing is fetched for callers."""
    head, _, data = fields.text(holder, name, path).partition(",")
    scheme, _, described = head.partition(":")
    media_type, *parameters = described.split(";")
    if scheme.lower() != "data" or "base64" not in parameters or "/" not in media_type:
        raise errors.wrong(f"{path}{name}", "must be a data URL in base64 that names its media type, for this model")
    return {"inlineData": {"mimeType": media_type, "data": data}}


_READERS: dict[str, Callable[[Fields, str], Part]] = {
    "text": _text,
    "refusal": _refusal,
    "image_url": _image,
    "input_audio": _audio,
    "file": _file,
}


# --- Tools ------------------------------------------------------------------------------------------------------


def _calls(message: Fields, path: str, names: dict[str, str], signs_calls: bool) -> list[Part]:
    parts = []
    for call_path, call in fields.tables(message, "tool_calls", path):
        if (call.get("type") or "function") != "function":
            raise errors.wrong(f"{call_path}type", "must be function for this model")
        part = _call(fields.table(call, "function", call_path), f"{call_path}function.")
        names[fields.text(call, "id", call_path)] = part["functionCall"]["name"]
        parts.append({**part, **_signature(call)})
    if message.get("function_call") is not None:  # as they were before there were several
        parts.append(_call(fields.table(message, "function_call", path), f"{path}function_call."))
    if parts and signs_calls:
        parts[0].setdefault("thoughtSignature", _UNSIGNED)  # of parallel calls, the first alone is signed
    return parts


def _call(function: Fields, path: str) -> Part:
    name = fields.text(function, "name", path)
    arguments = wire.parse_json_object(fields.text(function, "arguments", path) or "{}")
    if arguments is None:
        raise errors.wrong(f"{path}arguments", "must be the text of a JSON object")
    return {"functionCall": {"name": name, "args": arguments}}


def _signature(call: Fields) -> Part:
    """What the model thought before the call, sealed by it: given to the caller with the call, and expected back."""
    extra = call.get("extra_content")
    google = extra.get("google") if isinstance(extra, dict) else None
    signature = google.get("thought_signature") if isinstance(google, dict) else None
    return {"thoughtSignature": signature} if isinstance(signature, str) and signature else {}


def _result(message: Fields, path: str, names: dict[str, str], role: str) -> Part:
    written = "".join(part["text"] for part in _content(message, path, ("text",)))
    response = wire.parse_json_object(written)
    name = _name(message, path, names) if role == "tool" else fields.text(message, "name", path)
    return {"functionResponse": {"name": name, "response": {"output": written} if response is None else response}}


def _name(message: Fields, path: str, names: dict[str, str]) -> str:
    name = names.get(fields.text(message, "tool_call_id", path))
    if name is None:
        raise errors.wrong(f"{path}tool_call_id", "must be the id of a tool call in an earlier message")
    return name
