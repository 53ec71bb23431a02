"""Translates OpenAI's messages into Gemini's: instructions apart, contents that alternate between user and model. Pure.

``completions.request.messages`` has checked the shape of every message. Refused here, with InvalidRequest, is what Gemini does
not take: custom tools, some audio formats, images and files that are not data with a media type, arguments that are not a JSON
object, and a result whose call is not in the conversation.
"""

from collections.abc import Callable
from typing import Any

from completions.providers import wire
from completions.request.fields import Fields, refuse

Part = dict[str, Any]
Content = dict[str, Any]
Signatures = Callable[[Fields], list[Fields]]  # returns the signatures of a message's thoughts, each with the id of its call

_AUDIO_FORMATS = ("wav", "mp3", "aiff", "aac", "ogg", "flac")
# Google's own placeholder, for a call that another maker's model made or whose signature the client has lost. Since Gemini 3 a
# turn whose first call has no signature is refused with 400 (ai.google.dev/gemini-api/docs/thought-signatures).
_UNSIGNED = "skip_thought_signature_validator"


def instructions(messages: list[Fields]) -> list[Part]:
    """Return the text of all system and developer messages: Gemini takes instructions in one place only."""
    return [part for path, message in wire.instructions(messages) for part in _content(message, path)]


def conversation(messages: list[Fields], *, signs_calls: bool, signatures_of: Signatures | None = None) -> list[Content]:
    """Return all other messages; consecutive ones of one role become one content.

    ``signs_calls``: whether the model wants signatures on calls of tools.
    """
    signatures: dict[str | None, str] = {}  # by the id of the call; None: that of the text of the message
    contents: list[Content] = []
    function_names: dict[str, str] = {}  # by the id of the call
    for path, message in wire.conversation(messages):
        if signatures_of:
            signatures.pop(None, None)
            signatures |= {given["call"]: given["signature"] for given in signatures_of(message)}
        role, parts = _translate(message, path, function_names, signatures, signs_calls)
        if contents and contents[-1]["role"] == role:
            contents[-1]["parts"] += parts
        elif parts:
            contents.append({"role": role, "parts": parts})
    if not contents:
        refuse("messages", "must have a message with content that is not an instruction")
    return contents


def _translate(
    message: Fields, path: str, function_names: dict[str, str], signatures: dict[str | None, str], signs_calls: bool
) -> tuple[str, list[Part]]:
    """Return the role of the content that the message belongs to, and its parts. Adds its calls to ``function_names``."""
    match message["role"]:
        case "assistant":
            # A signature of text comes last in a stream, in a part that has no text. So it may be sent back.
            signed = [{"text": "", "thoughtSignature": signatures[None]}] if None in signatures else []
            calls = _calls(message, path, function_names, signatures, signs_calls)
            return "model", _content(message, path) + signed + calls
        case "tool":
            return "user", [_result(message, path, _called_function(message, path, function_names))]
        case "function":
            return "user", [_result(message, path, message["name"])]
        case _:
            return "user", _content(message, path)


# --- Content ----------------------------------------------------------------------------------------------------


def _content(message: Fields, path: str) -> list[Part]:
    """Return the content of a message as parts, without empty text, which Gemini refuses."""
    content = message.get("content") or []
    if isinstance(content, str):
        return [{"text": content}]
    parts = (_part(part, f"{path}.content[{index}]") for index, part in enumerate(content))
    return [part for part in parts if part.get("text") != ""]


def _part(part: Fields, path: str) -> Part:
    match part["type"]:
        case "image_url":
            return _inline_data(part["image_url"]["url"], f"{path}.image_url.url")
        case "input_audio":
            return _audio(part["input_audio"], f"{path}.input_audio")
        case "file":
            return _inline_data(part["file"]["file_data"], f"{path}.file.file_data")
        case kind:
            return {"text": part[kind]}  # "text" or "refusal"


def _audio(audio: Fields, path: str) -> Part:
    if audio["format"] not in _AUDIO_FORMATS:
        refuse(f"{path}.format", f"must be one of {', '.join(_AUDIO_FORMATS)} for this model")
    return {"inlineData": {"mimeType": f"audio/{audio['format']}", "data": audio["data"]}}


def _inline_data(url: str, path: str) -> Part:
    """Return the data in a data URL. An address is refused: Google would fetch it, and nothing is fetched for callers."""
    head, _, data = url.partition(",")
    scheme, _, description = head.partition(":")
    media_type, *parameters = description.split(";")
    if scheme.lower() != "data" or "base64" not in parameters or "/" not in media_type:
        refuse(path, "must be a data URL in base64 that names its media type, for this model")
    return {"inlineData": {"mimeType": media_type, "data": data}}


# --- Tools ------------------------------------------------------------------------------------------------------


def _calls(
    message: Fields, path: str, function_names: dict[str, str], signatures: dict[str | None, str], signs_calls: bool
) -> list[Part]:
    parts = []
    for index, call in enumerate(message.get("tool_calls") or []):
        call_path = f"{path}.tool_calls[{index}]"
        if (call.get("type") or "function") != "function":
            refuse(f"{call_path}.type", "must be function for this model")
        function_names[call["id"]] = call["function"]["name"]
        parts.append({**_call(call["function"], f"{call_path}.function"), **_signature(call, signatures)})
    if message.get("function_call") is not None:  # OpenAI's older field, for one call
        parts.append(_call(message["function_call"], f"{path}.function_call"))
    if parts and signs_calls:
        parts[0].setdefault("thoughtSignature", _UNSIGNED)  # of parallel calls only the first is signed
    return parts


def _call(function: Fields, path: str) -> Part:
    arguments = wire.parse_arguments(function["arguments"], f"{path}.arguments")
    return {"functionCall": {"name": function["name"], "args": arguments}}


def _signature(call: Fields, signatures: dict[str | None, str]) -> Part:
    """Return the signature of the thinking before the call, which the caller received, with the call too, and sends back."""
    extra = call.get("extra_content")
    google = extra.get("google") if isinstance(extra, dict) else None
    signature = google.get("thought_signature") if isinstance(google, dict) else None
    signature = signatures.get(call["id"]) or signature
    return {"thoughtSignature": signature} if isinstance(signature, str) and signature else {}


def _result(message: Fields, path: str, function_name: str) -> Part:
    """Return the result of a call. Gemini takes an object, so that other text is wrapped in one."""
    text = "".join(part["text"] for part in _content(message, path))
    response = wire.parse_json_object(text)
    return {"functionResponse": {"name": function_name, "response": {"output": text} if response is None else response}}


def _called_function(message: Fields, path: str, function_names: dict[str, str]) -> str:
    name = function_names.get(message["tool_call_id"])
    if name is None:
        refuse(f"{path}.tool_call_id", "must be the id of a tool call in an earlier message")
    return name
