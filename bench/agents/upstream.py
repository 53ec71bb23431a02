"""A provider of each kind on loopback, which has a program do a task: each reply asks for the next step, until all are done.

A step is counted done by the results of tools in the conversation, so that other requests, such as for a title, do not matter.
What the real providers refuse is refused, with 400.
"""

import json
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

PROMPT_TOKENS, CACHED_TOKENS, GENERATED_TOKENS = 1_000, 600, 10  # of every reply
DONE = "The task is done."
_SIGNATURE = "c2lnbmVk"
OTHERWISE = '{"title": "Notes"}'
Body = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """A call of a tool. ``text`` instead of ``arguments``: of a custom tool, where the provider has them."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    text: str = ""


@dataclass
class Session:
    """What the program is to do, and what happened."""

    steps: list[Step] = field(default_factory=list)
    said: str = OTHERWISE  # to a request without tools
    replies: int = 0
    reasoned: int = 0  # items of reasoning that came back with one request, at most
    problems: list[str] = field(default_factory=list)


class Upstreams:
    """Serves every kind under its own paths, for one session after another."""

    def __init__(self) -> None:
        self.session = Session()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, body: Body) -> tuple[int, bytes, str]:
        """Return the status, the body and the content type of a reply."""
        kind = _KINDS[_PATHS.get(path) or ("gemini" if "generatecontent" in path.casefold() else "openai")]
        if problem := kind.problem(body):
            self.session.problems.append(problem)
            error = {"error": {"type": "invalid_request_error", "message": problem, "code": 400, "status": "INVALID_ARGUMENT"}}
            return 400, json.dumps({"type": "error", **error}).encode(), "application/json"
        self.session.replies += 1
        reasoned = sum(item["type"] == "reasoning" for item in body.get("input") or [])  # other formats have no items
        self.session.reasoned = max(self.session.reasoned, reasoned)
        said, step = self._next(kind, body)
        is_streamed = body.get("stream") or "streamGenerateContent" in path
        reply = b"".join(kind.stream(said, step)) if is_streamed else json.dumps(kind.whole(said, step)).encode()
        return 200, reply, "text/event-stream" if is_streamed else "application/json"

    def _next(self, kind: "Kind", body: Body) -> tuple[str, Step | None]:
        if not (tools := set(kind.tools(body))):
            return self.session.said, None
        if (done := kind.results(body)) >= len(self.session.steps):
            return DONE, None
        if (step := self.session.steps[done]).name not in tools:
            self.session.problems.append(f"there is no tool {step.name}")
            return DONE, None
        return "The next step.", step

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        upstreams = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, reply, content_type = upstreams.answer(self.path, body)
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, *arguments: Any) -> None:
                pass

        return Handler


@dataclass(frozen=True)
class Kind:
    """One wire format: what there is in a request, why the real provider would refuse it, and its replies."""

    tools: Callable[[Body], Iterator[str]]
    results: Callable[[Body], int]
    problem: Callable[[Body], str]
    whole: Callable[[str, Step | None], Body]
    stream: Callable[[str, Step | None], Iterator[bytes]]


def _tools(body: Body) -> Iterator[str]:
    return (tool["name"] for tool in body.get("tools") or [])


def _problem_of_names(names: Iterator[str]) -> str:
    wrong = [name for name in names if not re.fullmatch("[a-zA-Z0-9_-]{1,64}", name)]
    return f"tools: {wrong}" if wrong else ""


def _number(step: Step, place: str = "") -> int:
    """Return a number of a call, which is the same in every run."""
    return zlib.crc32(f"{place} {step}".encode())


def _event(data: Any, name: str = "") -> bytes:
    return (f"event: {name}\n" if name else "").encode() + b"data: " + json.dumps(data).encode() + b"\n\n"


# --- OpenAI -----------------------------------------------------------------------------------------------------------

_OPENAI_USAGE = {
    "prompt_tokens": PROMPT_TOKENS,
    "completion_tokens": GENERATED_TOKENS,
    "total_tokens": PROMPT_TOKENS + GENERATED_TOKENS,
    "prompt_tokens_details": {"cached_tokens": CACHED_TOKENS},
}


def _openai_tools(body: Body) -> Iterator[str]:
    return (tool[tool["type"]]["name"] for tool in body.get("tools") or [])


def _openai_results(body: Body) -> int:
    return sum(message["role"] == "tool" for message in body["messages"])


def _openai_problem(body: Body) -> str:
    called: set[str] = set()
    for message in body["messages"]:
        called |= {call["id"] for call in message.get("tool_calls") or []}
        if message["role"] == "tool" and message["tool_call_id"] not in called:
            return "messages: a result of no call"
    return _problem_of_names(_openai_tools(body))


def _openai_calls(step: Step | None, place: str) -> list[Body]:
    """Return the call of a step, with an id that other makers refuse."""
    if step is None:
        return []
    function = {"type": "function", "function": {"name": step.name, "arguments": json.dumps(step.arguments)}}
    custom = {"type": "custom", "custom": {"name": step.name, "input": step.text}}
    return [{"id": f"call:{_number(step, place)}", **(custom if step.text else function)}]


def _openai_whole(said: str, step: Step | None) -> Body:
    calls = _openai_calls(step, "whole")
    message = {"role": "assistant", "content": said, **({"tool_calls": calls} if calls else {})}
    choices = [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}]
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, "usage": _OPENAI_USAGE}


def _openai_stream(said: str, step: Step | None) -> Iterator[bytes]:
    head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    deltas: list[Body] = [{"role": "assistant", "reasoning_content": "Hm."}, {"content": said}]
    deltas += [{"tool_calls": [{"index": 0, **call}]} for call in _openai_calls(step, "stream")]
    for delta in deltas:
        yield _event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    reason = "tool_calls" if step else "stop"
    yield _event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    yield _event({**head, "choices": [], "usage": _OPENAI_USAGE})
    yield b"data: [DONE]\n\n"


# --- OpenAI's Responses -----------------------------------------------------------------------------------------------

_RESPONSES_USAGE = {
    "input_tokens": PROMPT_TOKENS,
    "input_tokens_details": {"cached_tokens": CACHED_TOKENS},
    "output_tokens": GENERATED_TOKENS,
    "output_tokens_details": {"reasoning_tokens": GENERATED_TOKENS // 2},
    "total_tokens": PROMPT_TOKENS + GENERATED_TOKENS,
}


def _responses_results(body: Body) -> int:
    return sum(item["type"].endswith("_output") for item in body["input"])


def _responses_problem(body: Body) -> str:
    called: set[str] = set()
    for item, following in zip(body["input"], [*body["input"][1:], None], strict=True):
        if item["type"] == "reasoning" and item.get("encrypted_content") != _SIGNATURE:
            return "The encrypted content could not be verified"
        if item["type"] == "reasoning" and (following is None or following.get("role") == "user"):
            return "reasoning was provided without its required following item"
        if item["type"].endswith("_call"):
            called.add(item["call_id"])
        if item["type"].endswith("_output") and item["call_id"] not in called:
            return "input: a result of no call"
    if any(len(call_id) > 64 for call_id in called):
        return "input: call_id: too long"
    if body["store"] or body["max_output_tokens"] < 16:
        return "stores, or a maximum below 16"
    return _problem_of_names(_tools(body))


def _responses_items(said: str, step: Step | None) -> list[Body]:
    summary = [{"type": "summary_text", "text": "Hm."}]
    reasoning = {"id": "rs_1", "type": "reasoning", "summary": summary, "encrypted_content": _SIGNATURE}
    part = {"type": "output_text", "text": said, "annotations": []}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    if step is None:
        return [reasoning, message]
    call: Body = {"id": "fc_1", "status": "completed", "call_id": f"call:{_number(step, 'responses')}", "name": step.name}
    called = {"arguments": json.dumps(step.arguments), "type": "function_call"}
    return [reasoning, message, call | ({"input": step.text, "type": "custom_tool_call"} if step.text else called)]


def _responses_whole(said: str, step: Step | None) -> Body:
    head = {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "error": None, "model": "m"}
    return {**head, "output": _responses_items(said, step), "usage": _RESPONSES_USAGE}


def _responses_stream(said: str, step: Step | None) -> Iterator[bytes]:
    whole = _responses_whole(said, step)
    events: list[Body] = [{"type": "response.created", "response": {**whole, "output": [], "usage": None}}]
    for index, item in enumerate(whole["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        empty = {name: "" for name in ("arguments", "input") if name in item}
        events.append({"type": "response.output_item.added", "output_index": index, "item": {**item, **empty}})
        events += [{"type": f"response.{kind}.delta", **place, "delta": text} for kind, text in _responses_deltas(item)]
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    for event in [*events, {"type": "response.completed", "response": whole}]:
        yield _event(event, event["type"])


def _responses_deltas(item: Body) -> list[tuple[str, str]]:
    match item["type"]:
        case "reasoning":
            return [("reasoning_summary_text", part["text"]) for part in item["summary"]]
        case "message":
            return [("output_text", part["text"]) for part in item["content"]]
        case "function_call":
            return [("function_call_arguments", item["arguments"])]
        case _:
            return [("custom_tool_call_input", item["input"])]


# --- Anthropic --------------------------------------------------------------------------------------------------------

_MAX_TOKENS = 16_000  # of the scripted model: fewer than the programs ask for
_ANTHROPIC_USAGE = {
    "input_tokens": PROMPT_TOKENS - CACHED_TOKENS,
    "cache_read_input_tokens": CACHED_TOKENS,
    "cache_creation_input_tokens": 0,
    "output_tokens": GENERATED_TOKENS,
}


def _blocks(body: Body) -> Iterator[Body]:
    for message in body["messages"]:
        if isinstance(message["content"], list):
            yield from message["content"]


def _anthropic_results(body: Body) -> int:
    return sum(block["type"] == "tool_result" for block in _blocks(body))


def _anthropic_problem(body: Body) -> str:
    takes_system = "opus-4-8" in body["model"]
    if not takes_system and any(message["role"] == "system" for message in body["messages"]):
        return "messages: role 'system' is not supported on this model"
    thinking, config = body.get("thinking") or {}, body.get("output_config") or {}
    if not takes_system and (thinking.get("type") == "adaptive" or "effort" in config):
        return "thinking: adaptive thinking and effort are not supported on this model"
    if takes_system and thinking.get("type") == "enabled":
        return "thinking: a budget is not supported on this model"
    if body["max_tokens"] > _MAX_TOKENS:
        return f"max_tokens: {body['max_tokens']} > {_MAX_TOKENS}"
    if thinking.get("budget_tokens", 0) >= body["max_tokens"]:
        return "max_tokens must be greater than thinking.budget_tokens"
    for block in _blocks(body):
        if block["type"] == "thinking" and block.get("signature") != _SIGNATURE:
            return "messages: Invalid signature in thinking block"
        tool_id = block.get("id") or block.get("tool_use_id") or "x"
        if not re.fullmatch("[a-zA-Z0-9_-]+", tool_id):
            return f"messages: tool_use.id: {tool_id}"
    return ""


def _anthropic_content(said: str, step: Step | None) -> list[Body]:
    content: list[Body] = [
        {"type": "thinking", "thinking": "Hm.", "signature": _SIGNATURE},
        {"type": "text", "text": said},
    ]
    if step:
        tool_id = f"toolu_{_number(step)}"
        content.append({"type": "tool_use", "id": tool_id, "name": step.name, "input": step.arguments or {"input": step.text}})
    return content


def _anthropic_whole(said: str, step: Step | None) -> Body:
    ended = {"stop_reason": "tool_use" if step else "end_turn", "stop_sequence": None}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
    return {**head, "content": _anthropic_content(said, step), **ended, "usage": _ANTHROPIC_USAGE}


def _anthropic_stream(said: str, step: Step | None) -> Iterator[bytes]:
    whole = _anthropic_whole(said, step)
    begun = {**whole, "content": [], "stop_reason": None, "usage": {**_ANTHROPIC_USAGE, "output_tokens": 1}}
    yield _event({"type": "message_start", "message": begun}, "message_start")
    for index, block in enumerate(whole["content"]):
        empty: Body = {"thinking": "", "text": "", "input": {}}
        start = {name: empty.get(name, value) for name, value in block.items() if name != "signature"}
        if block["type"] == "thinking":
            start["signature"] = ""
        yield _event({"type": "content_block_start", "index": index, "content_block": start}, "content_block_start")
        for delta in _anthropic_deltas(block):
            yield _event({"type": "content_block_delta", "index": index, "delta": delta}, "content_block_delta")
        yield _event({"type": "content_block_stop", "index": index}, "content_block_stop")
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield _event({"type": "message_delta", "delta": ended, "usage": _ANTHROPIC_USAGE}, "message_delta")
    yield _event({"type": "message_stop"}, "message_stop")


def _anthropic_deltas(block: Body) -> list[Body]:
    match block["type"]:
        case "thinking":
            signature = {"type": "signature_delta", "signature": block["signature"]}
            return [{"type": "thinking_delta", "thinking": block["thinking"]}, signature]
        case "text":
            return [{"type": "text_delta", "text": block["text"]}]
        case _:
            return [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]


# --- Gemini -----------------------------------------------------------------------------------------------------------


def _gemini_tools(body: Body) -> Iterator[str]:
    return (each["name"] for tool in body.get("tools") or [] for each in tool["functionDeclarations"])


def _gemini_results(body: Body) -> int:
    return sum("functionResponse" in part for content in body["contents"] for part in content["parts"])


def _gemini_problem(body: Body) -> str:
    for content in body["contents"]:
        calls = [part for part in content["parts"] if "functionCall" in part]
        if calls and not calls[0].get("thoughtSignature"):
            return "Function call is missing a thought_signature"
    return ""


def _gemini_whole(said: str, step: Step | None) -> Body:
    parts: list[Body] = [{"text": "Hm.", "thought": True}, {"text": said}]
    if step:
        call = {"name": step.name, "args": step.arguments or {"input": step.text}}
        parts.append({"functionCall": call, "thoughtSignature": _SIGNATURE})
    usage = {"promptTokenCount": PROMPT_TOKENS, "cachedContentTokenCount": CACHED_TOKENS}
    usage |= {"candidatesTokenCount": GENERATED_TOKENS, "totalTokenCount": PROMPT_TOKENS + GENERATED_TOKENS}
    candidate = {"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
    return {"candidates": [candidate], "usageMetadata": usage}


def _gemini_stream(said: str, step: Step | None) -> Iterator[bytes]:
    yield _event(_gemini_whole(said, step))


_PATHS = {"/v1/messages": "anthropic", "/v1/responses": "openai-responses"}
_KINDS = {
    "openai": Kind(_openai_tools, _openai_results, _openai_problem, _openai_whole, _openai_stream),
    "openai-responses": Kind(_tools, _responses_results, _responses_problem, _responses_whole, _responses_stream),
    "anthropic": Kind(_tools, _anthropic_results, _anthropic_problem, _anthropic_whole, _anthropic_stream),
    "gemini": Kind(_gemini_tools, _gemini_results, _gemini_problem, _gemini_whole, _gemini_stream),
}
