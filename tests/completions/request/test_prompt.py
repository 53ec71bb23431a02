"""The size of the prompt that a hold pays for: an upper bound of what is sent, and never more than the body."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from completions import estimates
from completions.providers.anthropic import request as anthropic_request
from completions.providers.gemini import request as gemini_request
from completions.providers.openai import request as openai_request
from completions.request import schema
from tests import chat
from tests.completions.offers import make_call, make_offer
from tests.completions.routes import change_provider
from tests.completions.rows import MESSAGES, ask

INPUT, OUTPUT = 3_000, 15_000  # nanodollars a token
BASE = {"max_tokens": 10}
IMAGE = "data:image/png;base64,AAAA"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "find",
            "description": 'Finds "it".\nReally.',
            "parameters": {"type": "object", "properties": {"é": {"type": "string"}}},
        },
    }
]


def held_tokens(account: Any) -> int:
    """Return the prompt tokens that the only hold pays for."""
    return (account.holds.get().amount_nanos - 10 * OUTPUT) // INPUT


def utf8(text: str) -> int:
    return len(text.encode())


def compact(value: Any) -> int:
    return utf8(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def held_as_json(fields: dict[str, Any]) -> int:
    """Return what the documentation promises to hold for fields that a provider reads as JSON."""
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))[1:-1]
    return utf8(text) + 6 * sum(map(text.count, ",[]{}")) + text.count(":")


# --- Over HTTP ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("large", "upstream")
@pytest.mark.parametrize(
    "fields",
    [
        {"metadata": {"session": "x" * 500}},
        {"user": "x" * 500},
        {"safety_identifier": "x" * 500, "prompt_cache_key": "x" * 5_000},
        {"temperature": 0.25, "top_p": 0.5, "seed": 123_456_789, "logit_bias": {str(token): -1 for token in range(200)}},
        {"stop": ["x" * 500], "n": None, "verbosity": "low"},
        {"prediction": {"type": "content", "content": "x" * 5_000}},  # never sent
        {"models": ["acme/large"] * 5},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_fields_that_are_no_part_of_the_prompt_are_not_held(api, alice, fields):
    assert ask(api, **BASE, **fields).status_code == 200
    assert held_tokens(alice) == 18 + 20 + 24


@pytest.mark.usefixtures("large", "upstream")
def test_white_space_and_escapes_of_the_body_are_not_held(api, alice):
    content = "é" * 100 + "\n" * 100 + "日本" * 100
    body = {"model": "acme/large", "messages": [{"role": "user", "content": content}], **BASE}
    raw = json.dumps(body, ensure_ascii=True, indent=8).encode()
    assert len(raw) > 2_000
    assert chat.send(api, raw).status_code == 200
    assert held_tokens(alice) == utf8(content) + 20 + 24 == 944


@pytest.mark.usefixtures("upstream")
def test_tools_and_schemas_are_held_as_json_and_for_what_a_provider_says_of_them(api, alice, large):
    large.function_calling = True
    large.save()
    response_format = {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object"}}}
    assert ask(api, **BASE, tools=TOOLS, response_format=response_format).status_code == 200
    assert held_tokens(alice) == 62 + 1_024 + held_as_json({"tools": TOOLS, "response_format": response_format})


@pytest.mark.usefixtures("upstream")
def test_calls_and_results_of_tools_are_held_as_json(api, alice, large):
    large.function_calling = True
    large.save()
    calls = [{"id": "call_1", "type": "function", "function": {"name": "find", "arguments": '{"what": "é"}'}}]
    result = 'line "one"\nline two\x01'
    messages = [
        *MESSAGES,
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "call_1", "content": result},
    ]
    assert ask(api, **BASE, messages=messages, tools=TOOLS).status_code == 200
    others = [{"tool_calls": calls}, {"tool_call_id": "call_1"}, {"tools": TOOLS}, result]
    counted = sum(held_as_json(other) if isinstance(other, dict) else compact(other) - 2 for other in others)
    assert held_tokens(alice) == 24 + 3 * 20 + 18 + 1_024 + counted


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(
    ("fields", "counted"),
    [
        ({"documents": ["é" * 50]}, {"documents": ["é" * 50]}),
        ({"messages": [{**MESSAGES[0], "reasoning_content": "x" * 50}]}, {"reasoning_content": "x" * 50}),
        ({"messages": [{**MESSAGES[0], "name": "Alice"}]}, {"name": "Alice"}),
    ],
)
def test_unknown_fields_that_are_sent_are_held(api, alice, large, upstream, fields, counted):
    change_provider(large, passes_unknown_fields=True)
    assert ask(api, **BASE, **fields).status_code == 200
    assert held_tokens(alice) == 62 + held_as_json(counted)
    assert json.dumps(counted)[1:-1] in json.dumps(upstream.requests[0].body)


@pytest.mark.usefixtures("large")
def test_text_beside_the_text_of_a_part_is_held(api, alice, upstream):
    part = {"type": "text", "text": "Say hello, please.", "refusal": "x" * 50}  # unknown in a text, and sent on
    assert ask(api, **BASE, messages=[{"role": "user", "content": [part]}]).status_code == 200
    assert held_tokens(alice) == 62 + 8 + held_as_json({"refusal": "x" * 50})


@pytest.mark.parametrize(
    ("fields", "held"),
    [
        ({"response_format": {"type": "json_object"}}, 1_024),
        ({"response_format": {"type": "text"}}, 0),
        ({"functions": [TOOLS[0]["function"]]}, 1_024),
    ],
    ids=["json", "text", "functions"],
)
def test_only_tools_and_formats_are_held_for_what_a_provider_says_of_them(api, alice, upstream, large, fields, held):
    large.function_calling = True
    large.save()
    assert ask(api, **BASE, **fields).status_code == 200
    assert held_tokens(alice) == 62 + held + held_as_json(fields)


@pytest.mark.usefixtures("upstream")
@pytest.mark.parametrize("sized", [{"max_pixels": 12_845_056}, {"image_url": {"url": IMAGE, "max_dynamic_patch": 99}}])
def test_an_image_of_a_size_that_the_caller_chose_is_held_as_all_that_the_model_reads(api, alice, large, sized):
    large.image_support, large.context_window = True, 50_000
    large.save()
    part = {"type": "image_url", "image_url": {"url": IMAGE}, **sized}
    assert ask(api, **BASE, messages=[{"role": "user", "content": [part]}]).status_code == 200
    assert held_tokens(alice) == 50_000 + large.image_tokens_max  # images are billed beside what the model reads


@pytest.mark.parametrize("field", ["mm_processor_kwargs", "media_io_kwargs", "vl_high_resolution_images"])
def test_fields_that_change_how_many_tokens_an_image_is_are_not_sent(api, large, upstream, field):
    change_provider(large, passes_unknown_fields=True)
    assert ask(api, **{field: {"max_pixels": 10**9}}).status_code == 200
    assert field not in upstream.requests[0].body


@pytest.mark.usefixtures("large")
def test_a_chat_template_of_the_caller_is_not_sent(api, upstream):
    """It could repeat the prompt any number of times, which no hold pays for."""
    assert ask(api, chat_template="{% for i in range(9999) %}{{ messages }}{% endfor %}").status_code == 200
    assert "chat_template" not in upstream.requests[0].body


few = settings(max_examples=40)  # to draw a body takes a tenth of a second

# --- For any request ------------------------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=30)
NAMES = st.text("abcXYZ_09", min_size=1, max_size=10)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 10**20) | TEXT,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(TEXT, values, max_size=3),
    max_leaves=6,
)
SCHEMAS = st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.dictionaries(TEXT, st.fixed_dictionaries({"description": TEXT}), max_size=3)},
    optional={"description": TEXT, "title": TEXT},
)
FUNCTIONS = st.fixed_dictionaries({"name": NAMES}, optional={"description": TEXT, "parameters": SCHEMAS})
TOOL_LISTS = st.lists(st.fixed_dictionaries({"type": st.just("function"), "function": FUNCTIONS}), min_size=1, max_size=3)
ARGUMENTS = st.dictionaries(TEXT, TEXT, max_size=3).map(json.dumps)
TEXT_PARTS = st.fixed_dictionaries({"type": st.just("text"), "text": TEXT})
CONTENTS = TEXT | st.lists(TEXT_PARTS, min_size=1, max_size=3)
ASKING = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "developer", "user", "assistant"]), "content": CONTENTS}, optional={"name": NAMES}
)
UNPROMPTED = st.fixed_dictionaries(
    {},
    optional={"user": TEXT, "metadata": st.dictionaries(NAMES, TEXT, max_size=3), "temperature": st.just(1), "stop": NAMES},
)


@st.composite
def calling(draw: st.DrawFn, number: int) -> list[dict[str, Any]]:
    """A call of a tool, and its result."""
    function = {"name": draw(NAMES), "arguments": draw(ARGUMENTS)}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    result = {"role": "tool", "tool_call_id": call["id"], "content": draw(CONTENTS)}
    return [{"role": "assistant", "content": draw(st.none() | TEXT), "tool_calls": [call]}, result]


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, Any]:
    messages = [{"role": "user", "content": "."}, *draw(st.lists(ASKING, max_size=4))]
    for number in range(draw(st.integers(0, 2))):
        messages += draw(calling(number))
    known = {"tools": TOOL_LISTS, "response_format": st.just({"type": "text"})}
    fields = draw(st.fixed_dictionaries({}, optional=known))
    return {"model": "m", "messages": messages, **fields, **draw(UNPROMPTED)}


def strings(value: Any) -> list[str]:
    """Return all strings in a value, names of fields included."""
    if isinstance(value, dict):
        return [each for name, item in value.items() for each in [name, *strings(item)]]
    if isinstance(value, list):
        return [each for item in value for each in strings(item)]
    return [value] if isinstance(value, str) else []


def written(value: Any) -> int:
    return sum(map(utf8, strings(value)))


def rendered(body: dict[str, Any]) -> int:
    """Return the tokens of the prompt that a chat template writes, if each byte is a token: the most that can be billed for it.

    Llama 3 has the most control tokens: <|start_header_id|>user<|end_header_id|>, a blank line, <|eot_id|>.
    """
    tokens = 5  # the header of the reply
    for message in body["messages"]:
        content = message.get("content") or ""
        text = content if isinstance(content, str) else "\n".join(part["text"] for part in content)
        others = {name: value for name, value in message.items() if name not in ("role", "content")}
        tokens += 7 + utf8(json.dumps(text, ensure_ascii=False)[1:-1] if message["role"] == "tool" else text)
        tokens += compact(others) - 2 if others else 0
    return tokens + sum(max(layouts(body[name])) for name in ("tools", "response_format", "documents") if name in body)


def layouts(value: Any) -> list[int]:
    """Return the tokens of JSON on one line with blanks, and of indented JSON: of its text each byte, and its white space.

    Of that each newline, each 64 blanks or less after it, and the last of them, which stays alone before a digit.
    """
    indented = json.dumps(value, ensure_ascii=False, indent=4)
    lines = [len(line) - len(line.lstrip(" ")) for line in indented.split("\n")[1:]]
    blanks = sum(1 + -(-(indent - 1) // 64) + 1 if indent else 1 for indent in lines) - sum(lines) - len(lines)
    return [utf8(json.dumps(value, ensure_ascii=False)), utf8(indented) + blanks]


@few
@given(bodies(), st.dictionaries(st.just("documents"), VALUES))
def test_the_bound_covers_what_a_template_renders(body, unknown):
    request = schema.parse({**body, **unknown})
    sent = openai_request.body(make_call(request, make_offer(), 10), stream=False)
    assert rendered(sent) <= estimates.max_prompt_tokens(request, make_offer())


def nested(levels: int) -> Any:
    return [1, 1, nested(levels - 1)] if levels else [1] * 500


@pytest.mark.parametrize("levels", [0, 1, 20, 55])
def test_the_bound_covers_arrays_that_a_template_writes_on_lines_of_their_own(levels):
    parameters = {"type": "object", "properties": {"x": {"enum": nested(levels)}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    request = schema.parse({"model": "m", "messages": [{"role": "user", "content": ""}], "tools": tools})
    assert max(layouts(tools)) > compact(tools)
    assert max(layouts(tools)) <= estimates.max_prompt_tokens(request, make_offer())


TRANSLATED = {
    "anthropic": (anthropic_request.body, ("system", "messages", "tools")),
    "gemini": (gemini_request.body, ("systemInstruction", "contents", "tools")),
}
# Words of the wire format, which are no part of the prompt.
WORDS = (
    "type",
    "text",
    "role",
    "user",
    "assistant",
    "model",
    "parts",
    "functionDeclarations",
    "content",
    "tool_use",
    "tool_result",
)


@pytest.mark.parametrize("kind", TRANSLATED)
@few
@given(body=bodies())
def test_the_bound_covers_every_string_that_is_sent_in_another_format(kind, body):
    make_body, prompt_fields = TRANSLATED[kind]
    request = schema.parse(body)
    sent = make_body(make_call(request, make_offer(), 10), stream=False)
    texts = [text for name in prompt_fields for text in strings(sent.get(name)) if text not in WORDS]
    assert sum(map(utf8, texts)) <= estimates.max_prompt_tokens(request, make_offer())


@few
@given(bodies(), st.dictionaries(NAMES, VALUES, max_size=2))
def test_the_bound_is_at_most_the_body_as_json_and_at_least_the_estimate(body, unknown):
    body = {**unknown, **body}
    request = schema.parse(body)
    assert request.prompt_tokens_max <= held_as_json(body)
    assert estimates.estimate_prompt_tokens(request, make_offer()) <= estimates.max_prompt_tokens(request, make_offer())


@given(st.lists(st.sampled_from(["user", "system", "assistant"]), min_size=1, max_size=50), st.booleans())
def test_the_bound_of_the_shortest_messages_is_at_most_the_body(roles, has_parts):
    content = [{"type": "text", "text": ""}] if has_parts else ""
    body = {"model": "m", "messages": [{"role": role, "content": content} for role in roles]}
    assert schema.parse(body).prompt_tokens_max <= compact(body)
