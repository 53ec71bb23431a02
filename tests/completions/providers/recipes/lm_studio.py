"""LM Studio: lmstudio.ai/docs/developer/openai-compat; github.com/lmstudio-ai/lmstudio-bug-tracker/issues/601 and 619."""

from typing import Any

from tests.completions.providers.recipes.imitation import (
    Answered,
    Recipe,
    Refused,
    call,
    call_deltas,
    called,
    chunk,
    json_reply,
    streamed,
    whole,
)

_MODEL = "openai/gpt-oss-20b"
_HEAD = {"model": _MODEL, "system_fingerprint": _MODEL}
_TOO_LONG = (
    "Trying to keep the first 14137 tokens when context the overflows. However, the model is loaded with context length of only"
    " 4096 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input"
)
_SORRY = "I'm sorry, but I can't help with that."
_REASONED = {"content": "Hello you", "reasoning": "A greeting."}


def _usage(prompt: int, completion: int) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _whole(message: dict[str, Any], prompt: int, completion: int, finish: str = "stop") -> Any:
    return whole({"tool_calls": [], **message}, _usage(prompt, completion), finish, **_HEAD, stats={})


_STREAM = [
    chunk({"role": "assistant", "reasoning": "A greeting."}, **_HEAD),
    chunk({"role": "assistant", "content": "Hello "}, **_HEAD),
    chunk({"role": "assistant", "content": "you"}, **_HEAD),
    chunk({}, "stop", **_HEAD),
    chunk(None, **_HEAD, usage=_usage(70, 30)),
]

_PIECES = [chunk(delta, **_HEAD) for delta in call_deltas("365174485", "", '{"city":', '"Rome"}')]

RECIPES = {
    "lm-studio": Recipe(
        path="/v1/chat/completions",
        model=_MODEL,
        shows={},
        chat=Answered(_whole({"content": "Hello you"}, 70, 3), 70, 3, nanos=4_100),
        stream=Answered(streamed(*_STREAM), 70, 30, nanos=9_500, thoughts="A greeting."),
        tools=called(_whole({"content": "", "tool_calls": [call("365174485")]}, 170, 20, "tool_calls"), 170, 20, nanos=12_500),
        tools_stream=called(
            streamed(*_PIECES, chunk({}, "tool_calls", **_HEAD), chunk(None, **_HEAD, usage=_usage(170, 20))),
            *(170, 20),
            nanos=12_500,
        ),
        reasoning=Answered(_whole(_REASONED, 70, 43), 70, 43, nanos=12_100, thoughts="A greeting."),
        error=Refused(json_reply({"error": _TOO_LONG}, 400), 400, "context_length_exceeded", "context the overflows"),
        refusal=Answered(_whole({"content": _SORRY}, 70, 11), 70, 11, nanos=5_700, text=_SORRY),
    )
}
