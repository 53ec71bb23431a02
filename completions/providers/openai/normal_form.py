"""Brings the choices of OpenAI-compatible providers to one form, the one that the API's documentation promises. Pure.

content             text or null; providers also send a list of parts
reasoning_content   what the model thought; providers also send ``reasoning``, parts of the type ``thinking``, and
                    <think>...</think> and the like (_TAGS) at the start of the content, after white space at most
reasoning           the same text again, in OpenRouter's words, with ``reasoning_details``. Providers that send details have
                    secrets in them, which are sealed
tool_calls          each with an id of its own, a type, and arguments as text, "{}" where there are none; in a stream each with
                    its index, and with its id, its type and its name once; providers omit any of these, and number several
                    calls alike
finish_reason       one of OpenAI's; "tool_calls" when there are tool calls, which some providers call "stop"
"""

import json
from typing import Any

from completions.providers import finish_reasons, sealed_reasoning, wire
from completions.providers.exchange import UnusableResponse, in_band_error
from completions.providers.sealed_reasoning import Seal
from completions.request.fields import Fields
from gateway_project.text import compact_json

FORMAT = "unknown"  # of reasoning, in OpenRouter's words
# What thoughts stand between: those of most models that write their thoughts as text; gpt-oss at Bedrock
# (github.com/promptfoo/promptfoo/pull/9587); Google's endpoint for OpenAI's clients (github.com/wyeeeee/hajimi/pull/292).
_TAGS = {f"<{name}>": f"</{name}>" for name in ("think", "reasoning", "thought")}
_SPACE, _MAX_SPACE = " \t\r\n", 64  # before the opening tag; more of it is content, so what is held back is short
_TEXTS = ("content", "refusal")
_CUT_OFF = ("length", "content_filter")  # finish reasons after which a call may lack its arguments


class ChoiceNormalizer:
    """Normalizes the deltas of a choice in turn, or a message. Raises AttributeError or TypeError for what is neither."""

    def __init__(self, seal: Seal | None = None) -> None:
        self._seal = seal
        self._details: dict[tuple[str, str], str] = {}  # the text of details whose secret has not come, by type and index
        self.tags = _ThoughtTags()
        self._tool_calls: list[_ToolCall] = []
        self._ids: set[str] = set()
        self._places: dict[int, int] = {}  # the index that the provider gave to a tool call -> its index here
        self._function_call: _ToolCall | None = None
        self.has_calls = False
        self.unknown_reason = ""  # the provider's finish reason, if it is in no table

    def message(self, message: Fields) -> Fields:
        """Return a whole message in the normal form."""
        message = self._with_texts(message, is_last=True)
        if message.get("tool_calls"):
            message["tool_calls"] = [self._whole_call(call) for call in message["tool_calls"]]
        return {**message, "role": "assistant", "content": message.get("content")}

    def delta(self, delta: Fields, *, is_last: bool) -> Fields:
        """Return one delta in the normal form. ``is_last``: nothing is held back for the next one."""
        delta = self._with_texts(delta, is_last=is_last)
        if delta.get("role") != "assistant":
            delta.pop("role", None)
        if delta.get("tool_calls"):
            taken: set[int] = set()  # indexes of this delta's tool calls
            calls = [self._streamed_call(call, taken) for call in delta.pop("tool_calls")]
            if told := [call for call in calls if call]:
                delta["tool_calls"] = told
        return delta

    def add_arguments(self, told: Fields, reason: str, *, is_whole: bool = False) -> None:
        """Add those of tools without parameters to the last delta, or to the message, of a choice that ends for this reason."""
        if reason in _CUT_OFF:
            return
        if not all([call.name for call in self._tool_calls]):
            raise UnusableResponse("a call has no name")
        if self._function_call and self._function_call.lacks_arguments:
            told["function_call"] = {**(told.get("function_call") or {}), "arguments": "{}"}
        calls = told.get("tool_calls") or []
        known = {place if is_whole else call["index"]: call for place, call in enumerate(calls)}
        for index, tool_call in enumerate(self._tool_calls):
            if tool_call.lacks_arguments:
                call = known.get(index) or {"index": index}
                call["function"] = {**(call.get("function") or {}), "arguments": "{}"}
                told["tool_calls"] = calls = calls if index in known else [*calls, call]

    def finish_reason(self, reason: Any) -> str:
        """Return the finish reason in OpenAI's words. Raises InBandError for one that says that the reply is not complete."""
        if reason in finish_reasons.OWN:
            meaning: str = reason
        else:
            meaning, self.unknown_reason = finish_reasons.read(reason, finish_reasons.OPENAI)
        if meaning == finish_reasons.FAILURE:
            raise in_band_error({"error": f"its finish reason is {reason}"})
        if meaning != "stop":
            return meaning
        return "tool_calls" if self._tool_calls else "function_call" if self._function_call else "stop"

    @property
    def is_broken_off(self) -> bool:
        """Whether the arguments of a call are not whole, when no finish reason came: the reply was cut off."""
        calls = [*self._tool_calls, *([self._function_call] if self._function_call else [])]
        return any(call.has_arguments and call.kind == "function" and not call.has_whole_arguments() for call in calls)

    # --- Texts ------------------------------------------------------------------------------------------------------

    def _with_texts(self, message: Fields, *, is_last: bool) -> Fields:
        """Return a copy with text in ``content`` and thoughts in ``reasoning_content``."""
        message = {**message}
        if isinstance(called := message.get("function_call"), dict):
            self._function_call, self.has_calls = self._function_call or _ToolCall("", "function"), True
            self._function_call.add(called)
        thoughts, content = _take_thoughts(message), message.get("content")
        if isinstance(content, list):
            more_thoughts, content = _texts_of_parts(content)
            thoughts += more_thoughts
            message["content"] = content
        for name in _TEXTS:
            if (text := message.get(name)) and type(text) is not str:
                raise TypeError(f"{name} is no text")
        if not self.tags.is_content and (content or thoughts or is_last):
            # A provider that tells thoughts apart itself leaves no tags in the content.
            tagged, text = self.tags.split(content or "", is_last=is_last, has_tags=not thoughts)
            thoughts += tagged
            if text or content:
                message["content"] = text
        details = message.pop("reasoning_details", None)
        if thoughts:
            message |= sealed_reasoning.text_members(thoughts, FORMAT)
        if details and isinstance(details, list):
            message["reasoning_details"] = [self._sealed(detail) for detail in details if isinstance(detail, dict)]
        return message

    def _sealed(self, detail: Fields) -> Fields:
        """Return a detail with its secret sealed, together with the text that it is about."""
        key = (str(detail.get("type")), str(detail.get("index")))
        text = self._details.pop(key, "") + str(detail.get("text") or "")
        for name in ("signature", "data"):
            if detail.get(name):
                whole = {**detail, "text": text} if text else detail
                secret = {name: self._seal({"detail": whole})} if self._seal else {}
                return {**{each: value for each, value in detail.items() if each != name}, **secret}
        self._details[key] = text
        return detail

    # --- Tool calls -------------------------------------------------------------------------------------------------

    def _whole_call(self, call: Fields) -> Fields:
        call = _with_text_arguments(call)
        tool_call = self._begin_call(call)
        called = call[tool_call.kind]
        tool_call.name = called["name"]
        if not (isinstance(tool_call.name, str) and isinstance(called.get("input") or "", str)):
            raise TypeError("a call without a name, or with an input that is no text")
        if tool_call.kind == "function":
            tool_call.add(called)
            called["arguments"] = called.get("arguments") or ""
        return {**call, "id": tool_call.id, "type": tool_call.kind}

    def _begin_call(self, call: Fields) -> "_ToolCall":
        """Add a call. Its id is its own: results of tools are told apart by it."""
        given = str(call.get("id") or "")
        kind = "custom" if isinstance(call.get("custom"), dict) else "function"
        tool_call = _ToolCall(wire.own_id(given, self._ids), kind, given)
        self._tool_calls.append(tool_call)
        self.has_calls = True
        return tool_call

    def _streamed_call(self, call: Fields, taken: set[int]) -> Fields | None:
        """Return the delta of a call; None before its name has come: clients take that from the first delta."""
        call = _with_text_arguments(call)
        called = call.get("function") or call.get("custom") or {}
        call_id, name = str(call.get("id") or ""), called.get("name") or ""
        index = self._index(call.get("index"), call_id, name, taken)
        tool_call = self._begin_call(call) if index == len(self._tool_calls) else self._tool_calls[index]
        taken.add(index)
        if type(call.get("index")) is int:
            self._places[call["index"]] = index
        call["index"] = index
        tool_call.add(called)
        if not tool_call.name:
            call |= {"id": tool_call.id, "type": tool_call.kind}
            if name and tool_call.arguments:
                called["arguments"] = "".join(tool_call.arguments)
        else:  # clients join the texts of all deltas, so these would be there twice
            call = {field: value for field, value in call.items() if field not in ("id", "type")}
            if name in ("", tool_call.name):
                called.pop("name", None)
        if name != tool_call.name:
            tool_call.name += name
        return call if tool_call.name else None

    def _index(self, given: Any, call_id: str, name: str, taken: set[int]) -> int:
        """Return the index of the call of a delta; the next free one begins a call. Some providers give none, or 0 to each."""
        new = len(self._tool_calls)
        if type(given) is int:
            index = self._places.get(given, new)
        elif call_id:
            known_ids = [known.given_id for known in self._tool_calls]
            index = new - 1 - known_ids[::-1].index(call_id) if call_id in known_ids else new
        else:
            index = new if name else max(new - 1, 0)
        if index == new or not name or not (known := self._tool_calls[index]).name:
            return index
        begins_another = (call_id and call_id != known.given_id) or (
            known.has_arguments and (name != known.name or (not known.given_id and known.is_complete()))
        )
        return new if begins_another or index in taken else index


class _ToolCall:
    """A tool call of which deltas arrive. ``given_id`` is the provider's, ``id`` its own."""

    def __init__(self, own_id: str, kind: str, given_id: str = "") -> None:
        self.id, self.given_id = own_id, given_id
        self.kind = kind
        self.name = ""
        self.has_arguments = False
        self.arguments: list[str] = []

    @property
    def lacks_arguments(self) -> bool:
        return self.kind == "function" and not self.has_arguments

    def add(self, called: Fields) -> None:
        """Take note of the arguments in one delta. White space and null, which no arguments begin with, are none."""
        arguments = called.get("arguments")
        if isinstance(arguments, str) and not self.arguments and arguments.strip() in ("", "null"):
            called["arguments"] = arguments = ""
        self.has_arguments = self.has_arguments or bool(arguments or called.get("input"))
        if isinstance(arguments, str) and arguments:
            self.arguments.append(arguments)

    def is_complete(self) -> bool:
        if not (self.arguments and self.arguments[-1].rstrip().endswith("}")):
            return False  # most are seen not to be, without reading all of them again for each delta
        return self.has_whole_arguments(dict)

    def has_whole_arguments(self, kind: type = object) -> bool:
        try:
            return isinstance(json.loads("".join(self.arguments)), kind)
        except (ValueError, RecursionError):
            return False


class _ThoughtTags:
    """Splits text into the thoughts between tags at its start, and the rest. Text that may begin a tag is held back."""

    def __init__(self) -> None:
        self.is_content = False  # true when nothing more can be thoughts
        self._held = self._close = ""  # the tag that ends the thoughts, once they have begun
        self._is_closed = False
        self._has_thoughts = False

    def begins_content(self, text: bytes) -> bool:
        """Return whether this text, as in JSON, begins the content, and no tag. Some providers write "<" as an escape."""
        begins = bool(text) and text[:1] not in b"<\\ " and not self._close and not self._held
        self.is_content = self.is_content or begins
        return self.is_content

    def split(self, text: str, *, is_last: bool, has_tags: bool = True) -> tuple[str, str]:
        """Return the thoughts and the content of the next piece. Without ``has_tags``, no thoughts can begin here."""
        text, self._held = self._held + text, ""
        thoughts = ""
        if not self._close:
            start = text.lstrip(_SPACE)
            may_begin = has_tags and start[:1] in ("", "<") and len(text) - len(start) <= _MAX_SPACE
            opened = next((tag for tag in _TAGS if start.startswith(tag)), "") if may_begin else ""
            if not opened:
                if may_begin and not is_last and any(tag.startswith(start) for tag in _TAGS):
                    self._held = text
                    return "", ""
                self.is_content = True
                return "", text
            self._close, text = _TAGS[opened], start[len(opened) :]
        if not self._is_closed:
            thoughts, tag, text = text.partition(self._close)
            self._is_closed = bool(tag)
            if not tag and not is_last:
                thoughts, self._held = _without_partial_tag(thoughts, self._close)
            if not self._has_thoughts:
                thoughts = thoughts.lstrip()
                self._has_thoughts = bool(thoughts)
        text = text.lstrip()
        self.is_content = bool(text) or is_last
        return thoughts, text


def _without_partial_tag(text: str, close: str) -> tuple[str, str]:
    """Return the text without the start of its closing tag at its end, and that start."""
    for length in range(min(len(close) - 1, len(text)), 0, -1):
        if text.endswith(close[:length]):
            return text[:-length], text[-length:]
    return text, ""


def _take_thoughts(message: Fields) -> str:
    """Return the thoughts that have a field of their own, and remove ``reasoning``, which is one name for it."""
    thoughts = message.get("reasoning_content")
    if thoughts and not isinstance(thoughts, str):  # no writer could tell it
        del message["reasoning_content"]
    if isinstance(message.get("reasoning", ""), str | None):
        other = message.pop("reasoning", None)
        thoughts = thoughts if thoughts and isinstance(thoughts, str) else other
    return thoughts if isinstance(thoughts, str) else ""


def _texts_of_parts(parts: list[Any]) -> tuple[str, str]:
    """Return the thoughts and the text in a list of parts. Parts of other types, such as references, have no place here."""
    thoughts = text = ""
    for part in parts:
        if isinstance(part, str):
            text += part
        elif part.get("type") == "thinking":
            inner = part.get("thinking") or ""
            thoughts += inner if isinstance(inner, str) else _texts_of_parts(inner)[1]
        else:
            text += part.get("text") or ""
    return thoughts, text


def _with_text_arguments(call: Fields) -> Fields:
    """Return a copy of a tool call whose arguments are text. Some providers send them as an object."""
    call = {**call}
    if isinstance(called := call.get("function"), dict):
        call["function"] = called = {**called}
        if not isinstance(called.get("arguments", ""), str):
            arguments = called["arguments"]
            called["arguments"] = "" if arguments is None else compact_json.dumps_text(arguments)
    elif isinstance(custom := call.get("custom"), dict):
        call["custom"] = {**custom}
    return call
