"""The rules of the generations of models, as data: one table for all kinds of providers, matched once for each route. Pure.

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


class Generation(msgspec.Struct, frozen=True):
    """A row of the table: models of a kind of provider, named as providers name them, with hyphens for points.

    ``hosts``: the only ones that it is about, or their domains; empty for all. A name stands for its dated and longer names,
    too.
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
_SONNET_5_5 = replace(_OPUS_5_5, thinking_off="between_tools")
_OPUS_5 = replace(_OPUS_5_5, forced_tools=True, thinking_off="disabled")
_SONNET_5 = replace(_OPUS_5, off_effort_max="max", system_messages=False)
_OPUS_4_7 = replace(_SONNET_5, thinks_unasked=False, thinks_when_forced=False)
_OPUS_4_8 = replace(_OPUS_4_7, thinks_when_forced=True, system_messages=True)
_BUDGETS = {"budget_min": 1_024, "budget_max": 2**31 - 1}
_CLAUDE_4_6 = replace(_OPUS_4_7, efforts=("low", "medium", "high", "max"), sampling="one", **_BUDGETS)
_CLAUDE_4_5 = replace(_CLAUDE_4_6, efforts=(), adaptive=False, prefill=True)
_OPUS_4_5 = replace(_CLAUDE_4_5, efforts=("low", "medium", "high"))
_CLAUDE_4 = replace(_CLAUDE_4_5, sampling="all")
_CLAUDE_3 = replace(_CLAUDE_4, budget_min=0, budget_max=0)

_NEWEST_GEMINI = ModelRules(
    thinks_unasked=True, thinking_off="", efforts=("low", "medium", "high"), penalties=False, prefill=False
)
_GEMINI_3_5_LITE = replace(_NEWEST_GEMINI, efforts=("minimal", "low", "medium", "high"), sampling="none")
_GEMINI_3_1_PRO = replace(_NEWEST_GEMINI, prefill=True)
_GEMINI_3_PRO = replace(_GEMINI_3_1_PRO, efforts=("low", "high"))
_GEMINI_3_FLASH = replace(_GEMINI_3_1_PRO, efforts=("minimal", "low", "medium", "high"))
_GEMINI_2_5_FLASH = replace(_GEMINI_3_1_PRO, thinking_off="disabled", efforts=(), budget_max=24_576, call_ids=False)
_GEMINI_2_5_PRO = replace(_GEMINI_2_5_FLASH, thinking_off="", budget_min=128, budget_max=32_768)
_GEMINI_2_5_LITE = replace(_GEMINI_2_5_FLASH, thinks_unasked=False, budget_min=512)
_GEMINI_2 = replace(_GEMINI_2_5_FLASH, thinks_unasked=False, budget_max=0, penalties=True)
_GEMINI_1 = replace(_GEMINI_2, json_schemas=False)
_GEMMA = replace(_GEMINI_1, penalties=False)

_NEWEST_GPT = ModelRules(
    thinks_unasked=True, efforts=("none", "low", "medium", "high", "xhigh", "max"), sampling="none", penalties=False
)
_GPT_5_5 = replace(_NEWEST_GPT, efforts=("none", "low", "medium", "high", "xhigh"), sampling="unless_thinking")
_GPT_5_2 = replace(_GPT_5_5, thinks_unasked=False)
_GPT_5_1 = replace(_GPT_5_2, efforts=("none", "low", "medium", "high"))
_O_SERIES = replace(_NEWEST_GPT, thinking_off="", efforts=("low", "medium", "high"))
_GPT_5 = replace(_O_SERIES, efforts=("minimal", "low", "medium", "high"))
_GPT_5_CHAT = replace(_O_SERIES, efforts=("medium",))
_GPT_5_PRO = replace(_O_SERIES, efforts=("high",))
_GPT_5_2_PRO = replace(_O_SERIES, efforts=("medium", "high", "xhigh"))
_CODEX = replace(_O_SERIES, efforts=("low", "medium", "high", "xhigh"))
_GPT_4 = replace(NO_RULES, efforts=())
_KIMI = replace(NO_RULES, sampling="none", penalties=False)
_GPT_OSS = replace(NO_RULES, thinks_unasked=True, thinking_off="", efforts=("low", "medium", "high"))

_MIGRATION = "https://platform.claude.com/docs/en/models/{}/migration-guide"
_MODELS = "https://platform.claude.com/docs/en/about-claude"
_BUILDING = "https://platform.claude.com/docs/en/build-with-claude"
_THINKING = f"{_BUILDING}/extended-thinking"
_GEMINI_THINKING = "https://ai.google.dev/gemini-api/docs/thinking"
_LITE = "https://docs.cloud.google.com/gemini-enterprise-agent-platform/models/gemini/3-5-flash-lite"
_GEMMA_DOCS = "https://ai.google.dev/gemma/docs/core/gemma_on_gemini_api"
_STRUCTURED = "https://blog.google/technology/developers/gemini-api-structured-outputs"
_OPENAI_DOCS = "https://developers.openai.com/api/docs"
_REASONING = f"{_OPENAI_DOCS}/guides/reasoning"
_CHECKLIST = f"{_OPENAI_DOCS}/guides/deployment-checklist"
_MODELS_DEV = "https://github.com/anomalyco/models.dev/pull/2351"
# Names of deployments at Azure are the operator's own: of one that does not say its model, a catalog file states the rules.
_OPENAI = ("api.openai.com", "openai.azure.com", "services.ai.azure.com", "cognitiveservices.azure.com")
_MOONSHOT = ("api.moonshot.ai", "api.moonshot.cn", "api.kimi.com")

_FABLES = ("claude-fable-5-1", "claude-fable-5", "claude-mythos-5-1", "claude-mythos-5", "claude-mythos-preview")
_OLD_CLAUDES = ("claude-3-5", "claude-3", "claude-2-1", "claude-2-0", "claude-2", "claude-instant-1-2", "claude-instant-1")
_FIRST_TO_REASON = ("o1", "o3", "o4-mini", "gpt-5-codex", "gpt-5-1-codex", "codex-mini")
_NOT_REASONING = ("gpt-5-chat", "gpt-4-1", "gpt-4o", "chatgpt-4o", "gpt-4", "gpt-3-5", "gpt-35")
_KIMIS = ("kimi-k2-5", "kimi-k2-6", "kimi-k2-7", "kimi-k3", "kimi-for-coding")
GENERATIONS = (
    # 400 for budgets, sampling, prefill, forced tools and "disabled". Messages of the system: model pages of 5.5.
    Generation("anthropic", ("claude-opus-5-5",), _OPUS_5_5, _MIGRATION.format("opus-5-5")),
    # "between_tools" instead of "disabled", up to the effort high.
    Generation("anthropic", ("claude-sonnet-5-5",), _SONNET_5_5, _MIGRATION.format("sonnet-5-5")),
    # It takes forced tools, and "disabled" up to the effort high.
    Generation("anthropic", ("claude-haiku-5-5",), _OPUS_5, _MIGRATION.format("haiku-5-5")),
    # "tool_choice forces tool use is not compatible with this model"; reports of 5.0 differ.
    Generation("anthropic", _FABLES, _OPUS_5_5, _MIGRATION.format("fable-5-1")),
    # 400 for "disabled" beside the efforts xhigh and max.
    Generation("anthropic", ("claude-opus-5",), _OPUS_5, f"{_BUILDING}/effort"),
    # 400 for messages of the system in the middle.
    Generation("anthropic", ("claude-sonnet-5",), _SONNET_5, f"{_MODELS}/models/whats-new-sonnet-5"),
    Generation("anthropic", ("claude-opus-4-8",), _OPUS_4_8, f"{_MODELS}/models/whats-new-claude-4-8"),
    Generation("anthropic", ("claude-opus-4-7",), _OPUS_4_7, f"{_BUILDING}/effort"),
    # "This model does not support assistant message prefill" (github.com/vercel/ai/issues/12296). Budgets are deprecated.
    Generation("anthropic", ("claude-opus-4-6", "claude-sonnet-4-6"), _CLAUDE_4_6, f"{_BUILDING}/effort"),
    # The effort beside a budget: up to high.
    Generation("anthropic", ("claude-opus-4-5",), _OPUS_4_5, f"{_BUILDING}/effort"),
    # "temperature and top_p cannot both be specified for this model" (github.com/langchain-ai/langchain/issues/33323).
    Generation("anthropic", ("claude-sonnet-4-5", "claude-haiku-4-5", "claude-opus-4-1"), _CLAUDE_4_5, _THINKING),
    Generation("anthropic", ("claude-opus-4", "claude-sonnet-4", "claude-4", "claude-3-7"), _CLAUDE_4, _THINKING),
    Generation("anthropic", _OLD_CLAUDES, _CLAUDE_3, f"{_MODELS}/model-deprecations"),
    # Ids of calls since 3; older ones refuse them (github.com/NousResearch/hermes-agent/pull/80683). JSON Schema: all models
    # that were supported in November 2025, which are 2.0 and later.
    # Penalties: "Penalty is not enabled for this model" (github.com/google-gemini/cookbook/issues/1290), since 2.5.
    # "minimal" is a 400 since 3.7 Flash (docs.cloud.google.com, guides/gemini-3-8-flash). Of 3.5 Flash-Lite and the later: 400
    # for a last turn of the model; sampling is ignored (docs.cloud.google.com, models/gemini/3-5-flash-lite).
    Generation("gemini", ("gemini-3-5-flash-lite",), _GEMINI_3_5_LITE, _LITE),
    Generation("gemini", ("gemini-3-5-flash", "gemini-3-1-flash-lite", "gemini-3-flash"), _GEMINI_3_FLASH, _GEMINI_THINKING),
    Generation("gemini", ("gemini-3-1-pro",), _GEMINI_3_1_PRO, _GEMINI_THINKING),
    Generation("gemini", ("gemini-3-pro",), _GEMINI_3_PRO, _GEMINI_THINKING),
    Generation("gemini", ("gemini-2-5-pro",), _GEMINI_2_5_PRO, _GEMINI_THINKING),
    Generation("gemini", ("gemini-2-5-flash-lite",), _GEMINI_2_5_LITE, _GEMINI_THINKING),
    Generation("gemini", ("gemini-2-5-flash",), _GEMINI_2_5_FLASH, _GEMINI_THINKING),
    Generation("gemini", ("gemini-2-0",), _GEMINI_2, "https://ai.google.dev/gemini-api/docs/models"),
    Generation("gemini", ("gemini-1-5", "gemini-1-0"), _GEMINI_1, _STRUCTURED),
    Generation("gemini", ("gemma-3", "gemma-3n", "gemma-2"), _GEMMA, _GEMMA_DOCS),
    # The levels: the reference of reasoning_effort. Sampling: github.com/vercel/ai/issues/10932 and
    # github.com/langchain-ai/langchain/issues/35423; of 5.6: github.com/ItzCrazyKns/Vane/issues/1173.
    Generation("openai", ("gpt-5-1-chat", "gpt-5-2-chat"), _GPT_5_CHAT, _MODELS_DEV, _OPENAI),
    Generation("openai", ("gpt-5-pro",), _GPT_5_PRO, f"{_OPENAI_DOCS}/models/gpt-5-pro", _OPENAI),
    Generation("openai", ("gpt-5-2-pro", "gpt-5-4-pro", "gpt-5-5-pro"), _GPT_5_2_PRO, _MODELS_DEV, _OPENAI),
    Generation("openai", ("gpt-5-1-codex-max", "gpt-5-2-codex", "gpt-5-3-codex"), _CODEX, _REASONING, _OPENAI),
    Generation("openai", _FIRST_TO_REASON, _O_SERIES, _REASONING, _OPENAI),
    Generation("openai", _NOT_REASONING, _GPT_4, _REASONING, _OPENAI),
    Generation("openai", ("gpt-5",), _GPT_5, _REASONING, _OPENAI),
    Generation("openai", ("gpt-5-1",), _GPT_5_1, f"{_OPENAI_DOCS}/models/gpt-5.1", _OPENAI),
    Generation("openai", ("gpt-5-2", "gpt-5-3", "gpt-5-4"), _GPT_5_2, f"{_OPENAI_DOCS}/guides/latest-model", _OPENAI),
    Generation("openai", ("gpt-5-5",), _GPT_5_5, _REASONING, _OPENAI),
    Generation("openai", ("gpt-5-6", "gpt-6", "gpt-7", "gpt-8", "gpt-9"), _NEWEST_GPT, _CHECKLIST, _OPENAI),
    # "invalid temperature: only 1 is allowed for this model", 0.6 without thinking: it is fixed, as top_p is.
    Generation("openai", _KIMIS, _KIMI, "https://platform.kimi.ai/docs/api/chat", _MOONSHOT),
    Generation("openai", ("gpt-oss",), _GPT_OSS, "https://console.groq.com/docs/reasoning", ("api.groq.com",)),
)
NEWEST = {"anthropic": _NEWEST_CLAUDE, "gemini": _NEWEST_GEMINI}
_PATTERNS = tuple(
    # A name begins where no word does, and ends with its version. A date or a size, as in -27b, is no version.
    (each, re.compile(rf"(?<![a-z0-9])(?:{'|'.join(each.names)})(?!\d|-\d{{1,2}}(?![0-9a-z]))"))
    for each in GENERATIONS
)


def of_route(kind: str, base_url: str, upstream_model: str, stated: Mapping[str, Any] | None = None) -> ModelRules:
    """Return the rules of a model at a provider of this kind, with those that a catalog file states instead."""
    rules = _known(kind.partition("-responses")[0], web_addresses.domains(base_url), upstream_model)
    if not stated:
        return rules
    merged = msgspec.convert({**msgspec.structs.asdict(rules), **stated}, ModelRules)
    return replace(merged, efforts=tuple(sorted(merged.efforts, key=EFFORTS.index)))


@lru_cache(maxsize=4_096)
def _known(kind: str, domains: tuple[str, ...], upstream_model: str) -> ModelRules:
    name = re.sub(r"(?<=\d)\.(?=\d)", "-", upstream_model.lower())
    for generation, pattern in _PATTERNS:
        if generation.kind == kind and (not generation.hosts or set(domains) & set(generation.hosts)) and pattern.search(name):
            return generation.rules
    return NEWEST.get(kind, NO_RULES)


def nearest_effort(effort: str, rules: ModelRules) -> str | None:
    """Return the level that is sent for an effort: itself, the next lower one, or else the lowest. None: it takes no level."""
    if effort in rules.efforts or not rules.efforts:
        return effort if rules.efforts else None
    levels = [level for level in rules.efforts if level != "none"]
    lower = [level for level in levels if EFFORTS.index(level) < EFFORTS.index(effort)]
    return lower[-1] if lower else levels[0]
