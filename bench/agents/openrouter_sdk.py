"""OpenRouter's SDK with tools, at the base URL of a gateway: python openrouter_sdk.py MODEL TASK."""

import json
import os
import sys
from inspect import signature
from typing import Any

import functions  # type: ignore[import-not-found]  # beside it
from openrouter import OpenRouter  # type: ignore[import-not-found]  # installed by the bench

TOOLS = ("read_file", "edit_file", "run_command", "count_words")


def parameters(name: str) -> dict[str, Any]:
    return {"type": "object", "properties": dict.fromkeys(signature(getattr(functions, name)).parameters, {"type": "string"})}


def main() -> None:
    model, content = sys.argv[1:3]
    messages: list[Any] = [{"role": "user", "content": content}]
    tools = [{"type": "function", "function": {"name": name, "parameters": parameters(name)}} for name in TOOLS]
    asked: Any = {"model": model, "messages": messages, "tools": tools, "reasoning": {"effort": "low"}}
    with OpenRouter(server_url=os.environ["GATEWAY_URL"], api_key=os.environ["GATEWAY_API_KEY"]) as client:
        while (message := (reply := client.chat.send(**asked)).choices[0].message).tool_calls:
            messages.append(message)
            for call in message.tool_calls:
                result = getattr(functions, call.function.name)(**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        for chunk in client.chat.send(**asked, stream=True):
            sys.stdout.write("".join(choice.delta.content or "" for choice in chunk.choices))
        assert chunk.usage.cost == reply.usage.cost  # unasked
        key, generation = client.api_keys.get_current_key_metadata().data, client.generations.get_generation(id=reply.id).data
        assert model in [listed.id for listed in client.models.list().result.data]
        assert key.usage >= generation.total_cost == reply.usage.cost


if __name__ == "__main__":
    main()
