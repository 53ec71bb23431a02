"""The prompt of a request, and the maximum of tokens in its text. Pure.

The hold pays for that many tokens, so it must be an upper bound for every provider. No text has more tokens than bytes of
UTF-8. Counted are the bytes of everything that a provider may put before the model, also in fields that this gateway does not
know:

- what messages say: as it is, because chat templates copy it
- tools, schemas, calls of tools and their results, unknown fields: as compact JSON, with an allowance for each comma, bracket
  and colon, because templates write them as JSON with blanks, or indented
- a fixed allowance for what a template adds to each message and to each part, and to the request

A provider's own words for tools and schemas depend on the provider: see ``Adapter.preamble_tokens_max``.

Not counted are white space and escapes in the caller's own JSON (``\\u00e9`` is one character of two bytes), and fields that
say how to generate, or who asks. Without tools, schemas and unknown fields the sum is never more than the bytes of the body,
because the allowances are smaller than what JSON needs around a message, a part and the whole.
"""

from collections.abc import Set

from completions.request.fields import Fields
from gateway_project.text import compact_json

# Allowances, in tokens. Templates add the role and two to six control tokens to a message, one or two around a part, and the
# start of the reply and sometimes a default instruction to the request. Each is less than JSON needs around the same.
REQUEST_TOKENS = 24
MESSAGE_TOKENS = 20
PART_TOKENS = 8
# Characters that JSON on own lines adds to a comma or bracket: a newline, at most 64 levels (``strict_json.DEPTH_MAX``) of four
# blanks, and a blank that stays alone. A tokenizer of a model whose template indents (Llama 3: ``tojson(indent=4)``) writes 64
# blanks and more as one token. Otherwise a blank follows, and one follows a colon in either case.
LINE_TOKENS = 6

# Never sent to a provider: some read each as something that the hold does not pay for. The last three change how many
# tokens an image, a sound or a film is: vLLM's media_io_kwargs and mm_processor_kwargs (its ChatCompletionRequest), and
# Alibaba's vl_high_resolution_images (up to 16,384 tokens for an image: Model Studio's page on visual understanding).
UNPAID_FIELDS = frozenset(
    (
        *("max_new_tokens", "max_output_tokens", "n_predict", "num_predict", "options"),  # another token limit
        *("best_of", "fallbacks", "preset", "provider", "route"),  # more choices, or another model
        *("inference_geo", "prediction", "service_tier", "speed"),  # a dearer service
        *("chat_template", "compound_custom", "mcp_servers", "plugins"),  # a longer prompt
        *("enable_search", "search_parameters", "search_settings", "web_search_options"),
        *("media_io_kwargs", "mm_processor_kwargs", "vl_high_resolution_images"),
    )
)
# The fields that no provider adds to the prompt. ``messages`` are counted while they are checked.
_NOT_PROMPT = UNPAID_FIELDS | {
    *("echo", "frequency_penalty", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens", "messages", "metadata"),
    *("modalities", "model", "models", "n", "parallel_tool_calls", "presence_penalty", "prompt_cache_key", "reasoning_effort"),
    *("safety_identifier", "seed", "stop", "store", "stream", "stream_options", "temperature", "top_logprobs", "top_p"),
    *("usage", "user", "verbosity"),
}

# In a part with an image, or beside its address: Alibaba's and LMDeploy's ways to change how many tokens it is.
IMAGE_SIZE_FIELDS = frozenset(
    (
        *("max_pixels", "min_pixels", "total_pixels", "resized_height", "resized_width"),
        *("max_dynamic_patch", "min_dynamic_patch", "mm_processor_kwargs", "preprocess_kwargs"),
    )
)

_ESCAPED = bytes(range(32)) + b'"\\'
_ESCAPED_BY_NUMBER = bytes(set(range(32)) - set(b"\b\t\n\f\r"))  # as six bytes instead of two, such as \u0001


def count_fields(fields: Fields) -> int:
    """Return the most tokens that the fields of a checked body, other than ``messages``, can add to the prompt."""
    counted = others(fields, _NOT_PROMPT)
    return REQUEST_TOKENS + (count_json(counted) if counted else 0)


def others(fields: Fields, counted_elsewhere: Set[str]) -> Fields:
    """Return the fields that are not counted elsewhere. A null is absent."""
    if fields.keys() <= counted_elsewhere:
        return {}
    return {name: value for name, value in fields.items() if name not in counted_elsewhere and value is not None}


def wants_hour_cache(marked: Fields) -> bool:
    """Return whether a body, a tool, a message or a part has a mark by which a cache would keep the prompt for an hour."""
    mark = marked.get("cache_control")
    return isinstance(mark, dict) and mark.get("ttl") == "1h"


def has_preamble(fields: Fields) -> bool:
    """Return whether providers add instructions of their own to the prompt: for tools, and for a reply in JSON."""
    response_format = fields.get("response_format")
    return bool(fields.get("tools") or fields.get("functions") or (response_format and response_format["type"] != "text"))


def count_json(fields: Fields) -> int:
    """Return the most tokens of fields as JSON without the outermost braces, on one line or indented."""
    written = compact_json.dumps(fields)[1:-1]
    return len(written) + LINE_TOKENS * _occurrences(written, b",[]{}") + _occurrences(written, b":")


def count_text(text: str) -> int:
    """Return the bytes of UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def count_quoted(text: str) -> int:
    """Return the bytes of a text as JSON, without the quotes. Four times as fast as to write it: results of tools are long."""
    encoded = text.encode()
    return len(encoded) + _occurrences(encoded, _ESCAPED) + 4 * _occurrences(encoded, _ESCAPED_BY_NUMBER)


def _occurrences(encoded: bytes, characters: bytes) -> int:
    return len(encoded) - len(encoded.translate(None, characters))
