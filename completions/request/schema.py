"""The request body of POST /v1/chat/completions: JSON -> ChatRequest, or InvalidRequest whose ``param`` names the field.

Checked here is what the gateway itself understands, and what OpenAI's reference says precisely; every other field is kept for
providers that understand it. A null counts as absent, as OpenAI's clients expect. ``messages`` has a module of its own.
"""

from typing import Any

from django.conf import settings

from completions.chat import ChatRequest
from completions.request import messages
from completions.request.fields import (
    Fields,
    a_name,
    a_string,
    an_array,
    an_object,
    boolean,
    check_choice,
    check_number,
    integer,
    refuse,
    required,
    table,
)

MODEL_CHARACTERS_MAX = 200
MAX_TOKENS_MAX = 2**31 - 1
CHOICES_MAX = 16
STOPS_MAX = 16
TOOLS_MAX = 128
FALLBACKS_MAX = 5
REASONING_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
VERBOSITIES = ("low", "medium", "high")
RESPONSE_FORMATS = ("text", "json_object", "json_schema")
TOOL_CHOICES = ("none", "auto", "required")


def parse(fields: Fields, *, body_bytes: int) -> ChatRequest:
    """Check the body. Raises InvalidRequest."""
    stream = boolean(fields, "stream")
    _check_sampling(fields)
    _check_reply(fields)
    _check_tools(fields)
    _check_about(fields)
    model, said = _model(fields), _messages(fields)
    max_tokens_field = _max_tokens_field(fields)
    return ChatRequest(
        model=model,
        messages=said,
        max_tokens=integer(fields, max_tokens_field, 1, MAX_TOKENS_MAX),
        stream=stream,
        include_usage=_include_usage(fields, stream),
        fields=fields,
        body_bytes=body_bytes,
        max_tokens_field=max_tokens_field,
        choices=integer(fields, "n", 1, CHOICES_MAX) or 1,
        fallbacks=_fallbacks(fields, model),
        contents=messages.check(said, images_max=settings.REQUEST_IMAGES_MAX, remote_images=settings.REQUEST_REMOTE_IMAGES),
    )


def _model(fields: Fields) -> str:
    return _model_id(required(fields, "model"), "model")


def _model_id(value: Any, path: str) -> str:
    model_id = a_string(value, path)
    if not 0 < len(model_id) <= MODEL_CHARACTERS_MAX:
        refuse(path, f"must have 1 to {MODEL_CHARACTERS_MAX} characters")
    return model_id


def _fallbacks(fields: Fields, model: str) -> tuple[tuple[int, str], ...]:
    """``models``: who may answer when ``model`` cannot. What is named twice is asked once."""
    given = fields.get("models")
    if given is None:
        return ()
    if not isinstance(given, list) or len(given) > FALLBACKS_MAX:
        refuse("models", f"must be an array of at most {FALLBACKS_MAX} model ids")
    ids = [_model_id(each, f"models[{place}]") for place, each in enumerate(given)]
    return tuple((ids.index(each), each) for each in dict.fromkeys(ids) if each != model)


def _messages(fields: Fields) -> list[Fields]:
    given = an_array(required(fields, "messages"), "messages")
    if not 1 <= len(given) <= settings.REQUEST_MESSAGES_MAX:
        refuse("messages", f"must have 1 to {settings.REQUEST_MESSAGES_MAX} items")
    return given


def _max_tokens_field(fields: Fields) -> str:
    """The name that the cap came by: ``max_tokens``, or ``max_completion_tokens`` as OpenAI calls it today."""
    if fields.get("max_completion_tokens") is None:
        return "max_tokens"
    if fields.get("max_tokens") is not None:
        refuse("max_completion_tokens", "must not be given together with max_tokens")
    return "max_completion_tokens"


def _include_usage(fields: Fields, stream: bool) -> bool:
    options = fields.get("stream_options")
    if options is None:
        return False
    an_object(options, "stream_options")
    if not stream:
        refuse("stream_options", "is only allowed when stream is true")
    boolean(options, "include_obfuscation", within="stream_options.")
    return boolean(options, "include_usage", within="stream_options.")


# --- What is asked of the model --------------------------------------------------------------------------------------


def _check_sampling(fields: Fields) -> None:
    check_number(fields, "temperature", 0, 2)
    check_number(fields, "top_p", 0, 1)
    check_number(fields, "frequency_penalty", -2, 2)
    check_number(fields, "presence_penalty", -2, 2)
    integer(fields, "seed", -(2**63), 2**63 - 1)
    check_choice(fields, "reasoning_effort", REASONING_EFFORTS)
    check_choice(fields, "verbosity", VERBOSITIES)
    _check_logit_bias(fields)


def _check_logit_bias(fields: Fields) -> None:
    bias = table(fields, "logit_bias")
    for token, value in bias.items():
        if type(value) not in (int, float) or not -100 <= value <= 100:
            refuse(f"logit_bias.{token[:64]}", "must be a number between -100 and 100")


def _check_reply(fields: Fields) -> None:
    """What the reply is to look like."""
    _check_stop(fields)
    if not boolean(fields, "logprobs") and fields.get("top_logprobs") is not None:
        refuse("top_logprobs", "is only allowed when logprobs is true")
    integer(fields, "top_logprobs", 0, 20)
    if fields.get("modalities") not in (None, ["text"]):
        refuse("modalities", 'must be ["text"]: replies are text')
    if fields.get("audio") is not None:
        refuse("audio", "is not supported: replies are text")
    if fields.get("response_format") is not None:
        _check_response_format(table(fields, "response_format"))


def _check_stop(fields: Fields) -> None:
    stop = fields.get("stop")
    if stop is None or isinstance(stop, str):
        return
    if not isinstance(stop, list) or len(stop) > STOPS_MAX:
        refuse("stop", f"must be a string or an array of at most {STOPS_MAX} strings")
    for place, each in enumerate(stop):
        a_string(each, f"stop[{place}]")


def _check_response_format(wanted: Fields) -> None:
    kind = required(wanted, "type", "response_format")
    if kind not in RESPONSE_FORMATS:
        refuse("response_format.type", f"must be one of {', '.join(RESPONSE_FORMATS)}")
    if kind == "json_schema":
        schema = an_object(required(wanted, "json_schema", "response_format"), "response_format.json_schema")
        a_name(required(schema, "name", "response_format.json_schema"), "response_format.json_schema.name")
        table(schema, "schema", within="response_format.json_schema.")


# --- Tools ----------------------------------------------------------------------------------------------------------


def _check_tools(fields: Fields) -> None:
    names = _tool_names(fields, "tools") | _tool_names(fields, "functions")
    boolean(fields, "parallel_tool_calls")
    choice = fields.get("tool_choice")
    if choice is None:
        return
    if not names:
        refuse("tool_choice", "is only allowed with tools")
    if isinstance(choice, dict):
        _check_chosen(choice, names)
    elif choice not in TOOL_CHOICES:
        refuse("tool_choice", f"must be one of {', '.join(TOOL_CHOICES)}, or name a function")


def _check_chosen(choice: Fields, names: set[str]) -> None:
    if choice.get("type") != "function":
        return  # allowed_tools, custom: providers know them, or say that they do not
    function = an_object(required(choice, "function", "tool_choice"), "tool_choice.function")
    name = required(function, "name", "tool_choice.function")
    if not isinstance(name, str) or name not in names:
        refuse("tool_choice.function.name", "must be the name of one of the tools")


def _tool_names(fields: Fields, field: str) -> set[str]:
    """The functions that are declared; OpenAI's older field has them without a wrapping."""
    given = fields.get(field)
    if given is None:
        return set()
    if not isinstance(given, list) or not 1 <= len(given) <= TOOLS_MAX:
        refuse(field, f"must be an array of 1 to {TOOLS_MAX} {field}")
    return {_function_name(tool, field, place) for place, tool in enumerate(given)}


def _function_name(tool: Any, field: str, place: int) -> str:
    path = f"{field}[{place}]"
    function = an_object(tool, path)
    if field == "tools":
        kind = required(tool, "type", path)
        if kind == "custom":
            return ""
        if kind != "function":
            refuse(f"{path}.type", "must be function")
        function, path = an_object(required(tool, "function", path), f"{path}.function"), f"{path}.function"
    table(function, "parameters", within=f"{path}.")
    return a_name(required(function, "name", path), f"{path}.name")


# --- About the request ------------------------------------------------------------------------------------------------


def _check_about(fields: Fields) -> None:
    for name in ("user", "safety_identifier", "prompt_cache_key"):
        if fields.get(name) is not None:
            a_string(fields[name], name)
    boolean(fields, "store")
    metadata = table(fields, "metadata")
    if len(metadata) > 16:
        refuse("metadata", "must have at most 16 entries")
    for name, value in metadata.items():
        if not isinstance(value, str) or len(value) > 512 or len(name) > 64:
            refuse(f"metadata.{name[:64]}", "must be a string of at most 512 characters, under a name of at most 64")
