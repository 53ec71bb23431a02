"""Ollama: docs.ollama.com/api/openai-compatibility, ``openai/openai.go`` in github.com/ollama/ollama."""

from typing import Any

from tests.completions.providers.recipes.imitation import (
    Answered,
    Recipe,
    Refused,
    call,
    called,
    chunk,
    json_reply,
    streamed,
    whole,
)

_MODEL = "qwen3:8b"
_REASONED = {"content": "Hello you", "reasoning": "A greeting."}
_CALL = call("call_hk81qg8b", index=0)
_SORRY = "I'm sorry, but I can't help with that."


def _usage(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _chunk(content: str, finish: str | None = None) -> dict[str, Any]:
    return chunk({"role": "assistant", "content": content}, finish, **_HEAD)


_HEAD = {"model": _MODEL, "system_fingerprint": "fp_ollama"}
_STREAM = [_chunk("Hello "), _chunk("you"), _chunk("", "stop"), chunk(None, usage=_usage(26, 3), **_HEAD)]
_MISSING = {"message": f'model "{_MODEL}" not found, try pulling it first', "type": "not_found_error", "code": None}

RECIPES = {
    "ollama": Recipe(
        path="/v1/chat/completions",
        model=_MODEL,
        shows={},
        chat=Answered(whole({"content": "Hello you"}, _usage(26, 3), **_HEAD), 26, 3, nanos=1_900),
        stream=Answered(streamed(*_STREAM), 26, 3, nanos=1_900),
        tools=called(
            whole({"content": "", "tool_calls": [_CALL]}, _usage(160, 22), "tool_calls", **_HEAD), 160, 22, nanos=12_400
        ),
        tools_stream=called(
            streamed(
                chunk({"role": "assistant", "content": "", "tool_calls": [_CALL]}, **_HEAD),
                _chunk("", "tool_calls"),
                chunk(None, usage=_usage(160, 22), **_HEAD),
            ),
            *(160, 22),
            nanos=12_400,
        ),
        reasoning=Answered(whole(_REASONED, _usage(26, 40), **_HEAD), 26, 40, nanos=9_300, thoughts="A greeting."),
        error=Refused(json_reply({"error": _MISSING}, 404), 502, "upstream_error"),
        refusal=Answered(whole({"content": _SORRY}, _usage(26, 11), **_HEAD), 26, 11, nanos=3_500, text=_SORRY),
    )
}
