"""The clouds: how each serves the APIs of the makers of models, as data with its sources. Pure.

A platform is known by its host. A catalog file names it (``platform``) where a proxy or another host stands in front of it.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from gateway_project.text import web_addresses

SERVER_TOOLS = "server tools"  # tools of Anthropic's own that run at the provider
MODEL_LIST = "a list of its models"
LACKS = (SERVER_TOOLS, MODEL_LIST)


class Platform(NamedTuple):
    """``paths``, of a whole reply and of a stream, and ``instead_of_model``, the fields of a body whose path has the model's
    name: by the names of endpoints. ``lacks``: what it does not have of the maker's API.
    """

    hosts: tuple[str, ...] = ()  # or the domains that they are in
    paths: Mapping[str, tuple[str, str]] = {}
    instead_of_model: Mapping[str, Mapping[str, str]] = {}
    lacks: frozenset[str] = frozenset()
    source: str = ""


NONE = Platform()
_METHOD = "/models/{model}:"
PLATFORMS = {
    "azure": Platform(
        hosts=("openai.azure.com", "services.ai.azure.com", "cognitiveservices.azure.com"),
        lacks=frozenset({SERVER_TOOLS}),
        source="https://learn.microsoft.com/azure/ai-foundry/foundry-models/how-to/use-foundry-models-claude",
    ),
    "bedrock": Platform(
        hosts=("amazonaws.com", "api.aws"),
        lacks=frozenset({SERVER_TOOLS}),
        source="https://docs.aws.amazon.com/bedrock/latest/userguide/bedrock-mantle.html",
    ),
    "vertex": Platform(
        hosts=("aiplatform.googleapis.com", "aiplatform.us.rep.googleapis.com", "aiplatform.eu.rep.googleapis.com"),
        paths={
            "messages": (f"{_METHOD}rawPredict", f"{_METHOD}streamRawPredict"),
            "generate": (f"{_METHOD}generateContent", f"{_METHOD}streamGenerateContent?alt=sse"),
        },
        instead_of_model={"messages": {"anthropic_version": "vertex-2023-10-16"}},
        lacks=frozenset({MODEL_LIST}),  # publishers/google/models omits some, and has others that cannot be called
        source="https://platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai",
    ),
}


def find(base_url: str, stated: str = "") -> Platform:
    """Return the stated platform, or else that of the host."""
    return PLATFORMS[stated] if stated else _of_host(web_addresses.host(base_url))


def _of_host(host: str) -> Platform:
    for platform in PLATFORMS.values():
        if any(host == name or host.endswith((f".{name}", f"-{name}")) for name in platform.hosts):
            return platform
    return NONE


# https://docs.aws.amazon.com/general/latest/gr/bedrock.html. The service is the name that signatures have.
_SIGNING_HOSTS = (
    (re.compile(r"bedrock-runtime(?:-fips)?\.([a-z0-9-]+)\.amazonaws\.com"), "bedrock"),
    (re.compile(r"bedrock-mantle\.([a-z0-9-]+)\.api\.aws"), "bedrock-mantle"),
)


def signing(base_url: str) -> dict[str, str]:
    """Return the region and the service for signatures of AWS, as far as the host says them."""
    for pattern, service in _SIGNING_HOSTS:
        if found := pattern.fullmatch(web_addresses.host(base_url)):
            return {"region": found[1], "service": service}
    return {}
