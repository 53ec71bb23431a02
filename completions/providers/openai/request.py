"""Builds the body of an OpenAI chat completion request from ours, which has the same format. Pure.

The format is the caller's own. A provider is sent the fields that are documented: OpenAI's, and for the hosts in ``QUIRKS``
what their references say. Other fields may cost money, and no price
covers them. So they go only to the operator's own servers (``passes_unknown_fields``), which understand more than any reference
lists. Fields without a share in the hold are never sent.
"""

from dataclasses import dataclass, field, replace
from functools import partial

from completions.chat import NO_RULES, Call, ChatRequest, Route
from completions.providers import call_ids, custom_tools, sealed_reasoning
from completions.providers.ignored_fields import HONOURED, find
from completions.providers.model_rules import nearest_effort
from completions.providers.openai import messages
from completions.request.fields import Fields
from completions.request.prompt import UNPAID_FIELDS
from gateway_project.text import web_addresses

# Never copied from the caller's body: the fields that ``body`` sets itself, the echo provider's, and the unpaid ones.
_NOT_COPIED = {"echo", "max_tokens", "max_completion_tokens", "models", "stream_options", "usage"} | UNPAID_FIELDS

# Accepted by every one of the providers below.
_COMMON = frozenset(
    (
        *("frequency_penalty", "function_call", "functions", "messages", "n", "parallel_tool_calls", "presence_penalty"),
        *("reasoning_effort", "response_format", "seed", "stop", "temperature", "tool_choice", "tools", "top_p"),
    )
)
_OPENAI = _COMMON | {
    *("logit_bias", "logprobs", "metadata", "modalities", "moderation", "prompt_cache_key", "prompt_cache_options"),
    *("prompt_cache_retention", "safety_identifier", "store", "top_logprobs", "user", "verbosity"),
}
_MISTRAL_ALONE = ("metadata", "prompt_cache_key", "prompt_mode", "random_seed", "safe_prompt")
_MISTRAL = _COMMON - {"functions", "function_call"} | {*_MISTRAL_ALONE}
_GROQ = _COMMON | {
    *("disable_tool_validation", "include_reasoning", "logit_bias", "logprobs", "reasoning_format", "top_logprobs", "user"),
}
_ZAI = _OPENAI | {"do_sample", "request_id", "thinking", "tool_stream", "user_id"}
_TOGETHER = _OPENAI | {"chat_template_kwargs", "min_p", "reasoning", "repetition_penalty", "top_k"}
_COMMON_IN_MESSAGES = frozenset({"role", "content", "tool_calls", "tool_call_id"})
# Providers that ignore what they do not know. Models that think want their thoughts back with the calls that they made.
_USUAL_IN_MESSAGES = _COMMON_IN_MESSAGES | {"function_call", "name", "reasoning_content", "refusal"}
_SENT_IN_BLOCKS = frozenset({"cache_control", "title"})  # as a field of a part, and as the name of a file
_SAMPLING, _PENALTIES = ("temperature", "top_p"), ("frequency_penalty", "presence_penalty")
_DEFAULTS = {"temperature": 1, "top_p": 1, "frequency_penalty": 0, "presence_penalty": 0}
_STREAM_OPTIONS = {"include_obfuscation", "include_usage"}


@dataclass(frozen=True, slots=True)
class Quirk:
    """How one provider differs from OpenAI's reference.

    ``max_tokens_field``: the only name it accepts for the token limit; None where it accepts the name that the caller used.
    ``has_old_models``: it may accept only the older name for models that take no effort.
    ``is_of_openai``: it is about models whose rules are known; the host serves those of other makers, too.
    ``stream_options``: what a stream is asked for. That includes its usage whether or not the caller wants it, because we
    charge by it; None where the provider refuses the field.
    ``refuses_unknown``: it refuses requests with unknown fields, also deep inside of messages and tools.
    ``documented_fields``, ``documented_message_fields``: the only fields that it is sent, in the body and in a message.
    ``renamed_fields``: OpenAI's name -> the provider's name.
    ``takes_developers``: it knows messages of the role developer. Most others refuse them with 400.
    ``reasoning_off``: the field that keeps each model that accepts it from reasoning; empty where there is none.
    ``takes_tiers``: its service tiers are OpenAI's.
    ``takes_custom_tools``: it knows tools of the type custom. Who knows only functions refuses them.
    ``stores_metadata``: it refuses metadata of what it does not store.
    ``ids``: which ids of calls it takes.
    """

    max_tokens_field: str | None = None
    has_old_models: bool = False
    is_of_openai: bool = False
    stream_options: dict[str, bool] | None = field(default_factory=lambda: {"include_usage": True})
    refuses_unknown: bool = False
    documented_fields: frozenset[str] = _OPENAI
    documented_message_fields: frozenset[str] = _USUAL_IN_MESSAGES
    renamed_fields: dict[str, str] = field(default_factory=dict)
    takes_developers: bool = False
    reasoning_off: Fields = field(default_factory=dict)
    takes_custom_tools: bool = False
    takes_tiers: bool = False
    stores_metadata: bool = False
    ids: call_ids.Rule = call_ids.ANY


_OF_OPENAI = Quirk(
    max_tokens_field="max_completion_tokens",
    refuses_unknown=True,
    documented_message_fields=_COMMON_IN_MESSAGES | {"function_call", "name", "refusal"},
    takes_developers=True,
    reasoning_off={"reasoning_effort": "none"},
    takes_custom_tools=True,
    takes_tiers=True,
    stores_metadata=True,
    ids=call_ids.OPENAI,
)
# The same rules, but for the names of the limit: 400 for the newer with gpt-4o at older versions of its API, for the older with
# later models (github.com/lfnovo/open-notebook/issues/111, github.com/openai/openai-python/issues/1724). Such versions do not
# have include_obfuscation either. Tiers: learn.microsoft.com/azure/foundry/openai/how-to/flex-processing.
_AZURE = replace(_OF_OPENAI, has_old_models=True)
# By the host of ``base_url``, or its domain. Sources: each provider's reference, and the errors that its users reported.
QUIRKS: dict[str, Quirk] = {
    # Newer models: 400, "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead"
    # (github.com/openai/openai-python/issues/2046). All models accept the new name; the reference calls the old one deprecated.
    # An unknown field: 400 (github.com/continuedev/continue/issues/11409). Obfuscation is padding, which we do not pass on.
    # 400, "The 'metadata' parameter is only allowed when 'store' is enabled" (github.com/QwenLM/qwen-code/issues/243).
    "api.openai.com": replace(_OF_OPENAI, stream_options={"include_usage": True, "include_obfuscation": False}),
    "openai.azure.com": _AZURE,
    **dict.fromkeys(("services.ai.azure.com", "cognitiveservices.azure.com"), replace(_AZURE, is_of_openai=True)),
    # 422 extra_forbidden for max_completion_tokens (github.com/editor-code-assistant/eca/issues/231) and for stream_options
    # (github.com/TabbyML/tabby/pull/4082). The last chunk has the usage without being asked. In messages: 422 for a name
    # (github.com/Gage-Technologies/mistral-go/issues/3) and for reasoning (github.com/charmbracelet/crush/issues/1590).
    # Without a prompt_cache_key nothing is cached (github.com/mistralai/mistral-vibe/discussions/680).
    "api.mistral.ai": Quirk(
        max_tokens_field="max_tokens",
        stream_options=None,
        refuses_unknown=True,
        documented_fields=_MISTRAL,
        documented_message_fields=_COMMON_IN_MESSAGES | {"prefix"},
        renamed_fields={"seed": "random_seed"},
        ids=call_ids.MISTRAL,
    ),
    # 400 for store (github.com/CherryHQ/cherry-studio/issues/1099) and for other unknown fields; in messages for names
    # (console.groq.com/docs/openai) and for reasoning (github.com/SimonSchubert/Kai/issues/265).
    "api.groq.com": Quirk(
        refuses_unknown=True, documented_fields=_GROQ, documented_message_fields=_COMMON_IN_MESSAGES | {"function_call"}
    ),
    # The rest ignore what they do not know. Their references: llama.developer.meta.com, platform.moonshot.ai, docs.z.ai,
    # docs.together.ai. Together's safety_model is left out: it runs a second model.
    "api.meta.ai": Quirk(documented_fields=_OPENAI | {"repetition_penalty", "top_k"}),
    "api.moonshot.ai": Quirk(
        documented_fields=_OPENAI | {"thinking"}, documented_message_fields=_USUAL_IN_MESSAGES | {"partial"}
    ),
    "api.z.ai": Quirk(documented_fields=_ZAI, reasoning_off={"thinking": {"type": "disabled"}}),
    "api.together.ai": Quirk(documented_fields=_TOGETHER),
    # api-docs.deepseek.com/guides/thinking_mode; no effort is "none" there.
    "api.deepseek.com": Quirk(
        documented_fields=_OPENAI | {"thinking", "user_id"}, reasoning_off={"thinking": {"type": "disabled"}}
    ),
    # alibabacloud.com/help/en/model-studio/deep-thinking
    "aliyuncs.com": Quirk(
        documented_fields=_OPENAI | {"enable_thinking", "thinking_budget", "top_k"}, reasoning_off={"enable_thinking": False}
    ),
}
_NO_QUIRK = Quirk(takes_custom_tools=True, takes_tiers=True)  # an operator's own server may


def body(call: Call, *, stream: bool) -> Fields:
    """Return the body of POST /chat/completions."""
    quirk = _quirk(call.route)
    fields = _copied_fields(call if quirk.takes_custom_tools else custom_tools.in_call(call), quirk)
    if call.route.rules is not NO_RULES:
        fields = within_rules(fields, call)
    max_tokens_field = quirk.max_tokens_field or call.request.max_tokens_field
    if quirk.has_old_models and not call.route.rules.efforts:
        max_tokens_field = "max_tokens"
    fields.update({"model": call.route.upstream_model, "stream": stream, max_tokens_field: call.max_tokens})
    if call.request.tier or call.request.names_standard_tier:
        fields.update(service_tier(call))
    if stream and quirk.stream_options:
        given, passes_all = call.request.fields.get("stream_options") or {}, _passes_unknown_fields(call)
        asked = {name: value for name, value in given.items() if passes_all or name in _STREAM_OPTIONS}
        fields["stream_options"] = {**asked, **quirk.stream_options}
    return fields


def takes_tiers(route: Route) -> bool:
    """Return whether a provider knows OpenAI's service tiers."""
    return _quirk(route).takes_tiers


def service_tier(call: Call) -> Fields:
    """Return the field with the tier that was asked for. Told the standard one, a provider may serve no other."""
    tier = call.request.tier or ("default" if call.request.names_standard_tier and takes_tiers(call.route) else "")
    return {"service_tier": tier} if tier else {}


def pads_streams(route: Route) -> bool:
    """Return whether a provider pads the events of its streams, and can be told not to."""
    return bool(_quirk(route).stream_options) and "include_obfuscation" in (_quirk(route).stream_options or {})


def ignored_fields(call: Call) -> list[str]:
    """Return the fields that ``body`` leaves out."""
    ignored = _unsent_fields(call)
    if call.route.rules is not NO_RULES:
        ignored += refused_fields(call)
    return [name for name in ignored if name != "service_tier" or not service_tier(call)]


def _unsent_fields(call: Call) -> list[str]:
    quirk = _quirk(call.route)
    if _passes_unknown_fields(call):
        ignored = find(call.request, HONOURED, sent_in_blocks=_SENT_IN_BLOCKS)
        named = [name for name in ignored if name in _NOT_COPIED | call.request.block_fields or name != name.casefold()]
        return [*named, *_lost_reasoning(call)]
    in_blocks = _SENT_IN_BLOCKS - messages.FOREIGN_FIELDS if quirk.refuses_unknown else _SENT_IN_BLOCKS
    sent_in_messages = quirk.documented_message_fields
    if "reasoning_content" in sent_in_messages and not call.request.contents.message_fields.isdisjoint(sealed_reasoning.FIELDS):
        sent_in_messages |= {"reasoning"} if _lost_reasoning(call) else sealed_reasoning.FIELDS
    documented = _documented_fields(call.request, quirk) if quirk.stores_metadata else quirk.documented_fields
    return find(call.request, HONOURED | documented, sent_in_messages, in_blocks)


def _lost_reasoning(call: Call) -> list[str]:
    """Return the field of messages whose reasoning this provider does not get: its own only if it refuses unknown fields."""
    if "reasoning_details" not in call.request.contents.message_fields:
        return []
    takes_details = not _quirk(call.route).refuses_unknown
    for message in call.request.messages:
        opened = [given for given in sealed_reasoning.opened(call, message) if takes_details or "text" in given]
        if len(opened) < len(sealed_reasoning.secrets(message)):
            return ["messages.reasoning_details"]
    return []


def switches_reasoning_off(call: Call) -> bool:
    """Return whether the provider's own switch is off. Elsewhere a model may ignore it: gpt-oss reasons whatever it is told."""
    quirk = _quirk(call.route)
    if "none" not in call.route.rules.efforts:
        return False
    effort = call.request.reasoning.effort
    given = {**call.request.fields, **(_reasoning(effort, quirk) if effort else {})}
    for name, wanted in quirk.reasoning_off.items():
        found = given.get(name)
        is_off = wanted.items() <= found.items() if isinstance(found, dict) and isinstance(wanted, dict) else found == wanted
        if not is_off:
            return False
    return bool(quirk.reasoning_off)


# --- What the model refuses -------------------------------------------------------------------------------------


def within_rules(fields: Fields, call: Call) -> Fields:
    refused = _refused(call)
    kept = {name: value for name, value in fields.items() if name not in refused}
    if "reasoning_effort" in kept:
        level = nearest_effort(kept.pop("reasoning_effort"), call.route.rules)
        kept |= {"reasoning_effort": level} if level else {}
    return kept


def refused_fields(call: Call) -> list[str]:
    """Return the fields that the model is not sent, or not as they are. A value that it has anyway is no loss."""
    given, asked = call.request.fields, call.request.reasoning
    refused = [name for name in _refused(call) if given.get(name) not in (None, _DEFAULTS[name])]
    level = nearest_effort(asked.effort, call.route.rules) if asked.effort else None
    is_heeded = level == asked.effort or (level is None and asked.effort == "none")
    return refused if is_heeded else [*refused, asked.name]


def _refused(call: Call) -> tuple[str, ...]:
    rules, effort = call.route.rules, call.request.reasoning.effort
    may_think = rules.thinks_unasked if effort is None else effort != "none"
    refuses_sampling = rules.sampling == "none" or (rules.sampling == "unless_thinking" and may_think)
    return (_SAMPLING if refuses_sampling else ()) + (() if rules.penalties else _PENALTIES)


def _quirk(route: Route) -> Quirk:
    for domain in web_addresses.domains(route.base_url):
        if (quirk := QUIRKS.get(domain)) and not (quirk.is_of_openai and route.rules is NO_RULES):
            return quirk
    return _NO_QUIRK


def _passes_unknown_fields(call: Call) -> bool:
    """Return whether the provider gets what the caller sent. A host with a quirk is another company's in any case."""
    return call.route.passes_unknown_fields and _quirk(call.route) is _NO_QUIRK


def _documented_fields(request: ChatRequest, quirk: Quirk) -> frozenset[str]:
    """Return the fields of the body that the provider takes in this request: metadata only of what it is to store."""
    is_stored = "metadata" not in request.fields or request.fields.get("store")
    return quirk.documented_fields if is_stored else quirk.documented_fields - {"metadata"}


def _reasoning(effort: str, quirk: Quirk) -> Fields:
    """Return what an effort is to this provider: its own switch turns reasoning off."""
    return quirk.reasoning_off if effort == "none" and quirk.reasoning_off else {"reasoning_effort": effort}


def _copied_fields(call: Call, quirk: Quirk) -> Fields:
    """Return the caller's fields that are paid for and that the provider is sent, without nulls, which not all take."""
    given = call.request.fields
    # Some servers written in Go match names without their case: to them MODEL is the model and Max_Tokens the limit, and the
    # last one wins.
    plain = {name: value for name, value in given.items() if value is not None and name == name.casefold()}
    if effort := call.request.reasoning.effort:
        plain = {name: value for name, value in plain.items() if name != "reasoning_effort"} | _reasoning(effort, quirk)
    fields = {name: value for name, value in plain.items() if name not in _NOT_COPIED}
    if not quirk.takes_developers:
        fields["messages"] = [
            {**each, "role": "system"} if each["role"] == "developer" else each for each in fields["messages"]
        ]
    if not call.request.contents.message_fields.isdisjoint(sealed_reasoning.FIELDS):
        opened, keeps_shown = partial(sealed_reasoning.opened, call), _passes_unknown_fields(call)
        fields["messages"] = [messages.with_reasoning(each, opened, keeps_shown=keeps_shown) for each in fields["messages"]]
    contents = call.request.contents
    if "tool_call_id" in contents.message_fields or "tool_calls" in contents.message_fields:
        without_paths = (("", message) for message in fields["messages"])
        fields["messages"] = [message for _, message, _ in call_ids.renamed(without_paths, quirk.ids)]
    if contents.image_at or contents.file_at:
        fields["messages"] = [messages.with_plain_media(each) for each in fields["messages"]]
    if fields.get("tools"):
        fields["tools"] = [messages.with_schema(tool) for tool in fields["tools"]]
    if _passes_unknown_fields(call):
        return fields
    documented = _documented_fields(call.request, quirk) if quirk.stores_metadata else quirk.documented_fields
    fields = {quirk.renamed_fields.get(name, name): value for name, value in fields.items() if name in documented}
    if quirk.refuses_unknown:
        accepted = quirk.documented_message_fields
        fields["messages"] = [messages.keep_accepted(each, accepted) for each in fields["messages"]]
        if "tools" in fields:
            fields["tools"] = messages.without_marks(fields["tools"])
    elif not call.request.contents.message_fields <= quirk.documented_message_fields:
        kept = quirk.documented_message_fields | {"reasoning_details"}  # its own: see messages.with_reasoning
        fields["messages"] = messages.keep_documented(fields["messages"], kept)
    return fields
