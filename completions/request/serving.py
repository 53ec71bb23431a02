"""How a request is to be served: its tier, its marks for caches, and what OpenAI does beside writing the reply. Pure.

No provider is sent ``prediction`` and ``web_search_options``, because no price covers them: the reply names them. They are
checked all the same, so that a mistake in them is told here as it is at OpenAI.
"""

from completions.request.fields import (
    Fields,
    check_kind,
    check_members,
    read_choice,
    read_object,
    read_required,
    read_string,
    refuse,
)

# The value in a request -> the tier whose prices hold; "" for the usual ones. OpenAI's words are those of openai-python,
# types/responses/service_tier.py, where fast is another name of priority, and scale is capacity that an organization has bought
# there: here it is the usual service. "standard" is OpenRouter's word for that (github.com/pydantic/pydantic-ai/issues/4895),
# "on_demand" is Groq's.
SERVICE_TIERS = {
    **dict.fromkeys(("auto", "default", "scale", "standard", "on_demand"), ""),
    **{"flex": "flex", "priority": "priority", "fast": "priority"},
}
TIERS = tuple(SERVICE_TIERS)
USUAL_TIERS = ("auto", "default")  # who asks for these gets what it asks for
NAMES_OF_STANDARD = ("default", "standard", "on_demand")  # the others leave it to the provider
FIELDS = frozenset(
    {"cache_control", "moderation", "prediction", "prompt_cache_options", "service_tier", "web_search_options"}
)  # that ``read_tier`` checks
SEARCH_SIZES = ("low", "medium", "high")
CACHE_MODES = ("implicit", "explicit")
CACHE_TTLS = ("30m",)
MARK_TTLS = ("5m", "1h")  # of Anthropic's marks
MODERATION_MODES = ("score", "block")
MODERATION_MODEL_CHARACTERS_MAX = 200


def read_tier(fields: Fields) -> str:
    """Check how a request is to be served. Return its service tier, if that has prices of its own. Raises InvalidRequest."""
    mark = read_object(fields, "cache_control")  # of another lifetime than an hour: the prompt is kept for five minutes
    read_choice(mark, "type", ("ephemeral",), "cache_control")
    read_string(mark, "ttl", "cache_control")
    if (prediction := fields.get("prediction")) is not None:
        check_kind(prediction, "prediction", ("content",))
        if not isinstance(read_required(prediction, "content", "prediction"), str | list):
            refuse("prediction.content", "must be a string or an array of parts")
    search = read_object(fields, "web_search_options")
    read_choice(search, "search_context_size", SEARCH_SIZES, "web_search_options")
    read_object(search, "user_location", "web_search_options")
    options = read_object(fields, "prompt_cache_options")
    check_members(options, {"mode", "ttl"}, "prompt_cache_options")
    read_choice(options, "mode", CACHE_MODES, "prompt_cache_options")
    read_choice(options, "ttl", CACHE_TTLS, "prompt_cache_options")
    _check_moderation(read_object(fields, "moderation"))
    return SERVICE_TIERS[read_choice(fields, "service_tier", TIERS) or "auto"]


def _check_moderation(moderation: Fields) -> None:
    check_members(moderation, {"model", "policy"}, "moderation")
    if len(read_string(moderation, "model", "moderation")) > MODERATION_MODEL_CHARACTERS_MAX:
        refuse("moderation.model", f"must have at most {MODERATION_MODEL_CHARACTERS_MAX} characters")
    policy = read_object(moderation, "policy", "moderation")
    check_members(policy, {"input", "output"}, "moderation.policy")
    for name in policy:
        path = f"moderation.policy.{name}"
        read_choice(read_object(policy, name, "moderation.policy"), "mode", MODERATION_MODES, path)


def cache_control(fields: Fields, path: str) -> Fields:
    """Return what Anthropic is to cache: the mark of a block, a tool or the body, checked, to merge into what it becomes."""
    mark = read_object(fields, "cache_control", path)
    if not mark:
        return {}
    at = f"{path}.cache_control" if path else "cache_control"
    check_members(mark, {"type", "ttl"}, at)
    if mark.get("type") != "ephemeral":
        refuse(f"{at}.type", "must be ephemeral")
    ttl = read_choice(mark, "ttl", MARK_TTLS, at)
    return {"cache_control": {"type": "ephemeral", **({"ttl": ttl} if ttl == "1h" else {})}}
