"""A chat request in Anthropic's words: what is sent, what is left out, and what is refused, by the name of the field."""

import pytest

from completions.chat import ChatRequest
from completions.providers.anthropic import request as anthropic_request
from gateway_project.errors import InvalidRequest
from tests.completions.offers import make_call, make_offer

HELLO = {"role": "user", "content": "Hello"}
PNG = "data:image/png;base64,iVBORw0KGgo="
PDF = "data:application/pdf;base64,JVBERi0="
NEWEST, SAMPLING, BUDGET, OLD = "claude-opus-5-5", "claude-opus-4-6", "claude-haiku-4-5-20251001", "claude-3-5-sonnet-20241022"


def request(*messages, **fields):
    messages = list(messages or [HELLO])
    fields = {"model": "m", "messages": messages, **fields}
    return ChatRequest("m", messages, None, stream=False, include_usage=False, fields=fields, body_bytes=1)


def body(*messages, model=BUDGET, max_tokens=4_096, **fields):
    offer = make_offer("anthropic", model)
    asked = request(*messages, **fields)
    anthropic_request.check(asked)
    return anthropic_request.body(make_call(asked, offer, max_tokens), stream=False)


def turns(*messages):
    return body(*messages)["messages"]


def text(value, **fields):
    return {"type": "text", "text": value, **fields}


# --- The conversation --------------------------------------------------------------------------------------------


def test_all_instructions_are_collected_in_their_order_wherever_they_stand():
    late = {"role": "developer", "content": [text("Be kind."), text("")]}
    asked = body({"role": "system", "content": "Be brief."}, HELLO, late, {"role": "system", "content": ""})
    assert asked["system"] == [text("Be brief."), text("Be kind.")]
    assert asked["messages"] == [{"role": "user", "content": [text("Hello")]}]


def test_without_instructions_there_is_no_system():
    assert "system" not in body()


def test_messages_of_one_speaker_in_a_row_are_one_turn():
    assert turns(HELLO, HELLO, {"role": "assistant", "content": "Hi"}, {"role": "assistant", "content": "!"}, HELLO) == [
        {"role": "user", "content": [text("Hello"), text("Hello")]},
        {"role": "assistant", "content": [text("Hi"), text("!")]},
        {"role": "user", "content": [text("Hello")]},
    ]


def test_empty_text_is_left_out_and_so_is_a_message_of_nothing_else():
    empty = [{"role": "assistant", "content": ""}, {"role": "assistant", "content": None}, {"role": "user", "content": []}]
    assert turns(HELLO, *empty, {"role": "user", "content": [text(""), text(" ")]}) == [
        {"role": "user", "content": [text("Hello"), text(" ")]}
    ]


@pytest.mark.parametrize(("given", "sent"), [("The answer is: \n", "The answer is:"), ("x", "x")])
def test_a_reply_to_be_continued_ends_without_white_space(given, sent):
    assert turns(HELLO, {"role": "assistant", "content": given})[-1] == {"role": "assistant", "content": [text(sent)]}


def test_a_reply_to_be_continued_that_is_all_white_space_is_none():
    assert turns(HELLO, {"role": "assistant", "content": " \n"}) == [{"role": "user", "content": [text("Hello")]}]
    assert turns(HELLO, {"role": "assistant", "content": " "}, HELLO)[1]["content"] == [text(" ")]


def test_images_and_documents_are_sent_as_their_data():
    parts = [
        text("What is this?"),
        {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}},
        {"type": "file", "file": {"file_data": PDF, "filename": "bill.pdf"}},
        {"type": "file", "file": {"file_data": PDF}},
    ]
    document = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}}
    assert turns({"role": "user", "content": parts})[0]["content"] == [
        text("What is this?"),
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
        {**document, "title": "bill.pdf"},
        document,
    ]


def test_a_mark_for_the_cache_is_passed_on_for_as_long_as_the_price_is_for():
    mark = {"cache_control": {"type": "ephemeral"}}
    longer = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    tool = {"type": "function", "function": {"name": "f"}, **longer}
    image = {"type": "image_url", "image_url": {"url": PNG}, **mark}
    asked = body(
        {"role": "system", "content": [text("Be brief.", **longer)]},
        {"role": "user", "content": [image, text("a", cache_control={"type": "for ever"})]},
        tools=[tool],
        **longer,
    )
    assert asked["system"] == [text("Be brief.", **mark)]
    assert asked["messages"][0]["content"][0]["cache_control"] == {"type": "ephemeral"}
    assert asked["messages"][0]["content"][1] == text("a")
    assert asked["tools"][0]["cache_control"] == {"type": "ephemeral"}
    assert asked["cache_control"] == {"type": "ephemeral"}


# --- Tools -------------------------------------------------------------------------------------------------------


def calling(*calls):
    made = [{"id": i, "type": "function", "function": {"name": "weather", "arguments": given}} for i, given in calls]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(tool_id, content):
    return {"role": "tool", "tool_call_id": tool_id, "content": content}


def test_calls_and_their_results_are_blocks_of_the_two_turns():
    image = {"type": "image_url", "image_url": {"url": PNG}}
    called = calling(("a", '{"city":"Köln"}'), ("call|b", ""))
    conversation = [HELLO, called, result("a", "12 °C"), result("call|b", [text("a map"), image]), HELLO]
    assert turns(*conversation)[1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "a", "name": "weather", "input": {"city": "Köln"}},
                {"type": "tool_use", "id": "call_b", "name": "weather", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": [text("12 °C")]},
                {
                    "type": "tool_result",
                    "tool_use_id": "call_b",
                    "content": [
                        text("a map"),
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
                    ],
                },
                text("Hello"),
            ],
        },
    ]


def test_a_result_of_nothing_is_a_result():
    assert turns(HELLO, calling(("a", "{}")), result("a", ""))[-1]["content"] == [{"type": "tool_result", "tool_use_id": "a"}]


def test_what_was_said_beside_a_call_comes_before_it():
    blocks = turns(HELLO, {**calling(("a", "{}")), "content": "Let me see. "})[-1]["content"]
    assert [block["type"] for block in blocks] == ["text", "tool_use"]


WEATHER = {"type": "function", "function": {"name": "weather", "description": "Of a city", "parameters": {"type": "object"}}}


def test_tools_are_described_by_their_schema():
    bare = {"type": "function", "function": {"name": "time", "strict": True}}
    assert body(tools=[WEATHER, bare])["tools"] == [
        {"name": "weather", "description": "Of a city", "input_schema": {"type": "object"}},
        {"name": "time", "input_schema": {"type": "object", "properties": {}}, "strict": True},
    ]


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (None, None),
        ("auto", {"type": "auto"}),
        ("required", {"type": "any"}),
        ("none", {"type": "none"}),
        ({"type": "function", "function": {"name": "weather"}}, {"type": "tool", "name": "weather"}),
    ],
    ids=["absent", "auto", "required", "none", "named"],
)
def test_a_choice_of_tools_is_told_in_anthropics_words(choice, sent):
    assert body(tools=[WEATHER], tool_choice=choice).get("tool_choice") == sent
    alone = {} if choice == "none" else {"disable_parallel_tool_use": True}
    one_by_one = body(tools=[WEATHER], tool_choice=choice, parallel_tool_calls=False)["tool_choice"]
    assert one_by_one == {**(sent or {"type": "auto"}), **alone}
    assert body(tools=[WEATHER], tool_choice=choice, parallel_tool_calls=True).get("tool_choice") == sent


@pytest.mark.parametrize("fields", [{"tools": []}, {"tools": None}, {"tool_choice": "auto"}, {"parallel_tool_calls": False}])
def test_without_tools_nothing_is_said_of_them(fields):
    assert not {"tools", "tool_choice"} & set(body(**fields))


# --- Everything else ---------------------------------------------------------------------------------------------


def test_only_what_is_known_to_be_paid_for_is_sent():
    unpaid = {
        name: "x"
        for name in [
            "service_tier",
            "container",
            "mcp_servers",
            "context_management",
            "speed",
            "fallbacks",
            "inference_geo",
            "models",
            "store",
            "prediction",
            "web_search_options",
            "verbosity",
            "seed",
            "frequency_penalty",
            "presence_penalty",
            "logit_bias",
            "stream_options",
            "echo",
            "thinking",
            "output_config",
            "max_completion_tokens",
            "strange",
            "system",
        ]
    }
    assert body(**unpaid, n=1, logprobs=False, modalities=["text"], response_format={"type": "text"}) == {
        "model": BUDGET,
        "max_tokens": 4_096,
        "stream": False,
        "messages": [{"role": "user", "content": [text("Hello")]}],
    }


@pytest.mark.parametrize(("stop", "sent"), [("END", ["END"]), (["a", "b "], ["a", "b "]), ([], None), (None, None)])
def test_stop_is_a_list_of_sequences(stop, sent):
    assert body(stop=stop).get("stop_sequences") == sent


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({"temperature": 0.5}, {"temperature": 0.5}),
        ({"temperature": 1.7}, {"temperature": 1}),
        ({"temperature": 0}, {"temperature": 0}),
        ({"top_p": 0.3}, {"top_p": 0.3}),
        ({"temperature": 0.5, "top_p": 0.3}, {"temperature": 0.5}),
        ({"temperature": None, "top_p": 0.3}, {"top_p": 0.3}),
    ],
)
def test_the_choice_of_words_is_told_by_one_number_to_models_that_take_it(fields, sent):
    def sampling(model, **more):
        asked = body(model=model, **fields, **more)
        return {name: asked[name] for name in ("temperature", "top_p") if name in asked}

    assert sampling(SAMPLING) == sampling(BUDGET) == sampling(OLD) == sent
    assert sampling("claude-opus-4-7") == sampling(NEWEST) == sampling("our-claude") == {}
    assert sampling(BUDGET, reasoning_effort="low") == {}


def test_a_json_schema_is_the_format_of_the_output():
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": {"type": "object"}}}
    sent = {"format": {"type": "json_schema", "schema": {"type": "object"}}}
    assert body(response_format=wanted)["output_config"] == sent
    assert body(model=NEWEST, response_format=wanted, reasoning_effort="low")["output_config"] == {"effort": "low", **sent}


@pytest.mark.parametrize(
    ("fields", "user_id"),
    [
        ({"user": "u"}, "u"),
        ({"safety_identifier": "s", "user": "u"}, "s"),
        ({"metadata": {"user_id": "m", "more": "x"}, "user": "u"}, "m"),
        ({"metadata": {"more": "x"}}, None),
        ({"metadata": "x", "user": ""}, None),
    ],
)
def test_the_user_is_named_by_an_id(fields, user_id):
    assert body(**fields).get("metadata") == (None if user_id is None else {"user_id": user_id})


# --- Thinking ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("effort", "max_tokens", "budget"),
    [
        ("minimal", 4_096, 1_024),
        ("low", 20_000, 4_000),
        ("medium", 20_000, 10_000),
        ("high", 20_000, 16_000),
        ("xhigh", 20_000, 19_000),
        ("high", 64_000, 32_000),
        ("high", 1_025, 1_024),
        ("low", 1_024, None),
        ("xhigh", 500, None),
    ],
)
def test_an_effort_is_a_budget_that_fits_below_the_cap_or_nothing(effort, max_tokens, budget):
    asked = body(model=BUDGET, max_tokens=max_tokens, reasoning_effort=effort)
    assert asked.get("thinking") == (None if budget is None else {"type": "enabled", "budget_tokens": budget})
    assert asked["max_tokens"] == max_tokens
    assert "output_config" not in asked


ADAPTIVE = {"type": "adaptive", "display": "summarized"}
EFFORTS = [("minimal", "low"), ("low", "low"), ("medium", "medium"), ("high", "high"), ("xhigh", "xhigh")]


@pytest.mark.parametrize(("effort", "sent"), EFFORTS)
@pytest.mark.parametrize("model", ["claude-opus-4-7", "claude-sonnet-5", NEWEST, "claude-fable-5", "anthropic/claude-opus-4.8"])
def test_newer_models_are_told_the_effort_itself(model, effort, sent):
    asked = body(model=model, max_tokens=100, reasoning_effort=effort)
    assert (asked["thinking"], asked["output_config"]) == (ADAPTIVE, {"effort": sent})


def test_the_first_model_of_efforts_knows_one_less():
    assert body(model=SAMPLING, reasoning_effort="xhigh")["output_config"] == {"effort": "high"}


@pytest.mark.parametrize("model", ["claude-3-haiku-20240307", OLD, "claude-2.1"])
def test_models_that_cannot_think_are_not_told_to(model):
    assert "thinking" not in body(model=model, reasoning_effort="high")


@pytest.mark.parametrize(
    ("model", "sent"),
    [
        (NEWEST, {"type": "disabled"}),
        ("claude-sonnet-5", {"type": "disabled"}),
        ("claude-opus-4-8", None),
        (BUDGET, None),
        ("claude-fable-5", None),
        ("claude-mythos-5", None),
        ("our-claude", None),
    ],
)
def test_no_effort_is_said_to_those_who_would_think_and_can_be_told_not_to(model, sent):
    asked = body(model=model, reasoning_effort="none")
    assert asked.get("thinking") == sent
    assert "output_config" not in asked
    assert "thinking" not in body(model=model)


@pytest.mark.parametrize(("model", "thinks"), [(BUDGET, False), (SAMPLING, False), ("claude-opus-4-7", False), (NEWEST, True)])
def test_thinking_is_left_off_where_a_tool_is_forced_on_a_model_that_refuses_both(model, thinks):
    asked = body(model=model, tools=[WEATHER], tool_choice="required", reasoning_effort="high")
    assert ("thinking" in asked) == thinks
    assert "thinking" in body(model=model, tools=[WEATHER], tool_choice="auto", reasoning_effort="high")


@pytest.mark.parametrize(("model", "thinks"), [(BUDGET, False), (NEWEST, True)])
def test_thinking_is_left_off_where_thoughts_before_a_call_would_be_wanted_back(model, thinks):
    asked = [HELLO, calling(("a", "{}")), result("a", "12 °C")]
    assert ("thinking" in body(*asked, model=model, reasoning_effort="high")) == thinks
    done = [*asked, {"role": "assistant", "content": "12 °C"}, HELLO]
    assert "thinking" in body(*done, model=model, reasoning_effort="high")


# --- What is refused ---------------------------------------------------------------------------------------------


def part(**fields):
    return {"role": "user", "content": [text("x"), fields]}


def made(**fields):
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}, **fields}
    return {"role": "assistant", "tool_calls": [call]}


IMAGE, FILE = "messages[0].content[1].image_url", "messages[0].content[1].file"
MESSAGES = {
    "instructions alone": ({"role": "system", "content": "x"}, "messages"),
    "nothing said": ({"role": "user", "content": ""}, "messages"),
    "a picture to be fetched": (part(type="image_url", image_url={"url": "https://example.org/a.png"}), f"{IMAGE}.url"),
    "a picture in no base64": (part(type="image_url", image_url={"url": "data:image/png,x"}), f"{IMAGE}.url"),
    "a picture of another kind": (part(type="image_url", image_url={"url": "data:image/tiff;base64,x"}), f"{IMAGE}.url"),
    "a picture without address": (part(type="image_url", image_url={}), f"{IMAGE}.url"),
    "a picture as text": (part(type="image_url", image_url=PNG), IMAGE),
    "a file by its id": (part(type="file", file={"file_id": "f"}), f"{FILE}.file_data"),
    "a file that is no PDF": (part(type="file", file={"file_data": "data:text/plain;base64,eA=="}), f"{FILE}.file_data"),
    "sound": (part(type="input_audio", input_audio={"data": "", "format": "wav"}), "messages[0].content[1].type"),
    "a part of no type": (part(), "messages[0].content[1].type"),
    "a part that is none": ({"role": "user", "content": [7]}, "messages[0].content[0]"),
    "text that is none": (part(type="text", text=7), "messages[0].content[1].text"),
    "content that is none": ({"role": "user", "content": 7}, "messages[0].content"),
    "a picture in instructions": ({"role": "system", "content": [{"type": "image_url"}]}, "messages[0].content[0].type"),
    "a picture by the assistant": ({"role": "assistant", "content": [{"type": "image_url"}]}, "messages[0].content[0].type"),
    "the role of old": ({"role": "function", "name": "f", "content": "x"}, "messages[0].role"),
    "a call of old": ({"role": "assistant", "function_call": {"name": "f"}}, "messages[0].function_call"),
    "calls that are none": ({"role": "assistant", "tool_calls": 7}, "messages[0].tool_calls"),
    "a call of another type": (made(type="custom"), "messages[0].tool_calls[0].type"),
    "a call without id": (made(id=None), "messages[0].tool_calls[0].id"),
    "a call without function": (made(function=None), "messages[0].tool_calls[0].function"),
    "a call without name": (made(function={}), "messages[0].tool_calls[0].function.name"),
    "a result without id": ({"role": "tool", "content": "x"}, "messages[0].tool_call_id"),
}


@pytest.mark.parametrize(("message", "param"), MESSAGES.values(), ids=MESSAGES.keys())
def test_what_a_message_cannot_say_there_is_refused_by_the_name_of_the_part(message, param):
    with pytest.raises(InvalidRequest) as caught:
        anthropic_request.check(request(message))
    assert caught.value.param == param
    assert caught.value.message.startswith(param)


@pytest.mark.parametrize("arguments", ["{", "[1]", "null", '"x"', "[" * 90_000, 7], ids=lambda value: str(value)[:4])
def test_arguments_that_are_no_object_are_refused(arguments):
    with pytest.raises(InvalidRequest) as caught:
        anthropic_request.check(request(HELLO, made(function={"name": "f", "arguments": arguments})))
    assert caught.value.param == "messages[1].tool_calls[0].function.arguments"


FIELDS = {
    "n": ({"n": 2}, "n"),
    "logprobs": ({"logprobs": True}, "logprobs"),
    "top_logprobs": ({"top_logprobs": 3}, "top_logprobs"),
    "audio": ({"audio": {"voice": "alloy"}}, "audio"),
    "modalities": ({"modalities": ["text", "audio"]}, "modalities"),
    "functions": ({"functions": [{"name": "f"}]}, "functions"),
    "JSON without schema": ({"response_format": {"type": "json_object"}}, "response_format.type"),
    "format as text": ({"response_format": "json"}, "response_format.type"),
    "no schema": ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema"),
    "white space": ({"stop": ["END", "\n\n"]}, "stop"),
    "empty stop": ({"stop": ""}, "stop"),
    "stop at numbers": ({"stop": [7]}, "stop"),
    "effort": ({"reasoning_effort": "utmost"}, "reasoning_effort"),
    "effort as list": ({"reasoning_effort": []}, "reasoning_effort"),
    "tools": ({"tools": "x"}, "tools"),
    "tool of another type": ({"tools": [{"type": "custom", "custom": {"name": "f"}}]}, "tools[0].type"),
    "tool without name": ({"tools": [WEATHER, {"type": "function", "function": {}}]}, "tools[1].function.name"),
    "choice without tools": ({"tool_choice": "required"}, "tool_choice"),
    "choice among tools": ({"tools": [WEATHER], "tool_choice": {"type": "allowed_tools"}}, "tool_choice"),
    "unknown choice": ({"tools": [WEATHER], "tool_choice": "any"}, "tool_choice"),
}


@pytest.mark.parametrize(("fields", "param"), FIELDS.values(), ids=FIELDS.keys())
def test_what_would_not_be_done_as_asked_is_refused_by_the_name_of_the_field(fields, param):
    with pytest.raises(InvalidRequest) as caught:
        anthropic_request.check(request(**fields))
    assert caught.value.param == param
    assert caught.value.message.startswith(param)
