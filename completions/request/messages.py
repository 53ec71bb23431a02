"""Checks the messages of a chat request and counts what they contain. Raises InvalidRequest, whose ``param`` is the part. Pure.

Adapters rely on the following and do not check it again. A message is an object with a role of ROLES.

``content``  a string or an array of parts; absent only in a message of the assistant that has tool calls, a function call, a
  refusal or audio instead; an empty array only in a message of the assistant
parts  of the user: text, image_url, input_audio, file; of the assistant: text, refusal; of the other roles: text
``image_url.url``  a data URL of a base64-encoded image, or an https address where the operator lets providers fetch it
``input_audio``  data as a string, and a format of AUDIO_FORMATS
``file.file_data``  a string that is not an address; ``file_id`` and ``file_url`` are never there
``tool_calls``  of the assistant, absent or an array: each has an id, and a function with a name and arguments as a string, or,
  if its type is custom, a custom call with a name and input as a string; an absent type means function
``reasoning_details``  absent or an array of objects, DETAILS_MAX in all messages
``function_call``  of the assistant, absent or with a name and arguments as a string
``tool_call_id``  of a tool: a string; ``name`` of a function: a string
"""

import re
from collections.abc import Callable
from itertools import islice
from typing import Any

from completions.chat import Contents
from completions.request import media, prompt, remote_images
from completions.request.fields import Fields, check_array, check_name, check_object, check_string, read_required, refuse

_FIELDS_NOTED_MAX = 50
DETAILS_MAX = 1_024  # of reasoning, in all messages: to open the seal of one takes 50 microseconds
_PAUSE_MESSAGES, _PAUSE_PARTS = 256, 2_048  # so many take a few milliseconds
_PAUSE_URL_CHARACTERS = 250_000  # of an image
_ROLE_AND_CONTENT = frozenset({"role", "content"})
_INSTEAD_OF_CONTENT = ("tool_calls", "function_call", "refusal", "audio")  # in a message of the assistant

ROLES = ("developer", "system", "user", "assistant", "tool", "function")
AUDIO_FORMATS = ("wav", "mp3", "flac", "opus", "pcm16", "aac", "aiff", "m4a", "ogg")
IMAGE_DETAILS = ("auto", "low", "high", "original")
# Matching holds up all other requests of the worker, and the data may be megabytes: the data is matched without backtracking.
_BASE64 = re.compile(r"[A-Za-z0-9+/]++={0,2}")


def no_pause() -> None:
    pass


def check(
    messages: list[Any],
    *,
    images_max: int,
    allow_remote_images: bool,
    fetched_schemes: tuple[str, ...] = (),
    pause: Callable[[], None] = no_pause,
) -> Contents:
    """Return what the messages contain. ``fetched_schemes``: of images that the gateway fetches. Raises InvalidRequest."""
    checker = _Checker(images_max, allow_remote_images, fetched_schemes, pause)
    for index, message in enumerate(messages):
        if index % _PAUSE_MESSAGES == _PAUSE_MESSAGES - 1:
            pause()
        checker.check_message(message, f"messages[{index}]")
    return checker.contents()


def message_text(message: Fields) -> str:
    """Return the text of a checked message: its content, or the text and refusal parts of it joined."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text") or part.get("refusal") or "") for part in content)


def as_reminder(text: str) -> str:
    """Return a later instruction as text of the user, in the tag of Anthropic's agent, for models that take it only first."""
    return f"<system-reminder>\n{text}\n</system-reminder>"


class _Checker:
    """Checks and counts in one pass, because a prompt may be megabytes long."""

    def __init__(
        self, images_max: int, allow_remote_images: bool, fetched_schemes: tuple[str, ...], pause: Callable[[], None]
    ) -> None:
        self._images_max, self._allow_remote_images = images_max, allow_remote_images
        self._fetched_schemes, self._pause = fetched_schemes, pause
        self._remote_images: list[tuple[str, str]] = []
        self._text_bytes = self._prompt_tokens_max = self._images = self._details = 0
        self._image_at = self._file_at = ""
        self._wants_hour_cache = False
        self._message_fields: set[str] = set()
        self._is_quoted = False  # of the message that is being checked: whether templates write its content as JSON

    def contents(self) -> Contents:
        return Contents(
            text_bytes=self._text_bytes,
            images=self._images,
            image_at=self._image_at,
            file_at=self._file_at,
            prompt_tokens_max=self._prompt_tokens_max,
            message_fields=frozenset(self._message_fields),
            remote_images=tuple(self._remote_images),
            wants_hour_cache=self._wants_hour_cache,
        )

    def check_message(self, message: Any, path: str) -> None:
        role = read_required(check_object(message, path), "role", path)
        if role not in ROLES:
            refuse(f"{path}.role", f"must be one of {', '.join(ROLES)}")
        content = message.get("content")
        self._is_quoted = role in ("tool", "function")
        self._prompt_tokens_max += prompt.MESSAGE_TOKENS
        if isinstance(content, str):
            self._count_content(content)
        elif isinstance(content, list):
            self._check_parts(content, role, f"{path}.content")
        elif content is not None:
            refuse(f"{path}.content", "must be a string or an array of parts")
        elif role != "assistant" or not any(message.get(name) for name in _INSTEAD_OF_CONTENT):
            refuse(f"{path}.content", "is required")
        if role == "assistant":
            self._check_assistant(message, path)
        elif role == "tool":
            check_string(read_required(message, "tool_call_id", path), f"{path}.tool_call_id")
        elif role == "function":
            check_string(read_required(message, "name", path), f"{path}.name")
        if message.get("name") is not None:
            check_string(message["name"], f"{path}.name")
        if message.get("reasoning_details") is not None:
            details = check_array(message["reasoning_details"], f"{path}.reasoning_details")
            self._details += len(details)
            if self._details > DETAILS_MAX:
                refuse(
                    f"{path}.reasoning_details", f"must have at most {DETAILS_MAX} details with those of the messages before"
                )
            for index, detail in enumerate(details):
                check_object(detail, f"{path}.reasoning_details[{index}]")
        if others := prompt.others(message, _ROLE_AND_CONTENT):
            self._prompt_tokens_max += prompt.count_json(others)
            self._note_fields(others, role)
            self._wants_hour_cache = self._wants_hour_cache or prompt.wants_hour_cache(others)

    def _check_assistant(self, message: Fields, path: str) -> None:
        if message.get("refusal") is not None:
            self._count_text(check_string(message["refusal"], f"{path}.refusal"))
        if message.get("tool_calls") is not None:
            for index, call in enumerate(check_array(message["tool_calls"], f"{path}.tool_calls")):
                self._check_tool_call(call, f"{path}.tool_calls[{index}]")
        if message.get("function_call") is not None:
            self._check_function(message["function_call"], f"{path}.function_call")

    def _check_tool_call(self, call: Any, path: str) -> None:
        check_string(read_required(check_object(call, path), "id", path), f"{path}.id")
        kind = call.get("type") or "function"
        if "cache_control" in call:
            self._wants_hour_cache = self._wants_hour_cache or prompt.wants_hour_cache(call)
        if kind not in ("function", "custom"):
            refuse(f"{path}.type", "must be function or custom")
        arguments_field = "arguments" if kind == "function" else "input"
        self._check_function(read_required(call, kind, path), f"{path}.{kind}", arguments_field)

    def _check_function(self, function: Any, path: str, arguments_field: str = "arguments") -> None:
        self._count_text(check_name(read_required(check_object(function, path), "name", path), f"{path}.name"))
        arguments = read_required(function, arguments_field, path)
        self._count_text(check_string(arguments, f"{path}.{arguments_field}"))

    def _check_parts(self, parts: list[Any], role: str, path: str) -> None:
        if not parts and role != "assistant":
            refuse(path, "must not be empty")
        for index, part in enumerate(parts):
            if index % _PAUSE_PARTS == _PAUSE_PARTS - 1:
                self._pause()
            self._check_part(part, role, f"{path}[{index}]")

    def _check_part(self, part: Any, role: str, path: str) -> None:
        kind = read_required(check_object(part, path), "type", path)
        allowed = _PARTS.get(role, _TEXT_ONLY)
        if not isinstance(kind, str) or kind not in allowed:
            refuse(f"{path}.type", f"must be {' or '.join(allowed)} in a message of this role")
        allowed[kind](self, part, path)
        self._prompt_tokens_max += prompt.PART_TOKENS
        if others := prompt.others(part, {"type", kind}):
            self._prompt_tokens_max += prompt.count_json(others)
            self._wants_hour_cache = self._wants_hour_cache or prompt.wants_hour_cache(others)

    def _check_text(self, part: Fields, path: str) -> None:
        name = part["type"]
        self._count_content(check_string(read_required(part, name, path), f"{path}.{name}"))

    def _check_image(self, part: Fields, path: str) -> None:
        image_path = f"{path}.image_url"
        image = check_object(read_required(part, "image_url", path), image_path)
        url = check_string(read_required(image, "url", image_path), f"{image_path}.url")
        is_remote = self._allow_remote_images and url.startswith("https://") and url.isprintable()
        if self._fetched_schemes and url.startswith(self._fetched_schemes):
            if len(url) > remote_images.ADDRESS_CHARACTERS_MAX or not url.isprintable():
                refuse(f"{image_path}.url", f"must be an address of at most {remote_images.ADDRESS_CHARACTERS_MAX} characters")
            self._remote_images.append((f"{image_path}.url", url))
        elif not (is_remote or _is_image(url, f"{image_path}.url")):
            may_be_remote = self._allow_remote_images or self._fetched_schemes
            suffix = " or an https:// address" if may_be_remote else "; images are not fetched from addresses"
            refuse(f"{image_path}.url", f"must be a data URL of a base64-encoded image (data:image/png;base64,...){suffix}")
        if image.get("detail") not in (None, *IMAGE_DETAILS):
            refuse(f"{image_path}.detail", f"must be one of {', '.join(IMAGE_DETAILS)}")
        self._images += 1
        if len(url) > _PAUSE_URL_CHARACTERS:
            self._pause()
        if others := prompt.others(image, {"detail"} if is_remote else {"url", "detail"}):
            self._prompt_tokens_max += prompt.count_json(others)
        if not prompt.IMAGE_SIZE_FIELDS.isdisjoint((*part, *image)):
            self._file_at = self._file_at or image_path  # any number of tokens, as in a file
        if self._images > self._images_max:
            refuse(image_path, f"is one image too many: a request may have {self._images_max}")
        self._image_at = self._image_at or image_path

    def _check_audio(self, part: Fields, path: str) -> None:
        audio_path = f"{path}.input_audio"
        audio = check_object(read_required(part, "input_audio", path), audio_path)
        check_string(read_required(audio, "data", audio_path), f"{audio_path}.data")
        if read_required(audio, "format", audio_path) not in AUDIO_FORMATS:
            refuse(f"{audio_path}.format", f"must be one of {', '.join(AUDIO_FORMATS)}")
        self._file_at = self._file_at or audio_path

    def _check_file(self, part: Fields, path: str) -> None:
        file_path = f"{path}.file"
        file = check_object(read_required(part, "file", path), file_path)
        if file.get("file_id") is not None:
            refuse(f"{file_path}.file_id", "is not supported: files are not kept here; send the file itself as file_data")
        if file.get("file_url") is not None:  # some providers would fetch it, and nothing bounds its tokens
            refuse(f"{file_path}.file_url", "is not supported: files are not fetched from addresses; send it as file_data")
        data = check_string(read_required(file, "file_data", file_path), f"{file_path}.file_data")
        if ":" in data and data[:5].lower() != "data:":  # an address, which some providers would fetch
            refuse(f"{file_path}.file_data", "must be the file itself, as a data URL; files are not fetched from addresses")
        self._file_at = self._file_at or file_path

    def _count_content(self, text: str) -> None:
        text_bytes = prompt.count_text(text)
        self._text_bytes += text_bytes
        self._prompt_tokens_max += prompt.count_quoted(text) if self._is_quoted else text_bytes

    def _note_fields(self, others: Fields, role: str) -> None:
        if len(self._message_fields) < _FIELDS_NOTED_MAX:  # the caller may invent any number
            names = (name for name in others if name != "name" or role != "function")  # there it is the call that is answered
            self._message_fields.update(islice(names, _FIELDS_NOTED_MAX))

    def _count_text(self, text: str) -> None:
        """Count text for the estimate only; the field that it is in counts for the prompt as a whole."""
        self._text_bytes += prompt.count_text(text)


_PartCheck = Callable[[_Checker, Fields, str], None]
_TEXT_ONLY: dict[str, _PartCheck] = {"text": _Checker._check_text}
_PARTS: dict[str, dict[str, _PartCheck]] = {
    "user": {
        **_TEXT_ONLY,
        "image_url": _Checker._check_image,
        "input_audio": _Checker._check_audio,
        "file": _Checker._check_file,
    },
    "assistant": {**_TEXT_ONLY, "refusal": _Checker._check_text},
}


def _is_image(url: str, path: str) -> bool:
    """Return whether an address is a data URL of an image in base64. Raises InvalidRequest about an unknown type of image."""
    kind, data = media.read_data_url(url) or ("", "")
    if kind.startswith("image/") and kind not in media.IMAGE_TYPES:
        refuse(path, f"must be an image of one of {', '.join(sorted(media.IMAGE_TYPES))}")
    return kind.startswith("image/") and _BASE64.fullmatch(data) is not None
