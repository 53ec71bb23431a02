"""Tells a refusal of our API key from a refusal of one request."""

import re

TEXT_BYTES_MAX = 2_000  # of a body: a message and a code are at its start

_ABOUT_US = re.compile(
    r"api[ _-]?key|credential|authenticat|unauthori[sz]ed|account|organi[sz]ation|project|billing|suspend|deactivated"
    r"|permission|country|region|location",
    re.IGNORECASE,
)
# Whole words, also within "content_policy": a message may name a method, such as GenerateContent.
_ABOUT_THE_REQUEST = re.compile(
    r"(?<![a-z])(?:contents?|moderat[a-z]*|flagged|polic(?:y|ies)|safety|harm[a-z]*|models?)(?![a-z])",
    re.IGNORECASE,
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
    about = text[:TEXT_BYTES_MAX]
    if status not in (401, 403):
        return False
    if _KEY_CODE.search(about):
        return True
    if _ABOUT_ONE_MODEL.search(about):
        return False
    return status == 401 or bool(_ABOUT_US.search(about) and not _ABOUT_THE_REQUEST.search(about))
