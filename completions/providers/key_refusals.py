"""Tells a refusal of our API key from a refusal of one request."""

import re

_TEXT_CHARACTERS_MAX = 2_000

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
# A field of the body, not words of its message: quotes within that are escaped.
_KEY_CODE = re.compile(r'"(?:reason|code)"\s*:\s*"API_KEY_')


def is_about_key(status: int, text: str) -> bool:
    """Return whether a provider's refusal with this status and body says that it does not accept our key or account.

    A 401 always does. A 403 does by its words: providers also send one for a model that is not ours to use, for content that
    they do not want, and a firewall in front of a provider may send one that gives no reason. Google's codes tell for certain.
    """
    if status == 401:
        return True
    about = text[:_TEXT_CHARACTERS_MAX]
    if status != 403:
        return False
    return bool(_KEY_CODE.search(about) or (_ABOUT_US.search(about) and not _ABOUT_THE_REQUEST.search(about)))
