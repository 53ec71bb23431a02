"""The messages of a chat request: JSON in, what is in them counted, or InvalidRequest whose ``param`` names the part. Pure."""

import re
from collections.abc import Callable
from typing import Any

from completions.chat import Contents
from completions.request.fields import Fields, a_name, a_string, an_array, an_object, refuse, required

ROLES = ("developer", "system", "user", "assistant", "tool", "function")
AUDIO_FORMATS = ("wav", "mp3", "flac", "opus", "pcm16", "aac", "aiff", "m4a", "ogg")
IMAGE_DETAILS = ("auto", "low", "high", "original")
# Megabytes are matched while others wait: it never goes back, and the data are not looked at for their case.
_DATA_URL = re.compile(r"(?i:data:image/[a-z0-9.+-]{1,40};base64,)[A-Za-z0-9+/]++={0,2}")


def check(messages: list[Any], *, images_max: int, remote_images: bool) -> Contents:
    """What is in the messages. ``remote_images`` lets through image URLs that the provider would fetch; we never do."""
    walk = _Walk(images_max, remote_images)
    for index, message in enumerate(messages):
        walk.message(message, f"messages[{index}]")
    return Contents(walk.text_bytes, walk.images, walk.image_at, walk.file_at, walk.image_bytes)


def text(message: Fields) -> str:
    """What a message that was checked says in words."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text") or part.get("refusal") or "") for part in content)


class _Walk:
    """Through all messages once: a prompt may be megabytes long."""

    def __init__(self, images_max: int, remote_images: bool) -> None:
        self._images_max, self._remote_images = images_max, remote_images
        self.text_bytes = self.images = self.image_bytes = 0
        self.image_at = self.file_at = ""

    def message(self, message: Any, path: str) -> None:
        role = required(an_object(message, path), "role", path)
        if role not in ROLES:
            refuse(f"{path}.role", f"must be one of {', '.join(ROLES)}")
        content = message.get("content")
        if isinstance(content, str):
            self._text(content)
        elif isinstance(content, list):
            self._parts(content, role, f"{path}.content")
        elif content is not None:
            refuse(f"{path}.content", "must be a string or an array of parts")
        elif role != "assistant" or not _says_otherwise(message):
            refuse(f"{path}.content", "is required")
        if role == "assistant":
            self._assistant(message, path)
        elif role == "tool":
            a_string(required(message, "tool_call_id", path), f"{path}.tool_call_id")
        elif role == "function":
            a_string(required(message, "name", path), f"{path}.name")
        if message.get("name") is not None:
            a_string(message["name"], f"{path}.name")

    def _assistant(self, message: Fields, path: str) -> None:
        if message.get("refusal") is not None:
            self._text(a_string(message["refusal"], f"{path}.refusal"))
        if message.get("tool_calls") is not None:
            for index, call in enumerate(an_array(message["tool_calls"], f"{path}.tool_calls")):
                self._tool_call(call, f"{path}.tool_calls[{index}]")
        if message.get("function_call") is not None:
            self._function(message["function_call"], f"{path}.function_call")

    def _tool_call(self, call: Any, path: str) -> None:
        a_string(required(an_object(call, path), "id", path), f"{path}.id")
        kind = call.get("type") or "function"
        if kind not in ("function", "custom"):
            refuse(f"{path}.type", "must be function or custom")
        called_with = "arguments" if kind == "function" else "input"
        self._function(required(call, kind, path), f"{path}.{kind}", called_with)

    def _function(self, function: Any, path: str, called_with: str = "arguments") -> None:
        self._text(a_name(required(an_object(function, path), "name", path), f"{path}.name"))
        self._text(a_string(required(function, called_with, path), f"{path}.{called_with}"))

    # --- Parts ------------------------------------------------------------------------------------------------------

    def _parts(self, parts: list[Any], role: str, path: str) -> None:
        if not parts and role != "assistant":
            refuse(path, "must not be empty")
        for index, part in enumerate(parts):
            self._part(part, role, f"{path}[{index}]")

    def _part(self, part: Any, role: str, path: str) -> None:
        kind = required(an_object(part, path), "type", path)
        allowed = _PARTS.get(role, _TEXT_ONLY)
        if not isinstance(kind, str) or kind not in allowed:
            refuse(f"{path}.type", f"must be {' or '.join(allowed)} in a message of this role")
        allowed[kind](self, part, path)

    def _text_part(self, part: Fields, path: str) -> None:
        self._text(a_string(required(part, "text", path), f"{path}.text"))

    def _refusal_part(self, part: Fields, path: str) -> None:
        self._text(a_string(required(part, "refusal", path), f"{path}.refusal"))

    def _image_part(self, part: Fields, path: str) -> None:
        path = f"{path}.image_url"
        image = an_object(required(part, "image_url", path.removesuffix(".image_url")), path)
        url = a_string(required(image, "url", path), f"{path}.url")
        is_remote = self._remote_images and url.startswith("https://") and url.isprintable()
        if not (is_remote or _DATA_URL.fullmatch(url)):
            or_address = " or an https:// address" if self._remote_images else "; images are not fetched from addresses"
            refuse(f"{path}.url", f"must be a data URL of a base64-encoded image (data:image/png;base64,...){or_address}")
        if image.get("detail") not in (None, *IMAGE_DETAILS):
            refuse(f"{path}.detail", f"must be one of {', '.join(IMAGE_DETAILS)}")
        self.images += 1
        self.image_bytes += 0 if is_remote else len(url)
        if self.images > self._images_max:
            refuse(path, f"is one image too many: a request may have {self._images_max}")
        self.image_at = self.image_at or path

    def _audio_part(self, part: Fields, path: str) -> None:
        audio = an_object(required(part, "input_audio", path), f"{path}.input_audio")
        a_string(required(audio, "data", f"{path}.input_audio"), f"{path}.input_audio.data")
        if required(audio, "format", f"{path}.input_audio") not in AUDIO_FORMATS:
            refuse(f"{path}.input_audio.format", f"must be one of {', '.join(AUDIO_FORMATS)}")
        self.file_at = self.file_at or f"{path}.input_audio"

    def _file_part(self, part: Fields, path: str) -> None:
        file = an_object(required(part, "file", path), f"{path}.file")
        if file.get("file_id") is not None:
            refuse(f"{path}.file.file_id", "is not supported: files are not kept here; send the file itself as file_data")
        data = a_string(required(file, "file_data", f"{path}.file"), f"{path}.file.file_data")
        if ":" in data and data[:5].lower() != "data:":  # an address, from which some providers would fetch it
            refuse(f"{path}.file.file_data", "must be the file itself, as a data URL; files are not fetched from addresses")
        self.file_at = self.file_at or f"{path}.file"

    def _text(self, text: str) -> None:
        self.text_bytes += len(text) if text.isascii() else len(text.encode())


_Check = Callable[[_Walk, Fields, str], None]
_TEXT_ONLY: dict[str, _Check] = {"text": _Walk._text_part}
_PARTS: dict[str, dict[str, _Check]] = {
    "user": {
        **_TEXT_ONLY,
        "image_url": _Walk._image_part,
        "input_audio": _Walk._audio_part,
        "file": _Walk._file_part,
    },
    "assistant": {**_TEXT_ONLY, "refusal": _Walk._refusal_part},
}


def _says_otherwise(message: Fields) -> bool:
    """An assistant that called a function, or refused, may have said nothing."""
    return any(message.get(name) for name in ("tool_calls", "function_call", "refusal", "audio"))
