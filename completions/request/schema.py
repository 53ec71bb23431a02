"""Parses the request body of POST /v1/chat/completions into a ChatRequest. Raises InvalidRequest, whose ``param`` is the field.

Checked are the fields that the gateway itself understands and those that OpenAI's reference defines precisely. All other fields
are kept unchecked for the providers that understand them. A null counts as absent, as OpenAI's clients expect.

Adapters rely on the following and do not check it again; each field may also be absent or null.

``temperature``, ``top_p``, ``frequency_penalty``, ``presence_penalty``  numbers in OpenAI's ranges
``seed``, ``n``, ``top_logprobs``  integers in range; ``top_logprobs`` comes only with ``logprobs``
``reasoning_effort``, ``verbosity``  one of REASONING_EFFORTS, of VERBOSITIES; instead of the first, adapters read
  ``ChatRequest.reasoning``, because the field ``reasoning`` may say it, too
``logit_bias``  numbers by token
``stop``  a string or an array of at most STOPS_MAX strings, any of which may be empty
``stream``, ``logprobs``, ``parallel_tool_calls``, ``store``  booleans
``modalities``  ["text"]; ``audio`` is never there
``response_format``  an object of a known type; with json_schema, a name, and a schema that is an object or absent
``tools``  1 to TOOLS_MAX objects of type function, with a name, a description that is a string or absent, and parameters that
  are an object or absent, or of type custom, of which nothing else is checked; ``functions`` has such functions themselves
``tool_choice``  only with ``tools`` or ``functions``: a string of TOOL_CHOICES, or an object; if its type is function, its
  function is a declared one, and nothing else is checked of other types
``user``, ``safety_identifier``, ``prompt_cache_key``  strings, the first two of at most LABEL_CHARACTERS_MAX
``cache_control``, ``prediction``, ``web_search_options``, ``moderation``, ``prompt_cache_options``  objects, see ``serving``
``metadata``  at most TAGS_MAX strings by name

``messages`` tells what is guaranteed of the messages.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from django.conf import settings

from billing.models import REGION, REGIONS_MAX
from completions.chat import ChatRequest, Labels, ProviderPreferences, Reasoning, RequestBody
from completions.request import messages, prompt, reasoning, remote_images, serving
from completions.request.fields import (
    Fields,
    check_array,
    check_kind,
    check_name,
    check_object,
    check_string,
    read_boolean,
    read_choice,
    read_integer,
    read_number,
    read_object,
    read_required,
    read_string,
    refuse,
)
from gateway_project import errors
from gateway_project.text import dollars

FIELDS_MAX = 1_000  # of the body itself; providers know about fifty
MODEL_CHARACTERS_MAX = 200
MAX_TOKENS_MAX = 2**31 - 1
SEED_MIN, SEED_MAX = -(2**63), 2**63 - 1
CHOICES_MAX = 16
STOPS_MAX = 16
TOOLS_MAX = 1_000  # as several MCP servers have together; OpenAI itself takes 128
TAGS_MAX = 16  # as OpenAI's
TAG_NAME_CHARACTERS_MAX = 64
LABEL_CHARACTERS_MAX = 512  # of the value of a tag, and of the id of an end user
FALLBACKS_MAX = 5
PROVIDER_LISTS = ("order", "only", "ignore")
PROVIDER_SORTS = ("price", "throughput", "latency")
PROVIDER_PREFERENCES = (
    *(*PROVIDER_LISTS, "sort", "max_price", "min_quality", "allow_fallbacks", "require_parameters"),
    *("data_collection", "zdr", "region"),
)
DATA_COLLECTION = ("allow", "deny")
# Fields of OpenRouter's, with the value that asks for nothing. With another one they are refused.
PROVIDER_DEFAULTS = {"enforce_distillable_text": False}
SUFFIXES = {":floor": "price", ":nitro": "throughput"}  # of a model's id: how its providers are sorted
PRICE_NAMES = ("prompt", "completion")
PROVIDERS_MAX = 20
PRICE_MAX = 1_000_000
_REGION = re.compile(REGION)
_PRICE = re.compile(r"[0-9]{1,7}(\.[0-9]{1,18})?")
REASONING_EFFORTS = reasoning.EFFORTS
IMAGE_SCHEMES = ("http://", "https://") if settings.GATEWAY_DEVELOPMENT else ("https://",)
VERBOSITIES = ("low", "medium", "high")
RESPONSE_FORMATS = ("text", "json_object", "json_schema")
TOOL_CHOICES = ("none", "auto", "required")

_SAMPLING_FIELDS = frozenset(
    ("temperature", "top_p", "frequency_penalty", "presence_penalty", "seed", "reasoning_effort", "verbosity", "logit_bias")
)
_REPLY_FIELDS = frozenset(("stop", "logprobs", "top_logprobs", "modalities", "audio", "response_format"))
_TOOL_FIELDS = frozenset(("tools", "functions", "parallel_tool_calls", "tool_choice"))


def parse(body: Fields | RequestBody, pause: Callable[[], None] = messages.no_pause) -> ChatRequest:
    """Return the checked body. ``pause`` is called every few milliseconds. Raises InvalidRequest."""
    if not isinstance(body, RequestBody):
        body = RequestBody(body)
    fields = body.fields
    if len(fields) > FIELDS_MAX:
        raise errors.InvalidRequest(f"The request body has more than {FIELDS_MAX} fields.")
    stream = read_boolean(fields, "stream")
    # Most bodies have few of these fields, and to look for each takes longer than all else that is read of them.
    if not _SAMPLING_FIELDS.isdisjoint(fields):
        _check_sampling(fields)
    if not _REPLY_FIELDS.isdisjoint(fields):
        _check_reply_format(fields)
    if not _TOOL_FIELDS.isdisjoint(fields):
        _check_tools(fields)
    tier = "" if serving.FIELDS.isdisjoint(fields) else serving.read_tier(fields)
    labels = read_labels(fields)
    (model, sort), conversation = _read_sorted_model(fields), _read_messages(fields)
    contents = messages.check(
        conversation,
        images_max=settings.REQUEST_IMAGES_MAX,
        allow_remote_images=settings.REQUEST_REMOTE_IMAGES,
        fetched_schemes=() if settings.REQUEST_REMOTE_IMAGES or not settings.FETCH_IMAGES else IMAGE_SCHEMES,
        pause=pause,
    )
    if contents.remote_images:
        body.fields = remote_images.insert(fields, contents.remote_images)
    max_tokens_field = _max_tokens_field(fields)
    max_tokens = read_integer(fields, max_tokens_field, 1, MAX_TOKENS_MAX)
    return ChatRequest(
        model=model,
        body=body,
        max_tokens=max_tokens,
        stream=stream,
        include_usage=_read_include_usage(fields, stream),
        has_null_usage=(fields.get("stream_options") or {}).get("include_usage") is True,  # just checked
        prompt_tokens_max=contents.prompt_tokens_max + prompt.count_fields(fields),
        max_tokens_field=max_tokens_field,
        max_tokens_name=max_tokens_field,
        has_preamble=prompt.has_preamble(fields),
        choices=read_integer(fields, "n", 1, CHOICES_MAX) or 1,
        fallbacks=_read_fallbacks(fields, model),
        contents=contents,
        wants_hour_cache=contents.wants_hour_cache
        or (("cache_control" in fields or "tools" in fields) and _marks_hour_cache(fields)),
        block_fields=frozenset({"tools.cache_control"} if "tools" in fields and _marked_tools(fields) else ()),
        provider_preferences=read_provider_preferences(fields, sort),
        labels=labels,
        tier=tier,
        names_standard_tier=fields.get("service_tier") in serving.NAMES_OF_STANDARD,
        reasoning=Reasoning(fields.get("reasoning_effort"))
        if fields.get("reasoning") is None
        else _read_reasoning(fields, max_tokens),
    )


def _marks_hour_cache(fields: Fields) -> bool:
    return prompt.wants_hour_cache(fields) or any(map(prompt.wants_hour_cache, _marked_tools(fields)))


def _marked_tools(fields: Fields) -> list[Fields]:
    """Return the tools with a mark for a cache: beside their type, or inside of the function, where LiteLLM puts it."""
    places = (place for tool in fields.get("tools") or () for place in (tool, tool.get("function")) if isinstance(place, dict))
    return [place for place in places if place.get("cache_control")]


def _read_reasoning(fields: Fields, max_tokens: int | None) -> Reasoning:
    asked = reasoning.read(fields)
    if max_tokens and asked.budget_tokens and asked.budget_tokens >= max_tokens:
        refuse("reasoning.max_tokens", "must be less than the tokens that the whole reply may have")
    return asked


def _read_sorted_model(fields: Fields) -> tuple[str, str | None]:
    """Return the id of the model without a suffix, and how its providers are sorted. ``models`` alone may name the model."""
    models = fields.get("models")
    if fields.get("model") is None and isinstance(models, list) and models:
        model_id = _check_model_id(models[0], "models[0]")
    else:
        model_id = read_model(fields)
    for suffix, sort in SUFFIXES.items():
        if model_id.endswith(suffix) and len(model_id) > len(suffix):
            return model_id.removesuffix(suffix), sort
    return model_id, None


def read_model(fields: Fields) -> str:
    """Return the id of the model. Raises InvalidRequest."""
    return _check_model_id(read_required(fields, "model"), "model")


def _check_model_id(value: Any, path: str) -> str:
    model_id = check_string(value, path)
    if not 0 < len(model_id) <= MODEL_CHARACTERS_MAX:
        refuse(path, f"must have 1 to {MODEL_CHARACTERS_MAX} characters")
    return model_id


def _read_fallbacks(fields: Fields, model: str) -> tuple[tuple[int, str], ...]:
    """Return the ids in ``models``, which may serve the request when ``model`` cannot, each once with its index."""
    models = fields.get("models")
    if models is None:
        return ()
    if not isinstance(models, list) or len(models) > FALLBACKS_MAX:
        refuse("models", f"must be an array of at most {FALLBACKS_MAX} model ids")
    ids = [_check_model_id(value, f"models[{index}]") for index, value in enumerate(models)]
    return tuple((ids.index(model_id), model_id) for model_id in dict.fromkeys(ids) if model_id != model)


def read_provider_preferences(fields: Fields, sort: str | None = None) -> ProviderPreferences | None:
    """Return the preferences, or None without any. ``sort`` is of the suffix of the model's id; the field overrides it."""
    if fields.get("provider") is None and sort is None:
        return None
    provider = read_object(fields, "provider")
    for name, value in provider.items():
        if name not in PROVIDER_PREFERENCES and value not in (None, PROVIDER_DEFAULTS.get(name)):
            refuse(f"provider.{name[:64]}", f"is not known; known are {', '.join(PROVIDER_PREFERENCES)}", quotes_request=True)
    max_input_nanos, max_output_nanos = _read_max_price(provider)
    preferences = ProviderPreferences(
        **{name: _read_provider_slugs(provider, name) for name in PROVIDER_LISTS},
        sort=read_choice(provider, "sort", PROVIDER_SORTS, "provider") or sort,
        max_input_nanos=max_input_nanos,
        max_output_nanos=max_output_nanos,
        min_quality=_read_min_quality(provider),
        allows_fallbacks=provider.get("allow_fallbacks") is None or read_boolean(provider, "allow_fallbacks", "provider"),
        requires_parameters=read_boolean(provider, "require_parameters", "provider"),
        data_policy=_read_data_policy(provider),
        data_regions=_read_regions(provider),
    )
    return None if preferences == ProviderPreferences() else preferences


def _read_max_price(provider: Fields) -> tuple[int | None, int | None]:
    """Return the maximum price of a model, in nanodollars per million tokens of input and of output."""
    prices = read_object(provider, "max_price", "provider")
    for name in prices:
        if name not in PRICE_NAMES:
            path = f"provider.max_price.{name[:64]}"
            refuse(path, f"is not known; known are {' and '.join(PRICE_NAMES)}", quotes_request=True)
    nanos = [None if prices.get(name) is None else _price_nanos(prices[name], name) for name in PRICE_NAMES]
    return nanos[0], nanos[1]


def _price_nanos(value: Any, name: str) -> int:
    """Return nanodollars of dollars per million tokens, as a number or as text, rounded down: it is a maximum."""
    is_number = type(value) in (int, float) or (isinstance(value, str) and _PRICE.fullmatch(value))
    if not is_number or not 0 <= Decimal(str(value)) <= PRICE_MAX:
        refuse(f"provider.max_price.{name}", f"must be US dollars per million tokens, from 0 to {PRICE_MAX}")
    return int(Decimal(str(value)) * dollars.NANOS_PER_DOLLAR)


def _read_min_quality(provider: Fields) -> float | None:
    quality = provider.get("min_quality")
    if quality is None:
        return None
    if type(quality) not in (int, float) or not 0 <= quality <= 100:
        refuse("provider.min_quality", "must be a number between 0 and 100")
    return float(quality)


def _read_data_policy(provider: Fields) -> str:
    """Return the stricter one of the two fields, as a ``DataPolicy``."""
    denies = read_choice(provider, "data_collection", DATA_COLLECTION, "provider") == "deny"
    return "zdr" if read_boolean(provider, "zdr", "provider") else "deny" if denies else ""


def _read_regions(provider: Fields) -> tuple[str, ...]:
    """Return the codes of ``region``, which is one or a list of them. An empty list would allow no region."""
    regions = provider.get("region")
    if regions is None:
        return ()
    codes = [regions] if isinstance(regions, str) else regions
    if not isinstance(codes, list) or not 1 <= len(codes) <= REGIONS_MAX:
        refuse("provider.region", f"must be a region, such as eu, or an array of 1 to {REGIONS_MAX} of them")
    for code in codes:
        if not isinstance(code, str) or not _REGION.fullmatch(code):
            refuse("provider.region", "must have regions of two lower-case letters, such as eu or us")
    return tuple(codes)


def _read_provider_slugs(provider: Fields, name: str) -> tuple[str, ...]:
    slugs = provider.get(name)
    if slugs is None:
        return ()
    if not isinstance(slugs, list) or len(slugs) > PROVIDERS_MAX:
        refuse(f"provider.{name}", f"must be an array of at most {PROVIDERS_MAX} names of providers")
    return tuple(check_string(slug, f"provider.{name}[{index}]") for index, slug in enumerate(slugs))


def _read_messages(fields: Fields) -> list[Fields]:
    conversation = check_array(read_required(fields, "messages"), "messages")
    if not 1 <= len(conversation) <= settings.REQUEST_MESSAGES_MAX:
        refuse("messages", f"must have 1 to {settings.REQUEST_MESSAGES_MAX} items")
    return conversation


def _max_tokens_field(fields: Fields) -> str:
    """Return the field that has the token limit: ``max_tokens``, or ``max_completion_tokens``, OpenAI's newer name."""
    if fields.get("max_completion_tokens") is None:
        return "max_tokens"
    if fields.get("max_tokens") is not None:
        refuse("max_completion_tokens", "must not be given together with max_tokens")
    return "max_completion_tokens"


def _read_include_usage(fields: Fields, stream: bool) -> bool:
    options = fields.get("stream_options")
    is_wanted = fields.get("usage") is not None and read_boolean(read_object(fields, "usage"), "include", "usage")
    if options is None:
        return is_wanted
    check_object(options, "stream_options")
    if not stream:
        refuse("stream_options", "is only allowed when stream is true")
    read_boolean(options, "include_obfuscation", "stream_options")
    return read_boolean(options, "include_usage", "stream_options") or is_wanted


def _check_sampling(fields: Fields) -> None:
    read_number(fields, "temperature", 0, 2)
    read_number(fields, "top_p", 0, 1)
    read_number(fields, "frequency_penalty", -2, 2)
    read_number(fields, "presence_penalty", -2, 2)
    read_integer(fields, "seed", SEED_MIN, SEED_MAX)
    read_choice(fields, "reasoning_effort", REASONING_EFFORTS)
    read_choice(fields, "verbosity", VERBOSITIES)
    for token, value in read_object(fields, "logit_bias").items():
        if type(value) not in (int, float) or not -100 <= value <= 100:
            refuse(f"logit_bias.{token[:64]}", "must be a number between -100 and 100", quotes_request=True)


def _check_reply_format(fields: Fields) -> None:
    _check_stop(fields)
    if not read_boolean(fields, "logprobs") and fields.get("top_logprobs") is not None:
        refuse("top_logprobs", "is only allowed when logprobs is true")
    read_integer(fields, "top_logprobs", 0, 20)
    if fields.get("modalities") not in (None, ["text"]):
        refuse("modalities", 'must be ["text"]: replies are text')
    if fields.get("audio") is not None:
        refuse("audio", "is not supported: replies are text")
    if fields.get("response_format") is not None:
        _check_response_format(read_object(fields, "response_format"))


def _check_stop(fields: Fields) -> None:
    stop = fields.get("stop")
    if stop is None or isinstance(stop, str):
        return
    if not isinstance(stop, list) or len(stop) > STOPS_MAX:
        refuse("stop", f"must be a string or an array of at most {STOPS_MAX} strings")
    for index, sequence in enumerate(stop):
        check_string(sequence, f"stop[{index}]")


def _check_response_format(response_format: Fields) -> None:
    if check_kind(response_format, "response_format", RESPONSE_FORMATS) == "json_schema":
        path = "response_format.json_schema"
        json_schema = check_object(read_required(response_format, "json_schema", "response_format"), path)
        check_name(read_required(json_schema, "name", path), f"{path}.name")
        _check_description(json_schema, path)
        read_object(json_schema, "schema", path)


def _check_description(given: Fields, path: str) -> None:
    """Check what functions and schemas have in common."""
    read_string(given, "description", path)
    read_boolean(given, "strict", path)


def _check_tools(fields: Fields) -> None:
    names = _read_function_names(fields, "tools") | _read_function_names(fields, "functions")
    read_boolean(fields, "parallel_tool_calls")
    choice = fields.get("tool_choice")
    if choice is None:
        return
    if not names:
        refuse("tool_choice", "is only allowed with tools")
    if not isinstance(choice, dict):
        if choice not in TOOL_CHOICES:
            refuse("tool_choice", f"must be one of {', '.join(TOOL_CHOICES)}, or name a function")
    elif choice.get("type") == "function":  # not every provider has other types, and those without them refuse them
        function = check_object(read_required(choice, "function", "tool_choice"), "tool_choice.function")
        name = read_required(function, "name", "tool_choice.function")
        if not isinstance(name, str) or name not in names:
            refuse("tool_choice.function.name", "must be the name of one of the tools")


def _read_function_names(fields: Fields, field: str) -> set[str]:
    """Return the names of the functions in ``tools``, or in ``functions``, the older field. A custom tool's is empty."""
    tools = fields.get(field)
    if tools is None:
        return set()
    if not isinstance(tools, list) or not 1 <= len(tools) <= TOOLS_MAX:
        refuse(field, f"must be an array of 1 to {TOOLS_MAX} {field}")
    return {_read_function_name(tool, field, index) for index, tool in enumerate(tools)}


def _read_function_name(tool: Any, field: str, index: int) -> str:
    path = f"{field}[{index}]"
    function = check_object(tool, path)
    if field == "tools":
        kind = read_required(tool, "type", path)
        if kind == "custom":
            return ""
        if kind != "function":
            refuse(f"{path}.type", "must be function")
        function, path = check_object(read_required(tool, "function", path), f"{path}.function"), f"{path}.function"
    read_object(function, "parameters", path)
    _check_description(function, path)
    return check_name(read_required(function, "name", path), f"{path}.name")


def read_labels(fields: Fields) -> Labels:
    """Return the end user, by OpenAI's newer name where the older one is absent, and the tags. Empty ones count as absent."""
    for name in ("user", "safety_identifier"):
        if fields.get(name) is not None and len(check_string(fields[name], name)) > LABEL_CHARACTERS_MAX:
            refuse(name, f"must have at most {LABEL_CHARACTERS_MAX} characters")
    if fields.get("prompt_cache_key") is not None:
        check_string(fields["prompt_cache_key"], "prompt_cache_key")
    read_boolean(fields, "store")
    return Labels(fields.get("user") or fields.get("safety_identifier") or None, _read_tags(fields) or None)


def _read_tags(fields: Fields) -> dict[str, str]:
    metadata = read_object(fields, "metadata")
    if len(metadata) > TAGS_MAX:
        refuse("metadata", f"must have at most {TAGS_MAX} entries")
    for name, value in metadata.items():
        is_text = isinstance(value, str) and len(value) <= LABEL_CHARACTERS_MAX
        if not is_text or not 0 < len(name) <= TAG_NAME_CHARACTERS_MAX:
            bounds = f"of at most {LABEL_CHARACTERS_MAX} characters, under a name of 1 to {TAG_NAME_CHARACTERS_MAX}"
            refuse(f"metadata.{name[:TAG_NAME_CHARACTERS_MAX]}", f"must be a string {bounds}", quotes_request=True)
    return metadata
