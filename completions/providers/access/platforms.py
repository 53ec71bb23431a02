"""The clouds: how each serves the APIs of the makers of models, as data with its sources. Pure.

A platform is known by its host. A catalog file names it (``platform``) where a proxy or another host stands in front of it.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from gateway_project.text import web_addresses

# Needs of requests: one is not sent to a platform that lacks what it needs.
WEB_SEARCH, FORMATS, EMBEDDINGS = "a search of the web", "a schema of the reply", "embeddings"
STRICT, METADATA = "strict", "metadata"  # of a request, from which they are left out
MODEL_LIST = "a list of its models"


class Platform(NamedTuple):
    """``paths``, of a whole reply and of a stream, ``instead_of_model``, the fields of a body whose path has the model's name,
    and ``lacks``, what it does not have of the maker's API: by the names of endpoints.

    ``betas``: those of Anthropic's that it takes, and their names there; None for all. ``tier_headers`` ask for a service tier:
    by the names of endpoints that do so in no other way.
    """

    host: str = ""  # the pattern of its hosts; at AWS and Google, others are servers of an operator's own
    paths: Mapping[str, tuple[str, str]] = {}
    instead_of_model: Mapping[str, Mapping[str, str]] = {}
    lacks: Mapping[str, frozenset[str]] = {}
    betas: Mapping[str, str] | None = None
    tier_headers: Mapping[str, str] = {}
    source: str = ""


NONE = Platform()
_METHOD = "/models/{model}:"
_FOUNDRY = "https://platform.claude.com/docs/en/build-with-claude/claude-in-microsoft-foundry"
# Refusals: github.com/anthropics/claude-code/issues/12429, github.com/BerriAI/litellm/issues/17755. Those
# that are taken, one by a new name: github.com/BerriAI/litellm/blob/main/litellm/anthropic_beta_headers_config.json.
_TOOL_SEARCH = {"advanced-tool-use-2025-11-20": "tool-search-tool-2025-10-19"}
_BEDROCK_BETAS = _TOOL_SEARCH | {
    beta: beta
    for beta in (
        *("claude-code-20250219", "context-management-2025-06-27", "effort-2025-11-24", "output-128k-2025-02-19"),
        *("fine-grained-tool-streaming-2025-05-14", "interleaved-thinking-2025-05-14", "structured-outputs-2025-11-13"),
        "token-efficient-tools-2025-02-19",
    )
}
_VERTEX_BETAS = _TOOL_SEARCH | {
    beta: beta for beta in ("context-management-2025-06-27", "interleaved-thinking-2025-05-14", "web-search-2025-03-05")
}
PLATFORMS = {
    # 400 by design, of the deployments that are hosted on Azure.
    "azure": Platform(
        host=r".+\.(openai|services\.ai|cognitiveservices)\.azure\.com",
        lacks={"messages": frozenset({WEB_SEARCH, FORMATS, STRICT})},
        source=_FOUNDRY,
    ),
    # Those that Anthropic hosts: no host tells which they are.
    "azure-anthropic": Platform(source=_FOUNDRY),
    # Server tools and the list of models: only on mantle. 400 for strict (github.com/can1357/oh-my-pi) and for user ids such as
    # Claude Code's, which are JSON (github.com/agentgateway/agentgateway/issues/1739).
    "bedrock": Platform(
        host=r"(.+\.)?bedrock-runtime(-fips)?\..+\.(amazonaws\.com|api\.aws)",
        lacks={
            "messages": frozenset({WEB_SEARCH, STRICT, METADATA}),
            "responses": frozenset({WEB_SEARCH}),
            "models": frozenset({MODEL_LIST}),
        },
        betas=_BEDROCK_BETAS,
        source="https://docs.aws.amazon.com/bedrock/latest/userguide/endpoints.html",
    ),
    # It searches for models of OpenAI's alone. output_config.format: 400.
    "bedrock-mantle": Platform(
        host=r"(.+\.)?bedrock-mantle\..+\.(amazonaws\.com|api\.aws)",
        lacks={"messages": frozenset({WEB_SEARCH, FORMATS})},
        betas=_BEDROCK_BETAS,
        source="https://docs.aws.amazon.com/bedrock/latest/userguide/endpoints.html",
    ),
    "vertex": Platform(
        host=r"(.+[.-])?aiplatform(\.(us|eu)\.rep)?\.googleapis\.com",
        paths={
            "messages": (f"{_METHOD}rawPredict", f"{_METHOD}streamRawPredict"),
            "generate": (f"{_METHOD}generateContent", f"{_METHOD}streamGenerateContent?alt=sse"),
        },
        instead_of_model={"messages": {"anthropic_version": "vertex-2023-10-16"}},
        # Its list, publishers/google/models, omits some, and has others that cannot be called. Batches of embeddings: :predict.
        lacks={"models": frozenset({MODEL_LIST}), "embed": frozenset({EMBEDDINGS})},
        betas=_VERTEX_BETAS,
        # docs.cloud.google.com/gemini-enterprise-agent-platform/models/deploy/priority-paygo: at global addresses.
        tier_headers={"generate": "X-Vertex-AI-LLM-Shared-Request-Type"},
        source="https://platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai",
    ),
}


# Where an access key of the host's own identity may go, by the type of ``auth``. A signature of AWS is good for one host alone.
DOMAINS = {"google": ("googleapis.com",), "azure": ("azure.com", "azure.us", "azure-api.net")}


def find(base_url: str, stated: str = "") -> Platform:
    if stated:
        return PLATFORMS.get(stated, NONE)  # a newer release may know it
    host = web_addresses.host(base_url)
    return next((each for each in PLATFORMS.values() if each.host and re.fullmatch(each.host, host)), NONE)


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
