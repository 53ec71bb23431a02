"""What the generations of models take, as data: one table for all kinds of providers, matched once for each route. Pure.

A name that no row has gets the rules of the newest models of its kind: those that no known newer model refuses. A catalog file
may say other rules for a model or a route, in the words of ``chat.ModelRules``.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from completions.chat import NO_RULES, ModelRules
from completions.request.reasoning import EFFORTS
from gateway_project.text import web_addresses

PREFILL = "messages.prefill"  # in the header: no field has this name, a last message of the assistant asks for it
CONTINUE = "The message before this one is the beginning of your reply. Continue it from where it ends, and repeat none of it."
_BUDGET_MAX = 2**31 - 1
_DOCS = "https://platform.claude.com/docs/en"
_GEMINI_DOCS = "https://ai.google.dev/gemini-api/docs/thinking"
_OPENAI_DOCS = "https://developers.openai.com/api/docs"


class Generation(msgspec.Struct, frozen=True):
    """A row of the table: models of a kind of provider, named as upstreams name them, with hyphens for points.

    ``hosts``: the only ones that it is about; empty for all. A name stands for its dated and its longer names, too.
    """

    kind: str
    names: tuple[str, ...]
    rules: ModelRules
    source: str
    hosts: tuple[str, ...] = ()


# Of all models that are not named below: what none of them refuses.
_NEWEST_CLAUDE = ModelRules(
    forced_tools=False,
    thinks_unasked=True,
    thinking_off="",
    off_effort_max="high",
    efforts=("low", "medium", "high", "xhigh", "max"),
    adaptive=True,
    sampling="none",
    prefill=False,
    system_messages=False,
)
_OPUS_5_5 = replace(_NEWEST_CLAUDE, system_messages=True)
_OPUS_5 = replace(_OPUS_5_5, forced_tools=True, thinking_off="disabled")
_SONNET_5 = replace(_OPUS_5, off_effort_max="max", system_messages=False)
_OPUS_4_7 = replace(_SONNET_5, thinks_unasked=False, thinks_when_forced=False)
_CLAUDE_4_6 = replace(
    _OPUS_4_7, efforts=("low", "medium", "high", "max"), budget_min=1_024, budget_max=_BUDGET_MAX, sampling="one"
)
_CLAUDE_4_5 = replace(_CLAUDE_4_6, efforts=(), adaptive=False, prefill=True)
_CLAUDE_4 = replace(_CLAUDE_4_5, sampling="all")
_CLAUDE_3 = replace(_CLAUDE_4, budget_min=0, budget_max=0)

_NEWEST_GEMINI = ModelRules(
    thinks_unasked=True, thinking_off="", efforts=("low", "medium", "high"), penalties=False, prefill=False
)
_GEMINI_3_PRO = replace(_NEWEST_GEMINI, prefill=True)
_GEMINI_3_FLASH = replace(_GEMINI_3_PRO, efforts=("minimal", "low", "medium", "high"))
_GEMINI_2_5_FLASH = replace(_GEMINI_3_PRO, thinking_off="disabled", efforts=(), budget_max=24_576, call_ids=False)
_GEMINI_2 = replace(_GEMINI_2_5_FLASH, thinks_unasked=False, budget_max=0, penalties=True)

_NEWEST_GPT = ModelRules(
    thinks_unasked=True, efforts=("none", "low", "medium", "high", "xhigh", "max"), sampling="none", penalties=False
)
_GPT_5_2 = replace(
    _NEWEST_GPT, thinks_unasked=False, efforts=("none", "low", "medium", "high", "xhigh"), sampling="unless_thinking"
)
_O_SERIES = replace(_NEWEST_GPT, thinking_off="", efforts=("low", "medium", "high"))
_GPT_5 = replace(_O_SERIES, efforts=("minimal", "low", "medium", "high"))
_GPT_4 = replace(NO_RULES, efforts=())
_OPENAI_HOSTS = ("api.openai.com",)

GENERATIONS = (
    # 400 for budgets, sampling, prefill, forced tools and "disabled". Messages of the system: model pages of 5.5.
    Generation("anthropic", ("claude-opus-5-5",), _OPUS_5_5, f"{_DOCS}/models/opus-5-5/migration-guide"),
    # "between_tools" instead of "disabled", up to the effort high.
    Generation(
        "anthropic",
        ("claude-sonnet-5-5",),
        replace(_OPUS_5_5, thinking_off="between_tools"),
        f"{_DOCS}/models/sonnet-5-5/migration-guide",
    ),
    # It takes forced tools, and "disabled" up to the effort high.
    Generation("anthropic", ("claude-haiku-5-5",), _OPUS_5, f"{_DOCS}/models/haiku-5-5/migration-guide"),
    # "tool_choice forces tool use is not compatible with this model"; reports of 5.0 differ.
    Generation(
        "anthropic",
        ("claude-fable-5-1", "claude-fable-5", "claude-mythos-5-1", "claude-mythos-5", "claude-mythos-preview"),
        _OPUS_5_5,
        f"{_DOCS}/models/fable-5-1/migration-guide",
    ),
    # 400 for "disabled" beside the efforts xhigh and max.
    Generation("anthropic", ("claude-opus-5",), _OPUS_5, f"{_DOCS}/build-with-claude/effort"),
    # 400 for messages of the system in the middle.
    Generation("anthropic", ("claude-sonnet-5",), _SONNET_5, f"{_DOCS}/about-claude/models/whats-new-sonnet-5"),
    Generation(
        "anthropic",
        ("claude-opus-4-8",),
        replace(_OPUS_4_7, thinks_when_forced=True, system_messages=True),
        f"{_DOCS}/about-claude/models/whats-new-claude-4-8",
    ),
    Generation("anthropic", ("claude-opus-4-7",), _OPUS_4_7, f"{_DOCS}/build-with-claude/effort"),
    # "This model does not support assistant message prefill" (github.com/vercel/ai/issues/12296). Budgets are deprecated.
    Generation("anthropic", ("claude-opus-4-6", "claude-sonnet-4-6"), _CLAUDE_4_6, f"{_DOCS}/build-with-claude/effort"),
    # The effort beside a budget: up to high.
    Generation(
        "anthropic",
        ("claude-opus-4-5",),
        replace(_CLAUDE_4_5, efforts=("low", "medium", "high")),
        f"{_DOCS}/build-with-claude/effort",
    ),
    # "temperature and top_p cannot both be specified for this model" (github.com/langchain-ai/langchain/issues/33323).
    Generation(
        "anthropic",
        ("claude-sonnet-4-5", "claude-haiku-4-5", "claude-opus-4-1"),
        _CLAUDE_4_5,
        f"{_DOCS}/build-with-claude/extended-thinking",
    ),
    Generation(
        "anthropic",
        ("claude-opus-4", "claude-sonnet-4", "claude-4", "claude-3-7"),
        _CLAUDE_4,
        f"{_DOCS}/build-with-claude/extended-thinking",
    ),
    Generation(
        "anthropic",
        ("claude-3-5", "claude-3", "claude-2-1", "claude-2-0", "claude-2", "claude-instant-1-2", "claude-instant-1"),
        _CLAUDE_3,
        f"{_DOCS}/about-claude/model-deprecations",
    ),
    # Ids of calls since 3; older ones refuse them (github.com/NousResearch/hermes-agent/pull/80683). JSON Schema: all models
    # that were supported in November 2025, which are 2.0 and later.
    # Penalties: "Penalty is not enabled for this model" (github.com/google-gemini/cookbook/issues/1290), since 2.5.
    # "minimal" is a 400 since 3.7 Flash (docs.cloud.google.com, guides/gemini-3-8-flash). Of 3.5 Flash-Lite and the later: 400
    # for a last turn of the model; sampling is ignored (docs.cloud.google.com, models/gemini/3-5-flash-lite).
    Generation(
        "gemini",
        ("gemini-3-5-flash-lite",),
        replace(_NEWEST_GEMINI, efforts=("minimal", "low", "medium", "high"), sampling="none"),
        "https://docs.cloud.google.com/gemini-enterprise-agent-platform/models/gemini/3-5-flash-lite",
    ),
    Generation("gemini", ("gemini-3-5-flash", "gemini-3-1-flash-lite", "gemini-3-flash"), _GEMINI_3_FLASH, _GEMINI_DOCS),
    Generation("gemini", ("gemini-3-1-pro",), _GEMINI_3_PRO, _GEMINI_DOCS),
    Generation("gemini", ("gemini-3-pro",), replace(_GEMINI_3_PRO, efforts=("low", "high")), _GEMINI_DOCS),
    Generation(
        "gemini",
        ("gemini-2-5-pro",),
        replace(_GEMINI_2_5_FLASH, thinking_off="", budget_min=128, budget_max=32_768),
        _GEMINI_DOCS,
    ),
    Generation(
        "gemini", ("gemini-2-5-flash-lite",), replace(_GEMINI_2_5_FLASH, thinks_unasked=False, budget_min=512), _GEMINI_DOCS
    ),
    Generation("gemini", ("gemini-2-5-flash",), _GEMINI_2_5_FLASH, _GEMINI_DOCS),
    Generation(
        "gemini",
        ("gemini-2-0",),
        _GEMINI_2,
        "https://ai.google.dev/gemini-api/docs/models",
    ),
    Generation(
        "gemini",
        ("gemini-1-5", "gemini-1-0"),
        replace(_GEMINI_2, json_schemas=False),
        "https://blog.google/technology/developers/gemini-api-structured-outputs",
    ),
    Generation(
        "gemini",
        ("gemma-3", "gemma-3n", "gemma-2"),
        replace(_GEMINI_2, penalties=False, json_schemas=False),
        "https://ai.google.dev/gemma/docs/core/gemma_on_gemini_api",
    ),
    # The levels: the reference of reasoning_effort. Sampling: github.com/vercel/ai/issues/10932 and
    # github.com/langchain-ai/langchain/issues/35423; of 5.6: github.com/ItzCrazyKns/Vane/issues/1173.
    Generation(
        "openai",
        ("gpt-5-1-chat", "gpt-5-2-chat"),
        replace(_O_SERIES, efforts=("medium",)),
        "https://github.com/anomalyco/models.dev/pull/2351",
        _OPENAI_HOSTS,
    ),
    Generation(
        "openai", ("gpt-5-pro",), replace(_O_SERIES, efforts=("high",)), f"{_OPENAI_DOCS}/models/gpt-5-pro", _OPENAI_HOSTS
    ),
    Generation(
        "openai",
        ("gpt-5-2-pro", "gpt-5-4-pro", "gpt-5-5-pro"),
        replace(_O_SERIES, efforts=("medium", "high", "xhigh")),
        "https://github.com/anomalyco/models.dev/pull/2351",
        _OPENAI_HOSTS,
    ),
    Generation(
        "openai",
        ("gpt-5-1-codex-max", "gpt-5-2-codex", "gpt-5-3-codex"),
        replace(_O_SERIES, efforts=("low", "medium", "high", "xhigh")),
        f"{_OPENAI_DOCS}/guides/reasoning",
        _OPENAI_HOSTS,
    ),
    Generation(
        "openai",
        ("o1", "o3", "o4-mini", "gpt-5-codex", "gpt-5-1-codex", "codex-mini"),
        _O_SERIES,
        f"{_OPENAI_DOCS}/guides/reasoning",
        _OPENAI_HOSTS,
    ),
    Generation(
        "openai",
        ("gpt-5-chat", "gpt-4-1", "gpt-4o", "chatgpt-4o", "gpt-4", "gpt-3-5"),
        _GPT_4,
        f"{_OPENAI_DOCS}/guides/reasoning",
        _OPENAI_HOSTS,
    ),
    Generation("openai", ("gpt-5",), _GPT_5, f"{_OPENAI_DOCS}/guides/reasoning", _OPENAI_HOSTS),
    Generation(
        "openai",
        ("gpt-5-1",),
        replace(_GPT_5_2, efforts=("none", "low", "medium", "high")),
        f"{_OPENAI_DOCS}/models/gpt-5.1",
        _OPENAI_HOSTS,
    ),
    Generation("openai", ("gpt-5-2", "gpt-5-3", "gpt-5-4"), _GPT_5_2, f"{_OPENAI_DOCS}/guides/latest-model", _OPENAI_HOSTS),
    Generation(
        "openai",
        ("gpt-5-5",),
        replace(_GPT_5_2, thinks_unasked=True),
        f"{_OPENAI_DOCS}/guides/reasoning",
        _OPENAI_HOSTS,
    ),
    Generation(
        "openai",
        ("gpt-5-6", "gpt-6", "gpt-7", "gpt-8", "gpt-9"),
        _NEWEST_GPT,
        f"{_OPENAI_DOCS}/guides/deployment-checklist",
        _OPENAI_HOSTS,
    ),
    # "invalid temperature: only 1 is allowed for this model", 0.6 without thinking: it is fixed, as top_p is.
    Generation(
        "openai",
        ("kimi-k2-5", "kimi-k2-6", "kimi-k2-7", "kimi-k3", "kimi-for-coding"),
        replace(NO_RULES, sampling="none", penalties=False),
        "https://platform.kimi.ai/docs/api/chat",
        ("api.moonshot.ai", "api.moonshot.cn", "api.kimi.com"),
    ),
    Generation(
        "openai",
        ("gpt-oss",),
        replace(NO_RULES, thinks_unasked=True, thinking_off="", efforts=("low", "medium", "high")),
        "https://console.groq.com/docs/reasoning",
        ("api.groq.com",),
    ),
)
NEWEST = {"anthropic": _NEWEST_CLAUDE, "gemini": _NEWEST_GEMINI}


def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """Match any of the names where a name begins and its version ends. A date or a size, as in -27b, is no version."""
    return re.compile(rf"(?<![a-z0-9])(?:{'|'.join(names)})(?!\d|-\d{{1,2}}(?![0-9a-z]))")


_PATTERNS = tuple((generation, _pattern(generation.names)) for generation in GENERATIONS)


def of_route(kind: str, base_url: str, upstream_model: str, stated: Mapping[str, Any] | None = None) -> ModelRules:
    """Return the rules of a model at a provider of this kind, with those that a catalog file states instead."""
    rules = _known(kind.partition("-responses")[0], web_addresses.host(base_url), upstream_model)
    if not stated:
        return rules
    merged = msgspec.convert({**msgspec.structs.asdict(rules), **stated}, ModelRules)
    return replace(merged, efforts=tuple(sorted(merged.efforts, key=EFFORTS.index)))


@lru_cache(maxsize=4_096)
def _known(kind: str, host: str, upstream_model: str) -> ModelRules:
    name = re.sub(r"(?<=\d)\.(?=\d)", "-", upstream_model.lower())
    for generation, pattern in _PATTERNS:
        if generation.kind == kind and (not generation.hosts or host in generation.hosts) and pattern.search(name):
            return generation.rules
    return NEWEST.get(kind, NO_RULES)


# --- What becomes of a demand -----------------------------------------------------------------------------------


def nearest_effort(effort: str, rules: ModelRules) -> str | None:
    """Return the level that is sent for an effort: itself, the next lower one, or else the lowest. None: it takes no level."""
    if effort in rules.efforts or not rules.efforts:
        return effort if rules.efforts else None
    levels = [level for level in rules.efforts if level != "none"]
    lower = [level for level in levels if EFFORTS.index(level) < EFFORTS.index(effort)]
    return lower[-1] if lower else levels[0]
