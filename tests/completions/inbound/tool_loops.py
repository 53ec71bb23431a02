"""Clients that call a tool until a model is done, in each language of callers: they send back what they got, as SDKs do."""

import json
from typing import Any

Fields = dict[str, Any]
PARAMETERS = {"type": "object", "properties": {"step": {"type": "integer"}}}
RESULT = "nothing yet"


_CHAT_TOOL = {"type": "function", "function": {"name": "look", "parameters": PARAMETERS}}


class Chat:
    """A client of OpenRouter's: it knows ``reasoning_details``, and not ``reasoning_content``."""

    path = "/v1/chat/completions"
    asks = {"reasoning_effort": "medium", "tools": [_CHAT_TOOL]}

    def body(self, history: list[Fields]) -> Fields:
        return {"messages": [{"role": "user", "content": "Look."}, *history], "max_tokens": 4_000, **self.asks}

    def said(self, raw: bytes, *, stream: bool) -> list[Fields]:
        if not stream:
            [choice] = json.loads(raw)["choices"]
            return [self._kept(choice["message"])]
        *events, done = [event.removeprefix(b"data: ") for event in raw.split(b"\n\n")[:-1]]
        assert done == b"[DONE]"
        message: Fields = {"role": "assistant", "content": None, "tool_calls": [], "reasoning_details": []}
        for delta in (choice["delta"] for event in events for choice in json.loads(event)["choices"]):
            self._add(message, delta)
        return [self._kept(message)]

    def results(self, said: list[Fields]) -> list[Fields]:
        calls = said[0].get("tool_calls") or []
        return [{"role": "tool", "tool_call_id": call["id"], "content": RESULT} for call in calls]

    def reasoning(self, said: list[Fields]) -> str:
        return said[0]["reasoning"]

    def _kept(self, message: Fields) -> Fields:
        kept = ("role", "content", "tool_calls", "reasoning", "reasoning_details")
        calls = [{name: call[name] for name in ("id", "type", "function")} for call in message.get("tool_calls") or []]
        return {name: message[name] for name in kept if message.get(name)} | ({"tool_calls": calls} if calls else {})

    def _add(self, message: Fields, delta: Fields) -> None:
        for name in ("content", "reasoning"):
            if delta.get(name):
                message[name] = (message.get(name) or "") + delta[name]
        for call in delta.get("tool_calls", []):
            if call["index"] == len(message["tool_calls"]):
                message["tool_calls"].append({**call, "function": dict(call["function"])})
            else:
                message["tool_calls"][call["index"]]["function"]["arguments"] += call["function"]["arguments"]
        for detail in delta.get("reasoning_details", []):
            latest = message["reasoning_details"][-1] if message["reasoning_details"] else {}
            if [latest.get(name) for name in ("type", "index")] != [detail["type"], detail["index"]]:
                message["reasoning_details"].append(dict(detail))
            else:
                text = latest.get("text", "") + detail.get("text", "")
                latest |= {**detail, "text": text}


class Messages:
    """Anthropic's SDK."""

    path = "/v1/messages"
    asks = {
        "tools": [{"name": "look", "input_schema": PARAMETERS}],
        "thinking": {"type": "adaptive"},
    }

    def body(self, history: list[Fields]) -> Fields:
        return {"messages": [{"role": "user", "content": "Look."}, *history], "max_tokens": 4_000, **self.asks}

    def said(self, raw: bytes, *, stream: bool) -> list[Fields]:
        if not stream:
            return [{"role": "assistant", "content": json.loads(raw)["content"]}]
        blocks: list[Fields] = []
        for event in raw.split(b"\n\n")[:-1]:
            self._add(blocks, json.loads(event.partition(b"data: ")[2]))
        return [{"role": "assistant", "content": blocks}]

    def results(self, said: list[Fields]) -> list[Fields]:
        calls = [block for block in said[0]["content"] if block["type"] == "tool_use"]
        blocks = [{"type": "tool_result", "tool_use_id": call["id"], "content": RESULT} for call in calls]
        return [{"role": "user", "content": blocks}] if blocks else []

    def reasoning(self, said: list[Fields]) -> str:
        return "".join(block["thinking"] for block in said[0]["content"] if block["type"] == "thinking")

    def _add(self, blocks: list[Fields], data: Fields) -> None:
        match data["type"]:
            case "content_block_start":
                assert data["index"] == len(blocks)
                blocks.append(dict(data["content_block"]))
            case "content_block_delta":
                block, delta = blocks[data["index"]], data["delta"]
                match delta["type"]:
                    case "text_delta":
                        block["text"] += delta["text"]
                    case "thinking_delta":
                        block["thinking"] += delta["thinking"]
                    case "signature_delta":
                        block["signature"] = delta["signature"]
                    case "input_json_delta":
                        block["json"] = block.get("json", "") + delta["partial_json"]
            case "content_block_stop" if "json" in blocks[data["index"]]:
                block = blocks[data["index"]]
                block["input"] = json.loads(block.pop("json"))


class Responses:
    """OpenAI's SDK, with ``store: false``. It shows no summary of what it sends back: OpenAI needs none."""

    path = "/v1/responses"
    asks = {
        "tools": [{"type": "function", "name": "look", "parameters": PARAMETERS}],
        "reasoning": {"effort": "medium"},
        "include": ["reasoning.encrypted_content"],
        "store": False,
    }

    def body(self, history: list[Fields]) -> Fields:
        return {"input": [{"role": "user", "content": "Look."}, *history], "max_output_tokens": 4_000, **self.asks}

    def said(self, raw: bytes, *, stream: bool) -> list[Fields]:
        if not stream:
            return json.loads(raw)["output"]
        events = [json.loads(event.partition(b"data: ")[2]) for event in raw.split(b"\n\n")[:-1]]
        assert events[-1]["type"] == "response.completed"
        items = [event["item"] for event in events if event["type"] == "response.output_item.done"]
        assert items == events[-1]["response"]["output"]
        return items

    def results(self, said: list[Fields]) -> list[Fields]:
        calls = [item for item in said if item["type"] == "function_call"]
        return [{"type": "function_call_output", "call_id": call["call_id"], "output": RESULT} for call in calls]

    def reasoning(self, said: list[Fields]) -> str:
        return "".join(part["text"] for item in said if item["type"] == "reasoning" for part in item["summary"])


LANGUAGES: tuple[type[Chat] | type[Messages] | type[Responses], ...] = (Chat, Messages, Responses)


class Loop:
    """One conversation: the model, and what was said so far. ``headers`` are those of the latest reply."""

    def __init__(self, api: Any, language: Any, model: str, *, stream: bool = False) -> None:
        self.api, self.language, self.model, self.stream = api, language(), model, stream
        self.history: list[Fields] = []
        self.steps: list[list[Fields]] = []
        self.headers: Any = {}

    def ask(self, **fields: Any) -> Any:
        body = {"model": self.model, "stream": self.stream, **self.language.body(self.history), **fields}
        return self.api.post(self.language.path, body)

    def step(self, **fields: Any) -> bool:
        """Ask once, and answer the calls. Return whether there were any."""
        reply = self.ask(**fields)
        assert reply.status_code == 200, reply.content
        said = self.language.said(reply.getvalue(), stream=self.stream)
        results = self.language.results(said)
        self.steps.append(said)
        self.history += [*said, *results]
        self.headers = reply.headers
        return bool(results)

    def run(self) -> list[str]:
        """Go on until the model is done. Return what the header names as not sent, of every step."""
        left_out = []
        while self.step():
            left_out.append(self.headers.get("x-gateway-ignored-fields", ""))
        return [*left_out, self.headers.get("x-gateway-ignored-fields", "")]
