"""The meaning of providers' errors for callers, by codes and words: a refusal of content, or a prompt that is too long.

Whoever refuses how, callers get one code for each: SDKs do not repeat it, and coding agents compact at a prompt that is too
long. A new spelling is a line in a table. No spelling may be one that a message about our account, a rate, or max_tokens has.
"""

import re

CONTENT_FILTER = "content_filter"
TOO_LONG = "context_length_exceeded"

# A code, a type or a status, in lower case and without separators -> who uses it, and where that is written.
_CONTENT_CODES = {
    "contentfilter": "OpenAI, Azure, Kimi (as a type)",
    "contentpolicyviolation": "OpenAI; OpenRouter's error_type (openrouter.ai/docs/api-reference/errors)",
    "contentpolicyviolationerror": "LiteLLM",
    "moderationblocked": "OpenAI, of images",
    "cyberpolicy": "OpenAI, Trusted Access for Cyber",
    "responsibleaipolicyviolation": "Azure's innererror (learn.microsoft.com, Azure OpenAI content filtering)",
    "datainspectionfailed": "Alibaba (QwenLM/qwen-code issue 3271)",
    "1301": "Z.ai, Zhipu (docs.z.ai/api-reference/api-code)",
    "baseresp1026": "MiniMax, of the input (platform.minimax.io, error codes)",
    "baseresp1027": "MiniMax, of the output",
    "sensitivewordsdetected": "new-api (QuantumNous/new-api)",
    "censorshipblocked": "StepFun (platform.stepfun.com, error codes)",
    **dict.fromkeys(
        ("contentblocked", "contentmoderated", "contentmoderation", "contentviolation", "promptblocked", "safetyviolation"),
        "gateways",
    ),
    "nsfwcontent": "Together",
    "prohibitedcontent": "Gemini by gateways (hackerai-tech/hackerai PR 632)",
    "guardrailviolation": "Mistral, Databricks",
}
# Of Ark and new-api.
_CONTENT_CODE = re.compile("datainspectionfailed|sensitivecontentdetected|riskdetection|contentrisk|violationfee")
_CONTENT_WORDS = {
    r"content violates usage guidelines|safety_check_type": "xAI (inspect_ai PR 2267, llmgateway PR 1785)",
    r"(?:input|prompt|output|content|message|request|image)s? (?:text |content )?"
    r"(?:was|were|is|has been|have been) flagged": "OpenRouter",
    r"prohibited due to a violation of provider terms of service": "OpenRouter",
    r"may contain (?:inappropriate|sensitive) (?:content|information|words)|datainspectionfailed": "Alibaba, SenseNova, Ark",
    r"unsafe or sensitive content|不安全或敏感|敏感内容|敏感词": "Z.ai, Zhipu",
    r"违规(?:信息|内容)|内容(?:违规|安全审核)": "Baidu, gateways",
    r"content exists risk": "DeepSeek",
    r"considered high risk": "Kimi",
    r"new_sensitive": "MiniMax",
    r"sensitive[_ ]words?[_ ]detected": "new-api",
    r"content you provided or machine outputted is blocked|censorship_blocked": "StepFun",
    r"content management policy|responsible ?ai ?policy ?violation|responsible ai practices": "Azure, Vertex",
    r"(?:blocked|filtered|rejected|stopped) (?:by|due to|because of|as a result of|for violating) (?:\w+ ){0,2}"
    r"(?:content|safety|moderation)[ -](?:filter|polic|system|check|guideline|moderation)": "Anthropic, Bedrock, OpenAI",
    r"(?:blocked|rejected) by (?:the |our |a )?(?:moderation|safety|guardrail)": "Mistral, gateways",
    r"guardrail (?:intervened|violation)": "Bedrock, Databricks",
    r"flagged (?:as potentially violating|for possible)": "OpenAI",
    r"flagged by (?:the |our |a )?(?:moderation|safety|content|policy)": "Together, gateways",
    r"prohibited[ _]content": "Anthropic, Gemini",
    r"nsfw content": "Together",
    r"violat\w+ (?:of )?(?:our |the |your |openai'?s |google'?s )?(?:generative ai |model )?"
    r"(?:content|usage|acceptable use|safety|prohibited use)[ _-](?:polic|guideline)": "OpenAI, Cohere, Vertex",
    r"content_?policy_?violation|content[_ ]policy[_ ]violation": "LiteLLM",
}
_TOO_LONG_CODES = {
    "contextlengthexceeded": "OpenAI, Azure, SGLang",
    "contextwindowexceeded": "gateways",
    "contextwindowexceedederror": "LiteLLM",
    "modelcontextwindowexceeded": "Z.ai",
    "exceedcontextsizeerror": "llama.cpp",
    "prompttoolong": "gateways",
    "tokenstoolong": "Baidu Qianfan",
    "1261": "Z.ai, Zhipu (docs.z.ai/api-reference/api-code)",
}
# Most are collected by coding agents: sst/opencode provider-error.ts, badlogic/pi-mono overflow.ts.
_TOO_LONG_WORDS = {
    r"maximum context length": "OpenAI, vLLM, Mistral, OpenRouter",
    r"prompt (?:is )?too (?:long|large)": "Anthropic, Fireworks, Ollama",
    r"exceed context limit": "Anthropic",
    r"exceed\w* (?:the |this |its |your )?(?:model'?s? )?(?:maximum |max |available )?"
    r"context (?:window|length|size|limit)": "OpenAI's Responses, llama.cpp, Cloudflare, DeepInfra",
    r"context[_ ]?(?:window|length|size|limit)[_ ]?(?:is |was )?exceed": "MiniMax, LiteLLM, gateways",
    r"context the overflows|when (?:the )?context overflows|context length of only|greater than the context length"
    r"|reached (?:the )?context length": "LM Studio",
    r"context length is only|configured context size is": "vLLM, DS4",
    r"maximum prompt length is": "xAI",
    r"range of input length should be": "Alibaba",
    r"exceeded? (?:the )?model'?s? token limit": "Kimi",
    r"prompt exceeds max(?:imum)? length|prompt ?超长|超[出过].{0,12}(?:上下文|最大长度)": "Z.ai, Zhipu",
    r"longer than the (?:maximum )?model'?s? (?:context )?length": "Together, SGLang, vLLM",
    r"input token count.{0,40}(?:exceed|but model only supports)": "Gemini, Vertex",
    r"exceeds the maximum number of tokens allowed": "Gemini",
    r"input is too long for|too many input tokens|input is too long\b|expected maxlength": "Bedrock",
    r"total number of tokens in the prompt cannot exceed|too many tokens: ": "Cohere",
    r"reduce the length of (?:the|your) (?:messages|prompt|input)": "Groq, Cerebras, OpenAI",
    r"(?:input|prompt) (?:token count|length|tokens)\b.{0,40}exceeds.{0,30}(?:limit|max|context)": "Copilot, NIM, Poolside",
    r"exceeds (?:the )?maximum allowed input length": "SGLang, OpenRouter",
    r"tokens in request more than max tokens allowed": "gateways",
    r"inputs?\W+tokens \+ \W*max_new_tokens\W+must be|inputs?\W+must have less than \d+ tokens": "TGI",
    r"(?:prompt|input) tokens too long|tokens_too_long": "Baidu Qianfan",
    r"exceed max message tokens": "Ark",
}
# They have such words, too: rates, the tokens of a reply, and our account.
_NOT_CONTENT = re.compile(
    r"\b(?:account|organi[sz]ation|api key|team|project|workspace)\b.{0,60}"
    r"(?:suspend|banned|disabled|deactivat|terminat|restrict)",
    re.IGNORECASE,
)
_RATE = re.compile(
    r"rate[ _-]?limit|tokens? per (?:min|day|hour|second)|\bTPM\b|\bTPD\b|too many requests|throttl|quota", re.IGNORECASE
)
# Our account at the provider is not paid, whatever the status: more requests do not help until it is.
_UNPAID_CODES = {
    "1113": "Z.ai, Zhipu, with 429 (zai-org/feedback issue 789, langgenius/dify issue 5850)",
    "accountdeactivated": "OpenAI",
    "arrearage": "Alibaba, with 400 (alibabacloud.com/help/en/model-studio/error-code)",
    "baseresp1008": "MiniMax (platform.minimax.io, error codes)",
    "billinghardlimitreached": "OpenAI",
    "billingnotactive": "OpenAI",
    "creditbalanceexhausted": "OpenAI, with 429",
    "exceededcurrentquotaerror": "Kimi, with 429 (MoonshotAI/kimi-code PR 1857)",
    "organizationrestricted": "Groq, with 400",
    "organizationspendlimitexceeded": "OpenAI, with 429",
    "projectspendlimitexceeded": "OpenAI, with 429",
}
_UNPAID_AT_400 = "insufficientquota"  # with 429 it is Alibaba's word for a rate, too (help.aliyun.com/model-studio/error-code)
_UNPAID_WORDS = {
    r"exceeded your current quota.{0,200}platform\.openai\.com": "OpenAI; Alibaba has its words, with a link of its own",
    r"used all available credits": "xAI, with 429 (continuedev/continue issues 10373, 10740)",
    r"credits are depleted": "Gemini, with 429 (JeffOtano/roni PR 125)",
    r"is suspended, possibly due to reaching the monthly spending limit": "Fireworks, with 412 (amd/gaia issue 3766)",
    r"insufficient (?:account )?balance|欠费|余额不足": "Kimi, Z.ai, gateways",
}
_QUOTA_CODES = {
    "servicequotaexceededexception": "Bedrock, with 400 (docs.aws.amazon.com/bedrock, InvokeModel)",
}
_NOT_TOO_LONG = re.compile(
    r"(?<!\+ [`'\"])max(?:imum)?[_ ]?(?:completion|output|new|generated)?[_ ]?tokens\W{0,3}(?: or \W?max_\w+\W?)? "
    r"(?:is|are|must|should|cannot|may not|exceeds|value)\b(?! exceed context)"
    r"|range of max_|max_tokens: \d+ >|valid range of max_tokens|(?:completion|output) tokens\b.{0,20}whereas|maxoutputtokens",
    re.IGNORECASE,
)
_SEPARATORS = re.compile(r"[\W_]+")


def _alternatives(table: dict[str, str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{words})" for words in table), re.IGNORECASE)


_CONTENT, _OVERFLOW, _UNPAID = map(_alternatives, (_CONTENT_WORDS, _TOO_LONG_WORDS, _UNPAID_WORDS))


def is_rate(names: frozenset[str], message: str) -> bool:
    """Return whether an error is about a rate, such as Groq's 413 for more tokens than a minute may have."""
    return any("ratelimit" in _plain(name) for name in names) or bool(_RATE.search(message))


def is_unpaid(status: int, names: frozenset[str], message: str) -> bool:
    """Return whether an error says that our account is not paid. Not by words where the message may quote the request."""
    plain = {_plain(name) for name in names}
    if plain & _UNPAID_CODES.keys():
        return True
    return _UNPAID_AT_400 in plain if status in (400, 413, 422) else bool(_UNPAID.search(message))


def is_quota(names: frozenset[str]) -> bool:
    """Return whether an error says by its type that our account has no more of its quota now."""
    return any(_plain(name) in _QUOTA_CODES for name in names)


def meaning(names: frozenset[str], message: str) -> str | None:
    """Return the code for callers of an error with these codes and types and this message; None if it means neither."""
    plain = {_plain(name) for name in names}
    is_code = any(name in _CONTENT_CODES or _CONTENT_CODE.search(name) for name in plain)
    if is_code or (_CONTENT.search(message) and not _NOT_CONTENT.search(message)):
        return CONTENT_FILTER
    if plain & _TOO_LONG_CODES.keys():
        return TOO_LONG
    if _OVERFLOW.search(message) and not (_NOT_TOO_LONG.search(message) or is_rate(names, message)):
        return TOO_LONG
    return None


def _plain(name: str) -> str:
    return _SEPARATORS.sub("", name.lower())


KEY_TEXT_BYTES_MAX = 2_000  # of a body: a message and a code are at its start

_ABOUT_US = re.compile(
    r"(?:api|access)[ _-]?key|access[ _-]?token|security token|signature"
    r"|credential|authenticat|unauthori[sz]ed|account|organi[sz]ation|project|billing|suspend|deactivated"
    r"|permission|country|region|location",
    re.IGNORECASE,
)
# Whole words, also within "content_policy": a message may name a method, such as GenerateContent.
_ABOUT_THE_REQUEST = re.compile(
    r"(?<![a-z])(?:contents?|moderat[a-z]*|flagged|polic(?:y|ies)|safety|harm[a-z]*|models?)(?![a-z])", re.IGNORECASE
)
# Fields of the body, not words of its message: quotes within that are escaped.
_KEY_CODE = re.compile(r'"(?:reason|code)"\s*:\s*"API_KEY_')
# OpenAI's and LiteLLM's codes; then OpenRouter's mark of an error that the provider behind it sent.
_ABOUT_ONE_MODEL = re.compile(
    r'"(?:code|type)"\s*:\s*"(?:model_not_found|key_model_access_denied)"|access (?:to )?(?:the |this )?model(?![a-z])'
    r'|"provider_name"\s*:|provider returned error',
    re.IGNORECASE,
)


def is_about_key(status: int, text: str) -> bool:
    """Return whether a provider's refusal with this status and body says that it does not accept our key or account.

    A 401 does, unless it is about one model: an aggregator relays the 401 of the provider behind a model, and may refuse a key
    for some models only. A 403 does only by its words: it may also mean a model that we may not use, or unwanted content, and a
    firewall in front of a provider sends one without a reason. Google's codes are unambiguous.
    """
    about = text[:KEY_TEXT_BYTES_MAX]
    if status not in (401, 403):
        return False
    if _KEY_CODE.search(about):
        return True
    if _ABOUT_ONE_MODEL.search(about):
        return False
    return status == 401 or bool(_ABOUT_US.search(about) and not _ABOUT_THE_REQUEST.search(about))
