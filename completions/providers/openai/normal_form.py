"""Brings the choices of OpenAI-compatible upstreams to one form, the one that the API's documentation promises. Pure.

content             text or null; upstreams also send a list of parts
reasoning_content   what the model thought; upstreams also send ``reasoning``, parts of the type ``thinking``, and
                    <think>...</think> and the like (_TAGS) at the start of the content, after white space at most
reasoning           the same text again, in OpenRouter's words, with ``reasoning_details``. Upstreams that send details have
                    secrets in them, which are sealed
tool_calls          each with an id, a type, and arguments as text; in a stream each with its index, and with its id, its
                    type and its name once; upstreams omit any of these, and number several calls alike
finish_reason       "tool_calls" when there are tool calls, which some upstreams call "stop"
"""

import json
from typing import Any

from completions.providers import sealed_reasoning
from completions.providers.sealed_reasoning import Seal
from gateway_project import identifiers
from gateway_project.text import compact_json

Fields = dict[str, Any]

FORMAT = "unknown"  # of reasoning, in OpenRouter's words
# What thoughts stand between: those of most models that write their thoughts as text; gpt-oss at Bedrock
# (github.com/promptfoo/promptfoo/pull/9587); Google's endpoint for OpenAI's clients (github.com/wyeeeee/hajimi/pull/292).
_TAGS = {f"<{name}>": f"</{name}>" for name in ("think", "reasoning", "thought")}
_SPACE, _MAX_SPACE = " \t\r\n", 64  # before the opening tag; more of it is content, so what is held back is short
_FINISH_REASONS = {"model_length": "length"}  # Mistral's
# The reply is not complete, whatever text came before: OpenRouter's and Mistral's word, and DeepSeek's.
FAILED = ("error", "insufficient_system_resource")


class ChoiceNormalizer:
    """Normalizes one choice: the deltas of a stream in turn, or one whole message.

    Its methods raise AttributeError or TypeError for what is neither. Without a ``seal`` the secrets of details are dropped.
    """

    def __init__(self, seal: Seal | None = None) -> None:
        self._seal = seal
        self._details: dict[tuple[str, str], str] = {}  # the text of details whose secret has not come, by type and index
        self._tags = _ThoughtTags()
        self._tool_calls: list[_ToolCall] = []
        self._places: dict[int, int] = {}  # the index that the upstream gave to a tool call -> its index here
        self._has_function_call = False

    def begins_plain(self, text: bytes) -> bool:
        """Return whether later text is in the normal form as it is, given the next text as in JSON."""
        return self._tags.is_content or self._tags.begins_content(text)

    def message(self, message: Fields) -> Fields:
        """Return a whole message in the normal form."""
        message = self._with_texts(message, is_last=True)
        if message.get("tool_calls"):
            message["tool_calls"] = [self._whole_call(call) for call in message["tool_calls"]]
        return {**message, "role": message.get("role") or "assistant", "content": message.get("content")}

    def delta(self, delta: Fields, *, is_last: bool) -> Fields:
        """Return one delta in the normal form. ``is_last``: nothing is held back for the next one."""
        delta = self._with_texts(delta, is_last=is_last)
        if delta.get("tool_calls"):
            taken: set[int] = set()  # indexes of this delta's tool calls
            delta["tool_calls"] = [self._streamed_call(call, taken) for call in delta["tool_calls"]]
        return delta

    def finish_reason(self, reason: Any) -> Any:
        """Return the finish reason in OpenAI's words. An upstream that ended properly without one has stopped."""
        reason = _FINISH_REASONS.get(reason, reason) or "stop"
        if reason == "stop" and self._tool_calls:
            return "tool_calls"
        return "function_call" if reason == "stop" and self._has_function_call else reason

    # --- Texts ------------------------------------------------------------------------------------------------------

    def _with_texts(self, message: Fields, *, is_last: bool) -> Fields:
        """Return a copy with text in ``content`` and thoughts in ``reasoning_content``."""
        message = {**message}
        self._has_function_call = self._has_function_call or bool(message.get("function_call"))
        thoughts, content = _take_thoughts(message), message.get("content")
        if isinstance(content, list):
            more_thoughts, content = _texts_of_parts(content)
            thoughts += more_thoughts
            message["content"] = content
        if not self._tags.is_content and (content or thoughts or is_last):
            # An upstream that tells thoughts apart itself leaves no tags in the content.
            tagged, text = self._tags.split(content or "", is_last=is_last, has_tags=not thoughts)
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
        self._tool_calls.append(_ToolCall(""))
        call = _with_text_arguments({**call, "id": call.get("id") or _new_id(), "type": call.get("type") or _type(call)})
        if isinstance(called := call.get("function"), dict):
            called.setdefault("arguments", "")
        return call

    def _streamed_call(self, call: Fields, taken: set[int]) -> Fields:
        call = _with_text_arguments(call)
        called = call.get("function") or call.get("custom") or {}
        call_id, name = str(call.get("id") or ""), called.get("name") or ""
        index = self._index(call.get("index"), call_id, name, taken)
        is_new = index == len(self._tool_calls)
        if is_new:
            self._tool_calls.append(_ToolCall(call_id))
        tool_call = self._tool_calls[index]
        taken.add(index)
        if type(call.get("index")) is int:
            self._places[call["index"]] = index
        call["index"] = index
        if is_new:
            call |= {"id": tool_call.id, "type": call.get("type") or _type(call)}
        else:  # clients join the texts of all deltas, so these would be there twice
            call = {field: value for field, value in call.items() if field not in ("id", "type")}
            if name in ("", tool_call.name):
                called.pop("name", None)
        if name != tool_call.name:
            tool_call.name += name
        tool_call.add(called)
        return call

    def _index(self, given: Any, call_id: str, name: str, taken: set[int]) -> int:
        """Return the index of the tool call that a delta belongs to. The next free index begins a new one.

        Some upstreams give no index, and others give 0 to every call.
        """
        new = len(self._tool_calls)
        if type(given) is int:
            index = self._places.get(given, new)
        elif call_id:
            index = next((index for index, known in enumerate(self._tool_calls) if known.id == call_id), new)
        else:
            index = new if name else max(new - 1, 0)
        if index == new or not name:
            return index
        known = self._tool_calls[index]
        follows_arguments = not call_id and known.has_arguments
        begins_another = (call_id and call_id != known.id) or (
            follows_arguments and (name != known.name or known.is_complete())
        )
        return new if begins_another or index in taken else index


class _ToolCall:
    """A tool call of which deltas arrive. Without the upstream's id it gets one."""

    def __init__(self, call_id: str) -> None:
        self.id = call_id or _new_id()
        self.name = ""
        self.has_arguments = False
        self._has_own_id = bool(call_id)
        self._arguments: list[str] = []  # of a call without an id of its own

    def add(self, called: Fields) -> None:
        """Take note of the arguments in one delta."""
        arguments = called.get("arguments")
        self.has_arguments = self.has_arguments or bool(arguments or called.get("input"))
        if isinstance(arguments, str) and arguments.strip() and not self._has_own_id:
            self._arguments.append(arguments)

    def is_complete(self) -> bool:
        """Return whether the arguments are a whole JSON object. Always false for a call with an id: its id tells it apart."""
        if not (self._arguments and self._arguments[-1].rstrip().endswith("}")):
            return False  # most are seen not to be, without reading all of them again for each delta
        try:
            return isinstance(json.loads("".join(self._arguments)), dict)
        except (ValueError, RecursionError):
            return False


class _ThoughtTags:
    """Splits text that arrives in pieces into the thoughts between tags at its start, and what follows them.

    A piece that may be the start of a tag, or white space before one, is held back until the next one. White space around the
    tags is dropped, but not the thoughts' own at their end.
    """

    def __init__(self) -> None:
        self.is_content = False  # true when nothing more can be thoughts
        self._held = self._close = ""  # the tag that ends the thoughts, once they have begun
        self._is_closed = False
        self._has_thoughts = False

    def begins_content(self, text: bytes) -> bool:
        """Return whether this text, as in JSON, begins the content, and no tag. Some upstreams write "<" as an escape."""
        self.is_content = bool(text) and text[:1] not in b"<\\ " and not self._close and not self._held
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
    """Return a copy of a tool call whose arguments are text. Some upstreams send them as an object."""
    call = {**call}
    if isinstance(called := call.get("function"), dict):
        call["function"] = called = {**called}
        if not isinstance(called.get("arguments", ""), str):
            arguments = called["arguments"]
            called["arguments"] = "" if arguments is None else compact_json.dumps_text(arguments)
    elif isinstance(custom := call.get("custom"), dict):
        call["custom"] = {**custom}
    return call


def _type(call: Fields) -> str:
    return "custom" if "custom" in call else "function"


def _new_id() -> str:
    return f"call_{identifiers.short_uuid7()}"
