"""Translates OpenAI's messages into Gemini's: instructions apart, contents that alternate between user and model. Pure.

``completions.request.messages`` has checked the shape of every message. Refused here, with InvalidRequest, is what Gemini does
not take: custom tools, some audio formats, images and files that are not data with a media type, arguments that are not a JSON
object, and a result whose call is not in the conversation.
"""

from typing import Any

from completions.providers import call_ids, sealed_reasoning, wire
from completions.request import media
from completions.request.fields import Fields, refuse

OWN_ID = "gemini_"  # begins the ids of calls that callers get: so one is known to be Gemini's own when it comes back
# Syntax in functionResponse.response: "output" and "error" are then all of it (ai.google.dev/api/caching#FunctionResponse), and
# any $ref names a part with a file (github.com/router-for-me/CLIProxyAPI/issues/6065, github.com/vercel/ai/issues/14369).
_RESULT_SYNTAX = ("output", "error")
# It is a protobuf Struct: its numbers are doubles, and each level takes three of the hundred that a message may have
# (protobuf.dev/reference/protobuf/google.protobuf/#struct, protobuf.dev/programming-guides/proto-limits).
_EXACT_MAX = 2**53
_RESULT_LEVELS_MAX = 30
# ai.google.dev/gemini-api/docs/image-understanding and document-processing; no GIF: github.com/microsoft/vscode/issues/286628.
_MEDIA_TYPES = (*(f"image/{kind}" for kind in ("png", "jpeg", "webp", "heic", "heif")), "application/pdf", "application/json")
_MEDIA_KINDS = ("text/", "audio/", "video/")
_AUDIO_FORMATS = ("wav", "mp3", "aiff", "aac", "ogg", "flac")
# Google's own placeholder, for a call that another maker's model made or whose signature the client has lost. Since Gemini 3 a
# turn whose first call has no signature is refused with 400 (ai.google.dev/gemini-api/docs/thought-signatures).
_UNSIGNED = "skip_thought_signature_validator"


def instructions(messages: list[Fields]) -> list[Fields]:
    """Return the text of all system and developer messages: Gemini takes instructions in one place only."""
    return [
        part for path, message in wire.with_paths(messages, are_instructions=True) for part in wire.parts(message, path, _part)
    ]


def conversation(
    messages: list[Fields], *, signs_calls: bool, takes_ids: bool = False, signatures_of: sealed_reasoning.Open | None = None
) -> list[Fields]:
    """Return all other messages; consecutive ones of one role become one content, with results in the order of the calls."""
    reader = _Reader(signs_calls, takes_ids, signatures_of)
    contents: list[Fields] = []
    for turn in call_ids.tie(wire.with_paths(messages, are_instructions=False), call_ids.ANY):
        said = [reader.translate(message, path) for path, message in turn.messages]
        said += [("user", reader.results(turn))] if turn.results else []
        for role, parts in said:
            if contents and contents[-1]["role"] == role:
                contents[-1]["parts"] += parts
            elif parts:
                contents.append({"role": role, "parts": parts})
    if not contents:
        refuse("messages", "must have a message with content that is not an instruction")
    return contents


class _Reader:
    """Reads the messages in their order. Signatures are kept from the message that has them to what they belong to."""

    def __init__(self, signs_calls: bool, takes_ids: bool, signatures_of: sealed_reasoning.Open | None) -> None:
        self._signs_calls, self._takes_ids, self._signatures_of = signs_calls, takes_ids, signatures_of
        self._signatures: dict[str | None, str] = {}  # by the id of the call; None: that of the text of the message

    def translate(self, message: Fields, path: str) -> tuple[str, list[Fields]]:
        """Return the role of the content that the message belongs to, and its parts."""
        if self._signatures_of:
            self._signatures |= {given["call"]: given["signature"] for given in self._signatures_of(message)}
        match message["role"]:
            case "assistant":
                # A signature of text comes last in a stream, in a part that has no text. So it may be sent back.
                signature = self._signatures.pop(None, "")
                signed = [{"text": "", "thoughtSignature": signature}] if signature else []
                return "model", wire.parts(message, path, _part) + signed + self._calls(message, path)
            case "tool":
                refuse(f"{path}.tool_call_id", "must be the id of a tool call in an earlier message, which has no other result")
            case "function":
                return "user", [{"functionResponse": {"name": message["name"], **_response(message, path)}}]
        return "user", wire.parts(message, path, _part)

    def results(self, turn: call_ids.Turn) -> list[Fields]:
        """Return the results of a reply. Gemini refuses fewer than there are calls, and would take one for another's."""
        for index, (path, _) in enumerate(turn.calls):
            if index not in turn.results:
                refuse(f"{path}.id", "must have a result, as other calls of the reply have one, for this model")
        return [
            {"functionResponse": {**self._own_id(call), "name": call["function"]["name"], **_response(message, path)}}
            for (_, call), (_, path, message) in zip(turn.calls, turn.ordered_results, strict=True)
        ]

    def _calls(self, message: Fields, path: str) -> list[Fields]:
        parts = []
        for index, call in enumerate(message.get("tool_calls") or []):
            call_path = f"{path}.tool_calls[{index}]"
            if (call.get("type") or "function") != "function":
                refuse(f"{call_path}.type", "must be function for this model")
            called = {**self._own_id(call), **_called(call["function"], f"{call_path}.function")}
            parts.append({"functionCall": called, **self._signature(call)})
        if message.get("function_call") is not None:  # OpenAI's older field, for one call
            parts.append({"functionCall": _called(message["function_call"], f"{path}.function_call")})
        if parts and self._signs_calls:
            parts[0].setdefault("thoughtSignature", _UNSIGNED)  # of parallel calls only the first is signed
        return parts

    def _own_id(self, call: Fields) -> Fields:
        is_own = self._takes_ids and call["id"].startswith(OWN_ID)
        return {"id": call["id"].removeprefix(OWN_ID)} if is_own else {}

    def _signature(self, call: Fields) -> Fields:
        """Return the signature of the thinking before the call, which the caller got with the call, too, and sends back."""
        extra = call.get("extra_content")
        google = extra.get("google") if isinstance(extra, dict) else None
        signature = google.get("thought_signature") if isinstance(google, dict) else None
        signature = self._signatures.pop(call["id"], "") or signature
        return {"thoughtSignature": signature} if isinstance(signature, str) and signature else {}


def _part(part: Fields, path: str) -> Fields:
    match part["type"]:
        case "image_url":
            return _inline_data(part["image_url"]["url"], f"{path}.image_url.url")
        case "input_audio":
            audio = part["input_audio"]
            if audio["format"] not in _AUDIO_FORMATS:
                refuse(f"{path}.input_audio.format", f"must be one of {', '.join(_AUDIO_FORMATS)} for this model")
            return {"inlineData": {"mimeType": f"audio/{audio['format']}", "data": audio["data"]}}
        case "file":
            return _inline_data(part["file"]["file_data"], f"{path}.file.file_data")
        case kind:
            return {"text": part[kind]}  # "text" or "refusal"


def _inline_data(url: str, path: str) -> Fields:
    """Return the data in a data URL. An address is refused: Google would fetch it, and nothing is fetched for callers."""
    found = media.read_data_url(url)
    if found is None:
        refuse(path, "must be a data URL in base64 that names its media type, for this model")
    if found[0] not in _MEDIA_TYPES and not found[0].startswith(_MEDIA_KINDS):
        refuse(path, f"must be of {', '.join(_MEDIA_TYPES)}, or text, sound or film, for this model")
    return {"inlineData": {"mimeType": found[0], "data": found[1]}}


def _called(function: Fields, path: str) -> Fields:
    return {"name": function["name"], "args": wire.parse_arguments(function["arguments"], f"{path}.arguments")}


def _response(message: Fields, path: str) -> Fields:
    """Return the result of a call. Gemini takes an object: text is wrapped, and so is what it would not read as data."""
    text = "".join(part["text"] for part in wire.parts(message, path, _part))
    found = wire.parse_json_object(text)
    is_data = found is not None and (len(found) < 2 or found.keys().isdisjoint(_RESULT_SYNTAX)) and _is_plain(found)
    return {"response": found if is_data else {"output": text}}


def _is_plain(value: Any, levels: int = _RESULT_LEVELS_MAX) -> bool:
    """Return whether a value reaches Gemini as it is: without references, and within what its format can carry."""
    if isinstance(value, dict):
        return levels > 0 and "$ref" not in value and all(_is_plain(each, levels - 1) for each in value.values())
    if isinstance(value, list):
        return levels > 0 and all(_is_plain(each, levels - 1) for each in value)
    return type(value) is not int or abs(value) <= _EXACT_MAX
