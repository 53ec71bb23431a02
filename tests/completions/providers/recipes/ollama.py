"""Ollama: docs.ollama.com/api/openai-compatibility, ``openai/openai.go`` in github.com/ollama/ollama."""

from typing import Any

from tests.completions.providers.recipes.imitation import CITY, Answered, Recipe, Refused, call, json_reply, streamed

_MODEL = "qwen3:8b"
_REASONED: dict[str, Any] = {"role": "assistant", "content": "Hello you", "reasoning": "A greeting."}
_CALL = call("call_hk81qg8b", index=0)
_SORRY = "I'm sorry, but I can't help with that."


def _whole(message: dict[str, Any], finish: str, prompt: int, completion: int) -> Any:
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    choices = [{"index": 0, "message": message, "finish_reason": finish}]
    head = {"id": "chatcmpl-768", "object": "chat.completion", "created": 1_764_374_400, "model": _MODEL}
    return json_reply({**head, "system_fingerprint": "fp_ollama", "choices": choices, "usage": usage})


def _chunk(delta: dict[str, Any] | None, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    head = {"id": "chatcmpl-768", "object": "chat.completion.chunk", "created": 1_764_374_400, "model": _MODEL}
    choices = [] if delta is None else [{"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": finish}]
    return {**head, "system_fingerprint": "fp_ollama", "choices": choices, **fields}


_USAGE = {"prompt_tokens": 26, "completion_tokens": 3, "total_tokens": 29}
_STREAM = [
    _chunk({"content": "Hello "}),
    _chunk({"content": "you"}),
    _chunk({"content": ""}, "stop"),
    _chunk(None, usage=_USAGE),
]
_MISSING = {
    "message": 'model "qwen3:8b" not found, try pulling it first',
    "type": "not_found_error",
    "param": None,
    "code": None,
}

RECIPES = {
    "ollama": Recipe(
        path="/v1/chat/completions",
        model=_MODEL,
        shows={},
        chat=Answered(_whole({"role": "assistant", "content": "Hello you"}, "stop", 26, 3), 26, 3, nanos=1_900),
        stream=Answered(streamed(_STREAM), 26, 3, nanos=1_900),
        tools=Answered(
            _whole({"role": "assistant", "content": "", "tool_calls": [_CALL]}, "tool_calls", 160, 22),
            *(160, 22),
            nanos=12_400,
            text="",
            finish="tool_calls",
            calls=(("weather", CITY),),
        ),
        reasoning=Answered(_whole(_REASONED, "stop", 26, 40), 26, 40, nanos=9_300, thoughts="A greeting."),
        error=Refused(json_reply({"error": _MISSING}, 404), 502, "upstream_error"),
        refusal=Answered(_whole({"role": "assistant", "content": _SORRY}, "stop", 26, 11), 26, 11, nanos=3_500, text=_SORRY),
    )
}
