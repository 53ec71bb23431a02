"""Models on loopback that think, call a tool so many times, and refuse what is not as they said it, as the real ones do.

Each turn of theirs is a list of blocks. They keep what they said, and compare what comes back with it.
"""

import hashlib
import json
from typing import Any

from tests.completions.providers.anthropic import scripts as claude
from tests.completions.providers.gemini import scripts as gemini
from tests.completions.providers.openai.responses import scripts as openai
from tests.upstream import Received, Script, Upstream

LONG = "Let me think about this. " * 40  # so that a conversation is released while it waits, and restored
_DOCS = "https://docs.claude.com/en/docs/build-with-claude/extended-thinking"
MISSING = (
    "messages.{place}.type: Expected `thinking` or `redacted_thinking`, but found `{found}`. When `thinking` is enabled, a "
    "final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` "
    "blocks). "
    f"Please consult our documentation at {_DOCS}"
)
ALTERED = "messages.{place}: Invalid `signature` in `thinking` block"
MODIFIED = (
    "messages.{place}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These "
    "blocks must remain as they were in the original response."
)
UNSIGNED = (
    "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and "
    "missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:{name}` , "
    "position {position}. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
)

WITHOUT_REASONING = "Item '{item}' of type 'function_call' was provided without its required 'reasoning' item: '{reasoning}'."
WITHOUT_FOLLOWING = "Item '{reasoning}' of type 'reasoning' was provided without its required following item."
UNVERIFIED = "The encrypted content {start}... could not be verified. Reason: It could not be decrypted or parsed."
UNSTORED = "Item with id '{item}' not found. Items are not persisted when `store` is set to false."


def signature(*said: str) -> str:
    return hashlib.sha256("".join(said).encode()).hexdigest()


class Claude:
    """Anthropic's Messages. It thinks only when it is told to, and after a tool's result only if that is interleaved."""

    def __init__(self, upstream: Upstream, *, calls: int = 10) -> None:
        self.received: list[Received] = []
        self.said: list[list[dict[str, Any]]] = []
        self._calls = calls
        upstream.will_answer(self._answer)

    def _answer(self, received: Received) -> Script:
        self.received.append(received)
        if reason := self._fault(received.body):
            return claude.refusal(400, "invalid_request_error", reason)
        blocks = self._blocks(received)
        self.said.append(blocks)
        reason = "tool_use" if blocks[-1]["type"] == "tool_use" else "end_turn"
        if not received.body["stream"]:
            return claude.whole(*blocks, stop_reason=reason)
        events = [_block_events(index, block) for index, block in enumerate(blocks)]
        return claude.stream(claude.start(), *events, claude.message_delta(reason), claude.STOP)

    def _blocks(self, received: Received) -> list[dict[str, Any]]:
        """Think, now and then unseen and now and then again after some text, and call the tool or end."""
        step = len(self.said)
        thoughts = [self._thinking(f"{LONG}{step}, first."), self._thinking(f"Step {step}, again, with an é.")]
        hidden = {"type": "redacted_thinking", "data": signature("hidden", str(step))}
        call = {"type": "tool_use", "id": f"toolu_{step}", "name": "look", "input": {"step": step}}
        text = {"type": "text", "text": f"Looking, é {step}. "}
        last = [call] if step < self._calls else [{"type": "text", "text": "Done."}]
        orders = ([thoughts[0], *last], [thoughts[0], text, thoughts[1], *last], [hidden, thoughts[1], *last])
        return orders[step % 3] if self._thinks(received) else [text, *last]

    def _thinks(self, received: Received) -> bool:
        """Return whether it thinks: with a budget in the first step only, unless it is told that thinking is interleaved."""
        kind = received.body.get("thinking", {}).get("type")
        is_interleaved = "interleaved-thinking" in received.headers.get("anthropic-beta", "")
        return kind == "adaptive" or (kind == "enabled" and (is_interleaved or not _ends_with_result(received.body)))

    def _thinking(self, text: str) -> dict[str, Any]:
        return {"type": "thinking", "thinking": text, "signature": signature("claude", text)}

    def _fault(self, body: dict[str, Any]) -> str | None:
        turns = [(number, turn) for number, turn in enumerate(body["messages"]) if turn["role"] == "assistant"]
        for number, turn in turns:
            for index, block in enumerate(turn["content"]):
                if block["type"] == "thinking" and block["signature"] != signature("claude", block["thinking"]):
                    return ALTERED.format(place=f"{number}.content.{index}")
        if not turns or not _ends_with_result(body):
            return None
        number, latest = turns[-1]
        if body.get("thinking", {}).get("type") == "enabled" and not _is_thinking(latest["content"][0]):
            return MISSING.format(place=f"{number}.content.0", found=latest["content"][0]["type"])
        if any(map(_is_thinking, latest["content"])) and latest["content"] not in self.said:
            return MODIFIED.format(place=f"{number}.content.0")
        return None


def _ends_with_result(body: dict[str, Any]) -> bool:
    content = body["messages"][-1]["content"]
    return not isinstance(content, str) and content[0]["type"] == "tool_result"


def _is_thinking(block: dict[str, Any]) -> bool:
    return block["type"] in ("thinking", "redacted_thinking")


def _block_events(index: int, block: dict[str, Any]) -> bytes:
    match block["type"]:
        case "text":
            return claude.text(block["text"][:5], block["text"][5:], index=index)
        case "tool_use":
            return claude.tool(block["id"], block["name"], json.dumps(block["input"]), index=index)
        case "thinking":
            said = block["thinking"]
            deltas = [claude.block_delta(index, "thinking_delta", thinking=piece) for piece in (said[:7], said[7:])]
            signed = claude.block_delta(index, "signature_delta", signature=block["signature"])
            began = claude.block_start(index, {"type": "thinking", "thinking": "", "signature": ""})
            return b"".join([began, *deltas, signed, claude.block_stop(index)])
        case _:
            return claude.block_start(index, block) + claude.block_stop(index)


class Gemini:
    """Gemini 3. It signs the first call of a turn, and in the end the text, and takes no placeholder for its own calls."""

    def __init__(self, upstream: Upstream, *, calls: int = 10) -> None:
        self.received: list[Received] = []
        self._calls = calls
        self._said = 0
        upstream.will_answer(self._answer)

    def _answer(self, received: Received) -> Script:
        self.received.append(received)
        if reason := self._fault(received.body["contents"]):
            return gemini.answered(gemini.error(400, "INVALID_ARGUMENT", reason), status=400)
        step, self._said = self._said, self._said + 1
        thought = gemini.thought_part(f"{LONG}{step}")
        signed = {"thoughtSignature": signature("gemini", "look", str(step))}
        calls = [{**gemini.call("look", {"step": step}), **signed}, gemini.call("look", {"step": step, "more": True})]
        text = {"text": "Done.", "thoughtSignature": signature("gemini", "Done.")}
        parts = [thought, *calls] if step < self._calls else [thought, text]
        if "stream" not in received.path:
            return gemini.answered(gemini.response(*parts, finish="STOP", usage=gemini.USAGE))
        first, *others = parts
        return gemini.streamed(gemini.response(first), gemini.response(*others, finish="STOP", usage=gemini.USAGE))

    def _fault(self, contents: list[dict[str, Any]]) -> str | None:
        for position, content in enumerate(contents, 1):
            calls = [part for part in content["parts"] if "functionCall" in part]
            if not calls:
                continue
            called = calls[0]["functionCall"]
            if calls[0].get("thoughtSignature") != signature("gemini", called["name"], str(called["args"].get("step"))):
                return UNSIGNED.format(name=called["name"], position=position)
        return None


class OpenAI:
    """OpenAI's Responses. It reasons before each call, refuses a call without that, and reasoning that is not as it said it."""

    def __init__(self, upstream: Upstream, *, calls: int = 10) -> None:
        self.received: list[Received] = []
        self.said: list[list[dict[str, Any]]] = []
        self._calls = calls
        upstream.will_answer(self._answer)

    def _answer(self, received: Received) -> Script:
        assert received.path == "/v1/responses"
        self.received.append(received)
        if fault := self._fault(received.body["input"]):
            return openai.refused(400, *fault)
        items = self._items()
        self.said.append(items)
        if "reasoning.encrypted_content" not in received.body.get("include", ()):
            items = [{name: value for name, value in item.items() if name != "encrypted_content"} for item in items]
        return openai.streamed(*items) if received.body["stream"] else openai.whole(*items)

    def _items(self) -> list[dict[str, Any]]:
        """Reason, now and then unseen and now and then again after some text, and call the tool or end."""
        step = len(self.said)
        reasoned = [self._reasoning(f"{step}.0", f"{LONG}{step}, first."), self._reasoning(f"{step}.1", "Again,", "with an é.")]
        calls = [openai.call(f"call_{step}_{number}", "look", {"step": step}) for number in range(2)]
        text = openai.message(f"Looking, é {step}. ")
        last = calls if step < self._calls else [openai.message("Done.")]
        orders = (
            [reasoned[0], *last],
            [reasoned[0], text, reasoned[1], *last],
            [self._reasoning(f"{step}.2"), reasoned[1], *last],
        )
        return orders[step % 3]

    def _reasoning(self, name: str, *summary: str) -> dict[str, Any]:
        return openai.reasoning(name, *summary, encrypted=signature("openai", name, *summary))

    def _fault(self, items: list[dict[str, Any]]) -> tuple[str, str | None] | None:
        own = {item["id"]: item for said in self.said for item in said if item["type"] == "reasoning"}
        before = {said[-1]["call_id"]: said[-3:-2] for said in self.said if said[-1]["type"] == "function_call"}
        for place, item in enumerate(items):
            if item["type"] == "reasoning":
                if not item.get("encrypted_content"):
                    return UNSTORED.format(item=item["id"]), None
                if item != own.get(item["id"]):
                    return UNVERIFIED.format(start=item["encrypted_content"][:4]), "invalid_encrypted_content"
                if place + 1 == len(items) or items[place + 1].get("role") == "user":
                    return WITHOUT_FOLLOWING.format(reasoning=item["id"]), None
            [reasoning] = before.get(item.get("call_id"), [None]) if item["type"] == "function_call" else [None]
            if reasoning and items[place - 2] != reasoning:
                return WITHOUT_REASONING.format(item=item["call_id"], reasoning=reasoning["id"]), None
        return None
