"""The sources that are asked, a file each, and how this deployment reaches them. INTERNAL is none: it is computed here."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.utils.crypto import salted_hmac

from rankings.models import Source
from rankings.sources import client as fetching
from rankings.sources.arena import Arena
from rankings.sources.artificial_analysis import ArtificialAnalysis
from rankings.sources.base import Adapter
from rankings.sources.huggingface import HuggingFace
from rankings.sources.openrouter import OpenRouter

EXTERNAL: list[Source] = [source for source in Source if source is not Source.INTERNAL]
READER = "1"  # raise it when an adapter reads more than before: what is unchanged there is then read again all the same


@dataclass(frozen=True)
class Access:
    """Where a source is, and what opens it. ``obstacle`` says why it is not asked at all; empty where it is."""

    base_url: str
    headers: dict[str, str] = field(default_factory=dict)
    obstacle: str = ""

    @property
    def mark(self) -> str:
        """Changes when this does, and tells nothing of it: what was refused once may be answered under another key."""
        return salted_hmac("rankings.sources", f"{READER} {self.base_url} {sorted(self.headers.items())}").hexdigest()


def access(source: Source) -> Access:
    """How this deployment reaches a source, by its settings."""
    match source:
        case Source.INTERNAL:
            return Access("")
        case Source.LMSYS_ARENA:
            found = Access(settings.RANKINGS_HF_DATASETS_SERVER_URL, _bearer(settings.RANKINGS_HF_TOKEN))
        case Source.HUGGINGFACE:
            found = Access(settings.RANKINGS_HF_HUB_URL, _bearer(settings.RANKINGS_HF_TOKEN))
        case Source.ARTIFICIAL_ANALYSIS:
            key = settings.RANKINGS_AA_API_KEY
            found = Access(settings.RANKINGS_AA_BASE_URL, {"x-api-key": key}, "" if key else "GATEWAY_AA_API_KEY is not set")
        case Source.OPENROUTER:
            key = settings.RANKINGS_OPENROUTER_API_KEY
            found = Access(
                settings.RANKINGS_OPENROUTER_BASE_URL, _bearer(key), "" if key else "GATEWAY_OPENROUTER_API_KEY is not set"
            )
    return found if settings.RANKINGS_FETCH else Access(found.base_url, found.headers, "GATEWAY_RANKINGS_FETCH is off")


def may_be_shown(source: Source) -> bool:
    """Whether what was read may be published: of a source whose terms want a key, nothing is while there is none."""
    match source:
        case Source.ARTIFICIAL_ANALYSIS:
            return bool(settings.RANKINGS_AA_API_KEY)
        case Source.OPENROUTER:
            return bool(settings.RANKINGS_OPENROUTER_API_KEY)
    return True


def open_source(
    source: Source, stack: ExitStack, *, pause: Callable[[float], object], say: Callable[[str], object]
) -> tuple[Adapter, fetching.Client]:
    """Who reads an external source, and what it asks through; ``stack`` closes it."""

    def client(at: Access) -> fetching.Client:
        opened = fetching.Client(at.base_url, at.headers, pause=pause, say=say)
        stack.callback(opened.close)
        return opened

    hub = access(Source.HUGGINGFACE)
    adapters: dict[Source, Callable[[], Any]] = {
        Source.LMSYS_ARENA: lambda: Arena(client(hub)),
        Source.HUGGINGFACE: lambda: HuggingFace(has_token=bool(hub.headers)),
        Source.ARTIFICIAL_ANALYSIS: ArtificialAnalysis,
        Source.OPENROUTER: OpenRouter,
    }
    return adapters[source](), client(access(source))


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}
