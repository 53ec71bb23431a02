"""Refusals of content and prompts that are too long have one code each, whoever says so how. Each spelling is one line here."""

import json

import pytest

from completions.providers import error_body
from completions.providers.error_body import ProviderError
from tests.chat import assert_error
from tests.completions.routes import add
from tests.completions.rows import ask, assert_released
from tests.upstream import DONE, ROLE, event, reply, stream, whole

RAW = json.dumps({"error": {"message": "The prompt was filtered", "code": "content_filter", "type": "x", "param": "prompt"}})
CONTENT = {
    "xai": (
        403,
        {
            "code": "The caller does not have permission to execute the specified operation",
            "error": "Content violates usage guidelines. Team: 12ab34cd-1, API key ID: 9, Failed check: SAFETY_CHECK_TYPE_BIO",
        },
    ),
    "xai's code": (403, {"code": "permission-denied", "error": "Content violates usage guidelines."}),
    "openrouter": (
        403,
        {"error": {"code": 403, "message": "Input was flagged", "metadata": {"reasons": ["violence"], "flagged_input": "x"}}},
    ),
    "openrouter's moderation": (
        403,
        {"error": {"code": 403, "message": 'openai/x requires moderation on OpenRouter. Your input was flagged for "a".'}},
    ),
    "openrouter's type": (
        403,
        {"error": {"code": 403, "message": "No", "metadata": {"error_type": "content_policy_violation"}}},
    ),
    "openrouter, relayed": (
        400,
        {"error": {"code": 400, "message": "Provider returned error", "metadata": {"raw": RAW, "provider_name": "Azure"}}},
    ),
    "openrouter's terms": (
        403,
        {"error": {"code": 403, "message": "The request is prohibited due to a violation of provider Terms Of Service."}},
    ),
    "alibaba": (
        400,
        {
            "error": {
                "code": "data_inspection_failed",
                "type": "data_inspection_failed",
                "message": "Input data is inappropriate",
            }
        },
    ),
    "alibaba in words": (400, {"message": "<400> InternalError.Algo.DataInspectionFailed: Input text data may contain x"}),
    "z.ai": (400, {"error": {"code": "1301", "message": "系统检测到输入或生成内容可能包含不安全或敏感内容"}}),
    "z.ai, a number": (400, {"error": {"code": 1301, "message": "no"}, "contentFilter": [{"level": 1, "role": "user"}]}),
    "kimi": (
        400,
        {"error": {"type": "content_filter", "message": "The request was rejected because it was considered high risk"}},
    ),
    "azure": (
        400,
        {
            "error": {
                "message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
                "code": "content_filter",
                "status": 400,
                "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"hate": {"filtered": True}}},
            }
        },
    ),
    "azure's inner code": (
        400,
        {"error": {"code": "x", "message": "no", "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
    ),
    "openai": (
        400,
        {"error": {"code": "content_policy_violation", "message": "Your request was rejected by our safety system."}},
    ),
    "openai's prompt": (
        400,
        {
            "error": {
                "code": "invalid_prompt",
                "message": "Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
            }
        },
    ),
    "anthropic": (
        400,
        {"type": "error", "error": {"type": "invalid_request_error", "message": "Output blocked by content filtering policy"}},
    ),
    "deepseek": (
        400,
        {"error": {"message": "Content Exists Risk", "type": "invalid_request_error", "code": "invalid_request_error"}},
    ),
    "minimax": (200, {"choices": None, "base_resp": {"status_code": 1026, "status_msg": "input new_sensitive"}}),
    "minimax's output": (200, {"base_resp": {"status_code": 1027, "status_msg": "output is sensitive"}}),
    "stepfun": (
        451,
        {"error": {"type": "censorship_blocked", "message": "The content you provided or machine outputted is blocked."}},
    ),
    "ark": (
        400,
        {
            "error": {
                "code": "InputTextSensitiveContentDetected.PolicyViolation",
                "message": "The request failed because the input text may contain sensitive information.",
            }
        },
    ),
    "litellm": (
        500,
        {"error": {"message": "litellm.BadRequestError: litellm.ContentPolicyViolationError: no", "type": None, "code": "500"}},
    ),
    "new-api": (500, {"error": {"message": "sensitive words detected: x", "code": "sensitive_words_detected"}}),
    "together": (422, {"error": {"message": "Input was flagged by safety model", "type": "invalid_request_error"}}),
    "bedrock": (400, {"message": "This request has been blocked by our content filters."}),
    "vertex": (
        400,
        [{"error": {"code": 400, "message": "The prompt contains words that violate Google's Responsible AI practices."}}],
    ),
    "in band, a status": (200, {"error": {"code": 403, "message": "Input was flagged"}}),
    "in band, a code": (200, {"error": {"code": "content_filter", "message": "no"}}),
}


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("status", "body"), CONTENT.values(), ids=CONTENT.keys())
def test_a_refusal_of_content_is_one_400_and_asked_nowhere_again(api, alice, large, upstream, spare, status, body, streaming):
    add(large, spare)
    upstream.will(reply(json.dumps(body).encode(), status=status), whole("Hello"))
    answer = ask(api, stream=streaming)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["type"]) == (400, "content_filter", "invalid_request_error")
    assert (answer["x-gateway-attempts"], len(upstream.requests), len(spare.requests)) == ("1", 1, 0)
    assert_released(alice)
    assert ask(api)["x-gateway-provider"] == "scripted"  # neither its key nor its route is thought to be refused


def test_one_in_the_middle_of_a_stream_is_told_in_it(api, alice, large, upstream):
    flagged = event({"error": {"code": 403, "message": "Output was flagged", "metadata": {"reasons": ["x"]}}})
    upstream.will(stream(ROLE, event({"choices": [{"index": 0, "delta": {"content": "Hel"}}]}), 0.1, flagged, DONE))
    last = ask(api, stream=True).getvalue().decode().strip().rpartition("data: ")[2]
    assert json.loads(last)["error"]["code"] == "content_filter"


NO_CONTENT = {
    "a suspended account": (403, {"error": {"message": "Your account was suspended for violating our usage policy"}}, 502),
    "a key": (403, {"error": {"message": "This API key is disabled for violation of our content policy"}}, 502),
    "a bad field": (400, {"error": {"message": "Invalid content type. image_url is only supported by certain models."}}, 400),
    "a safety setting": (400, {"error": {"message": "Unknown parameter: safety_settings", "code": "unknown_parameter"}}, 400),
    "mistral's rate": (429, {"object": "error", "message": "Requests rate limit exceeded", "code": "1301"}, 503),
    "no permission": (403, {"error": {"message": "You have no access", "type": "permission_error"}}, 502),
    "a model": (400, {"error": {"message": "The model omni-moderation does not support chat"}}, 400),
}


@pytest.mark.parametrize(("status", "body", "told"), NO_CONTENT.values(), ids=NO_CONTENT.keys())
def test_what_is_no_refusal_of_content(api, large, upstream, settings, status, body, told):
    settings.UPSTREAM_ATTEMPTS_MAX = 1
    upstream.will(reply(json.dumps(body).encode(), status=status))
    answer = ask(api)
    assert (answer.status_code, answer.json()["error"]["code"] == "content_filter") == (told, False)


TOO_LONG = {
    "openai": "This model's maximum context length is 4097 tokens. However, your messages resulted in 5000 tokens.",
    "openai's responses": "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "anthropic": "prompt is too long: 213462 tokens > 200000 maximum",
    "anthropic with max_tokens": "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
    "gemini": "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
    "vertex": "Unable to submit request because the input token count is 40000 but model only supports up to 32768.",
    "xai": "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "alibaba": "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]",
    "kimi": "Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)",
    "z.ai": "Prompt exceeds max length",
    "zhipu": "Prompt 超长",
    "llama.cpp": "the request exceeds the available context size, try increasing it",
    "lm studio": "Trying to keep the first 14137 tokens when context the overflows. However, the model is loaded with context "
    "length of only 4096 tokens, which is not enough.",
    "lm studio's other": "The number of tokens to keep from the initial prompt is greater than the context length.",
    "ollama": "prompt too long; exceeded max context length by 5000 tokens",
    "mistral": "Prompt contains 140000 tokens and 0 draft tokens, too large for model with 131072 maximum context length",
    "groq": "Please reduce the length of the messages or completion.",
    "cerebras": "Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192",
    "openrouter": "This endpoint's maximum context length is 128000 tokens. However, you requested about 140000 tokens.",
    "openrouter's poolside": "Input length 300000 exceeds the maximum allowed input length of 262144 tokens.",
    "together": "The input (140000 tokens) is longer than the model's context length (131072 tokens).",
    "bedrock": "ValidationException: Input is too long for requested model.",
    "bedrock's cohere": "Too many input tokens. Max input tokens: 8192, request input token count: 9000",
    "cohere": "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4229.",
    "minimax": "invalid params, context window exceeds limit (2013)",
    "copilot": "prompt token count of 130000 exceeds the limit of 128000",
    "tgi": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens",
    "tgi's prompt": "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000",
    "nim": "Prompt length (5000) exceeds maximum input length (4096)",
    "fireworks": "The prompt is too long: 9000, model maximum context length: 8191",
    "cloudflare": "The number of input and maximum output tokens (9000) exceeded this model context window limit (8192).",
    "litellm": "litellm.ContextWindowExceededError: no",
    "sglang": "Requested token count exceeds the model's maximum context length of 131072 tokens.",
    "baidu": "Prompt tokens too long",
    "ark": "Total tokens of image and text exceed max message tokens.",
    "ds4": "Prompt has 70000 tokens, but the configured context size is 65536 tokens",
    "vllm": "The prompt (total length 5000) is longer than the maximum model length of 4096.",
}


@pytest.mark.parametrize("message", TOO_LONG.values(), ids=TOO_LONG.keys())
def test_a_prompt_that_is_too_long_is_told_by_words(message):
    assert ProviderError(message).caller_code == "context_length_exceeded"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (413, {"error": {"message": TOO_LONG["groq"]}}),
        (500, {"error": {"message": TOO_LONG["lm studio"]}}),
        (422, {"detail": TOO_LONG["vllm"]}),
        (200, {"error": TOO_LONG["lm studio"]}),
        (400, {"code": "Client specified an invalid argument", "error": TOO_LONG["xai"]}),
        (400, {"error": {"message": "no", "type": "exceed_context_size_error", "n_ctx": 4096}}),
        (400, {"error": {"code": "1261", "message": "no"}}),
        (
            400,
            {
                "error": {
                    "message": "Provider returned error",
                    "metadata": {"raw": json.dumps({"message": TOO_LONG["bedrock"]})},
                }
            },
        ),
        (400, {"error": {"message": "Provider returned error", "metadata": {"raw": TOO_LONG["vllm"]}}}),
    ],
)
def test_it_is_a_400_in_every_shape(api, alice, large, upstream, status, body):
    upstream.will(reply(json.dumps(body).encode(), status=status))
    answer = ask(api)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert len(upstream.requests) == 1
    assert_released(alice)


NOT_TOO_LONG = {
    "groq's minute": "Request too large for model `x` in organization `org_1` service tier `a` on tokens per minute (TPM): "
    "Limit 6000, Requested 9000, please reduce your message size and try again.",
    "openai's minute": "Request too large for gpt-4 in organization org-1 on tokens per min (TPM): Limit 10000, Requested 12.",
    "a rate": "Rate limit exceeded: too many tokens per minute. Reduce the length of the messages.",
    "bedrock's throttling": "Too many tokens, please wait before trying again.",
    "openai's reply": "max_tokens is too large: 200000. This model supports at most 16384 completion tokens, whereas",
    "anthropic's reply": "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude-x",
    "vllm's reply": "'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is 4096",
    "alibaba's reply": "Range of max_tokens should be [1, 8192]",
    "groq's reply": "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the "
    "`context_window` for this model",
    "deepseek's reply": "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
    "gemini's reply": "Unable to submit request because it has a maxOutputTokens value of 9 but the supported range is 1",
    "an image": "messages.0.content.0.image.source.base64: image exceeds 5 MB maximum",
    "a text": "Invalid 'messages[0].content': string too long. Expected a string with maximum length 10485760",
}


@pytest.mark.parametrize("message", NOT_TOO_LONG.values(), ids=NOT_TOO_LONG.keys())
def test_what_is_no_prompt_that_is_too_long(message):
    assert ProviderError(message).caller_code is None


def test_more_than_a_minutes_tokens_is_a_rate_whatever_its_status(api, large, upstream, settings):
    settings.UPSTREAM_ATTEMPTS_MAX = 1
    body = {"error": {"message": NOT_TOO_LONG["groq's minute"], "type": "tokens", "code": "rate_limit_exceeded"}}
    upstream.will(reply(json.dumps(body).encode(), status=413))
    assert_error(ask(api), 503, "upstream_error")


QUOTA = "You exceeded your current quota, please check your plan and billing details."
UNPAID = {
    "openai": (
        429,
        f"{QUOTA} For more information on this error, read the docs: https://platform.openai.com/docs",
        "insufficient_quota",
    ),
    "openai's organization": (429, "You have reached your limit.", "organization_spend_limit_exceeded"),
    "groq": (400, "This organization has been restricted.", "organization_restricted"),
    "alibaba": (400, "Access denied, please make sure your account is in good standing.", "Arrearage"),
    "z.ai": (429, "[1113][Insufficient balance or no resource package. Please recharge.][2026]", "1113"),
    "zhipu": (429, "您的账户已欠费，请充值后重试。", "1113"),
    "kimi": (429, "Your account org-1 <ak-1> is suspended due to insufficient balance, please recharge your account", None),
    "fireworks": (
        412,
        "Account a is suspended, possibly due to reaching the monthly spending limit or failure to pay",
        "PRECONDITION_FAILED",
    ),
    "xai": (429, "Your team 1 has either used all available credits or reached its monthly spending limit.", None),
    "gemini": (429, "Your prepayment credits are depleted. Please go to AI Studio.", "RESOURCE_EXHAUSTED"),
}


@pytest.mark.parametrize(("status", "message", "code"), UNPAID.values(), ids=UNPAID.keys())
def test_a_provider_that_wants_to_be_paid_is_asked_once(api, alice, large, upstream, status, message, code):
    upstream.will(reply(json.dumps({"error": {"message": message, "code": code}}).encode(), status=status))
    told = ask(api)
    assert_error(told, 502, "upstream_error")
    assert "retry-after" not in told.headers
    assert len(upstream.requests) == 1
    assert_released(alice)


RATES = {
    "alibaba": (
        f"{QUOTA} For details, see: https://help.aliyun.com/zh/model-studio/error-code#token-limit",
        "insufficient_quota",
    ),
    "openai": ("Rate limit reached for gpt-4o in organization org-1 on requests per min. Limit: 3", "rate_limit_exceeded"),
    "kimi": ("Your account org-1 <ak-1> request reached max request: 3, please try again", "rate_limit_reached_error"),
    "gemini": ("Resource has been exhausted (e.g. check quota).", "RESOURCE_EXHAUSTED"),
}


@pytest.mark.parametrize(("message", "code"), RATES.values(), ids=RATES.keys())
def test_a_rate_is_no_unpaid_account(api, large, upstream, settings, message, code):
    settings.UPSTREAM_ATTEMPTS_MAX = 1
    upstream.will(reply(json.dumps({"error": {"message": message, "code": code}}).encode(), status=429))
    assert_error(ask(api), 503, "upstream_error")


def test_a_request_that_quotes_an_unpaid_account_is_the_callers(api, large, upstream):
    upstream.will(reply(json.dumps({"error": {"message": "Invalid value: 'insufficient balance'."}}).encode(), status=400))
    assert_error(ask(api), 400, "invalid_request_error")


def test_a_reply_of_minimax_is_no_error():
    assert not error_body.is_error({"choices": [], "base_resp": {"status_code": 0, "status_msg": ""}})
