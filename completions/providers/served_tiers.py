"""Which service tier served a reply, by the words of its provider: where they stand, and what they mean. Pure data.

The words decide what is charged, whatever was asked for. A word that is not here is of no tier that the gateway knows.
"""

from dataclasses import dataclass

from completions.pricing.rates import STANDARD

FLEX, PRIORITY, UNITED_STATES = "flex", "priority", "us"
PRECEDENCE = (PRIORITY, FLEX, UNITED_STATES)  # where several serve a reply: no price has their product
UNTOLD = None  # the word says nothing of what served
UNKNOWN = "unknown"  # no price has rates for it
Words = dict[str, str | None]  # in lower case -> the tier


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Where a word stands: a member of the usage, of the reply or of an event. ``where`` and ``source`` are documentation."""

    name: str
    words: Words
    where: str
    source: str


# Capacity that is paid for beforehand (scale, reserved, performance, provisioned) costs nothing more by the token.
_TIERS: Words = {
    **dict.fromkeys(("default", "standard", "on_demand", "scale", "reserved", "performance"), STANDARD),
    **{"flex": FLEX, "priority": PRIORITY, "fast": PRIORITY, "auto": UNTOLD},
}
_TRAFFIC: Words = {
    **{"on_demand": STANDARD, "provisioned_throughput": STANDARD, "traffic_type_unspecified": UNTOLD},
    **{"on_demand_flex": FLEX, "on_demand_priority": PRIORITY},
}
PLACES = (
    Place(
        "service_tier",
        _TIERS,
        "`service_tier` of a chat completion, of a response, and of events of their streams",
        "https://platform.openai.com/docs/api-reference/chat/object, https://openrouter.ai/docs/guides/features/service-tiers,"
        " https://console.groq.com/docs/service-tiers, https://docs.fireworks.ai/serverless/serving-paths,"
        " https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ServiceTier.html",
    ),
    Place(
        "speed",
        {"standard": STANDARD, "fast": PRIORITY},
        "`usage.speed` of Messages",
        "https://platform.claude.com/docs/en/build-with-claude/fast-mode",
    ),
    Place(
        "inference_geo",
        {"global": STANDARD, "not_available": UNTOLD, "us": UNITED_STATES},
        "`usage.inference_geo` of Messages",
        "https://platform.claude.com/docs/en/manage-claude/data-residency",
    ),
    Place(
        "trafficType",
        _TRAFFIC,
        "`usageMetadata.trafficType` of Gemini at Vertex AI",
        "https://googleapis.github.io/js-genai/release_docs/enums/types.TrafficType.html",
    ),
    Place(
        "serviceTier",
        {"unspecified": UNTOLD, "standard": STANDARD, "flex": FLEX, "priority": PRIORITY},
        "`usageMetadata.serviceTier` of Gemini",
        "https://ai.google.dev/gemini-api/docs/priority-inference, https://github.com/vercel/ai/pull/15488",
    ),
    Place(
        "extra_properties.google",  # an object, whose only member is ``traffic_type``
        _TRAFFIC,
        "`usage.extra_properties.google.traffic_type` of the other formats at Vertex AI",
        "https://docs.cloud.google.com/gemini-enterprise-agent-platform/models/deploy/priority-paygo",
    ),
)
# Anthropic's Priority Tier is paid for beforehand, and it is not what the others call priority.
OF_MESSAGES = Place(
    "service_tier",
    {"standard": STANDARD, "priority": STANDARD, "batch": STANDARD},
    "`usage.service_tier` of Messages",
    "https://platform.claude.com/docs/en/api/service-tiers",
)
WORDS = {place.name: place.words for place in PLACES}
WORDS_OF_MESSAGES = WORDS | {OF_MESSAGES.name: OF_MESSAGES.words}


def read(said: dict[str, str], known: dict[str, Words], rated: tuple[str, ...]) -> tuple[str, str]:
    """Return the tier to charge, by PRECEDENCE, else the standard one; and a tier or a word without rates, or ""."""
    served = [(word, known[name].get(word.lower(), UNKNOWN) or STANDARD) for name, word in said.items()]
    unrated = next((word if tier == UNKNOWN else tier for word, tier in served if tier != STANDARD and tier not in rated), "")
    tiers = {tier for _, tier in served}
    return next((tier for tier in PRECEDENCE if tier in tiers and tier in rated), STANDARD), unrated
