"""The one reader of web addresses. Anybody may send one, and Python's reader raises for some, such as ``http://[``."""

from functools import lru_cache
from urllib.parse import SplitResult, urljoin, urlsplit

NO_ADDRESS = SplitResult("", "", "", "", "")  # neither a scheme nor a host nor a path


@lru_cache(maxsize=256)
def parse(address: str) -> SplitResult:
    """Return the parts of an address, or NO_ADDRESS. Each part can then be read, and none raises."""
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return NO_ADDRESS
    return parts


@lru_cache(maxsize=256)
def host(address: str) -> str:
    """Return the name of the host in lower case, or "" if there is none."""
    return parse(address).hostname or ""


@lru_cache(maxsize=256)
def domains(address: str) -> tuple[str, ...]:
    """Return the name of the host in lower case, and of each domain that it is in, the nearest first."""
    labels = host(address).split(".")
    return tuple(".".join(labels[place:]) for place in range(len(labels)))


def join(here: str, there: str) -> str:
    """Return where a link from here leads, or "" if that is no address."""
    try:
        return urljoin(here, there)
    except ValueError:
        return ""
