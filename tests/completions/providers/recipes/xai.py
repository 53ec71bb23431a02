"""xAI: docs.x.ai (developers/rest-api-reference/inference, advanced-api-usage/troubleshooting-reasoning); its usage as in
github.com/mozilla-ai/any-llm, its errors as in github.com/UKGovernmentBEIS/inspect_ai/pull/2267 and
github.com/sst/opencode (provider-error.ts).
"""

from typing import Any

from tests.completions.providers.openai.responses import scripts
from tests.completions.providers.recipes.imitation import Answered, Recipe, Refused, called, json_reply

_REASONING = {**scripts.reasoning(1, "A greeting.", encrypted="Hfq+g7jQ"), "status": "completed"}
_HELLO = scripts.message("Hello you")
_CALL = scripts.call("call-5faadddf-0", "weather", {"city": "Rome"})
_FIELDS: dict[str, Any] = {
    "model": "grok-4.7",
    "parallel_tool_calls": True,
    "reasoning": {"effort": "low", "summary": "detailed"},
    "store": False,
    "incomplete_details": None,
}
_TOO_LONG = {
    "code": "Client specified an invalid argument",
    "error": "This model's maximum prompt length is 500000 but the request contains 537812 tokens.",
}
_UNSAFE = {
    "code": "The caller does not have permission to execute the specified operation",
    "error": "Content violates usage guidelines. Team: 5d2b9b4e, API key ID: 7f1c, Model: grok-4.7, Failed check:"
    " SAFETY_CHECK_TYPE_BIO",
}


def _usage(read: int, generated: int, cached: int = 0, reasoning: int = 0) -> dict[str, Any]:
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": generated,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": read + generated,
        "num_sources_used": 0,
        "num_server_side_tools_used": 0,
        "cost_in_usd_ticks": 94_000,
        "context_details": {"input_tokens": read, "output_tokens": generated},
    }


def _whole(*items: dict[str, Any], usage: Any) -> Any:
    return scripts.whole(_REASONING, *items, usage=usage, **_FIELDS)


RECIPES = {
    "xai": Recipe(
        path="/v1/responses",
        model="grok-4.7",
        chat=Answered(
            _whole(_HELLO, usage=_usage(335, 305, 320, 284)), 335, 305, 2_020_000, cached=320, thoughts="A greeting."
        ),
        stream=Answered(
            scripts.streamed(_REASONING, _HELLO, usage=_usage(200_001, 20, 200_000, 14), **_FIELDS),
            *(200_001, 20),
            cached=200_000,
            nanos=200_244_000,
            thoughts="A greeting.",
            sent={"store": False, "include": ["reasoning.encrypted_content"]},
        ),
        tools=called(
            _whole(_CALL, usage=_usage(462, 187, 320, 175)), 462, 187, nanos=1_566_000, cached=320, thoughts="A greeting."
        ),
        tools_stream=called(
            scripts.streamed(_REASONING, _CALL, usage=_usage(462, 187, 320, 175), **_FIELDS),
            *(462, 187),
            nanos=1_566_000,
            cached=320,
            thoughts="A greeting.",
        ),
        reasoning=Answered(
            _whole(_HELLO, usage=_usage(14, 50, reasoning=40)),
            *(14, 50),
            nanos=328_000,
            thoughts="A greeting.",
            sent={"reasoning": {"effort": "low", "summary": "auto"}},
        ),
        error=Refused(json_reply(_TOO_LONG, 400), 400, "context_length_exceeded", "maximum prompt length"),
        refusal=Refused(json_reply(_UNSAFE, 403), 400, "content_filter", "Content violates usage guidelines"),
    )
}
