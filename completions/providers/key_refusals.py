"""Tells a refusal of our API key from a refusal of one request."""

import re

_TEXT_CHARACTERS_MAX = 2_000

_ABOUT_US = re.compile(
    r"api[ _-]?key|credential|authenticat|unauthori[sz]ed|account|organi[sz]ation|project|billing|suspend|deactivated"
    r"|permission|country|region|location",
    re.IGNORECASE,
)
_ABOUT_THE_REQUEST = re.compile(r"content|moderat|flagged|polic(?:y|ies)|safety|harm|model", re.IGNORECASE)


def is_about_key(status: int, text: str) -> bool:
    """Return whether a provider's refusal with this status and body says that it does not accept our key or account.

    A 401 always does. A 403 does by its words: providers also send one for a model that is not ours to use, for content that
    they do not want, and a firewall in front of a provider may send one that gives no reason.
    """
    if status == 401:
        return True
    about = text[:_TEXT_CHARACTERS_MAX]
    return status == 403 and bool(_ABOUT_US.search(about)) and not _ABOUT_THE_REQUEST.search(about)
