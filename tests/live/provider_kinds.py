"""Every kind of provider with a network: what it replies in its own format, for tests of the languages of callers."""

from dataclasses import dataclass
from typing import Any

import pytest

from tests import factories
from tests.completions.providers.anthropic import scripts as claude
from tests.completions.providers.gemini import scripts as gemini
from tests.live.gateway import wait_until_settled
from tests.upstream import KEY_ENV, ROLE, Script, chunk, stream, streamed, usage, whole, words

PNG = "iVBORw0KGgo="
CALL = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a":1,"b":[2]}'}}
CALLED = {"a": 1, "b": [2]}
STREAMED = pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])


@dataclass(frozen=True)
class Kind:
    """One kind of provider: what it replies in its own format with text, and with a call of a tool."""

    suffix: str
    text: Script
    streamed_text: Script
    call: Script
    streamed_call: Script


def streamed_call() -> Script:
    first = {"index": 0, **CALL, "function": {"name": "add", "arguments": ""}}
    pieces = [{"index": 0, "function": {"arguments": piece}} for piece in ('{"a":', '1,"b":[2]}')]
    deltas = [chunk({"tool_calls": [each]}) for each in (first, *pieces)]
    return stream(ROLE, words("Let me see."), *deltas, chunk(finish_reason="tool_calls"), usage(), b"data: [DONE]\n\n")


KINDS = {
    "openai": Kind(
        "",
        whole("Hello you"),
        streamed("Hello ", "you"),
        whole(
            "Let me see.",
            message={"role": "assistant", "content": "Let me see.", "tool_calls": [CALL]},
            finish_reason="tool_calls",
        ),
        streamed_call(),
    ),
    "anthropic": Kind(
        "/v1",
        claude.whole(),
        claude.streamed(),
        claude.whole(
            claude.text_block("Let me see."), claude.tool_use_block("call_1", "add", **CALLED), stop_reason="tool_use"
        ),
        stream(
            claude.start(),
            claude.text("Let me see."),
            claude.tool("call_1", "add", '{"a":', '1,"b":[2]}', index=1),
            claude.message_delta("tool_use"),
            claude.STOP,
        ),
    ),
    "gemini": Kind(
        "/v1",
        gemini.whole("Hello you"),
        gemini.streamed(*gemini.HELLO),
        gemini.answered(
            gemini.response(
                {"text": "Let me see."}, gemini.call("add", CALLED, gemini.SIGNATURE), finish="STOP", usage=gemini.USAGE
            )
        ),
        gemini.streamed(
            gemini.text_response("Let me see."),
            gemini.response(gemini.call("add", CALLED, gemini.SIGNATURE), finish="STOP", usage=gemini.USAGE),
        ),
    ),
}


@pytest.fixture(params=KINDS)
def kind(request: Any, upstream: Any, alice: Any) -> Any:
    base_url = upstream.url.removesuffix(KINDS[request.param].suffix)
    provider = factories.make_provider("scripted", kind=request.param, base_url=base_url, api_key_env=KEY_ENV)
    names = {"openai": "large-2026", "anthropic": "claude-sonnet-4-5", "gemini": "gemini-3.5-flash"}
    factories.make_model(
        "acme/large",
        provider=provider,
        input="3.00",
        output="15.00",
        upstream_model=names[request.param],
        image_support=True,
        function_calling=True,
    )
    yield KINDS[request.param]
    wait_until_settled(alice)
