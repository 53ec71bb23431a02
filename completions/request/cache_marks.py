"""Marks of what Anthropic is to cache. Pure."""

from completions.request.fields import Fields, check_members, read_choice, read_object, refuse

TTLS = ("5m", "1h")


def cache_control(fields: Fields, path: str) -> Fields:
    """Return the ``cache_control`` of a block, a tool or the body, checked, to merge into what it becomes."""
    mark = read_object(fields, "cache_control", path)
    if not mark:
        return {}
    at = f"{path}.cache_control" if path else "cache_control"
    check_members(mark, {"type", "ttl"}, at)
    if mark.get("type") != "ephemeral":
        refuse(f"{at}.type", "must be ephemeral")
    ttl = read_choice(mark, "ttl", TTLS, at)
    return {"cache_control": {"type": "ephemeral", **({"ttl": ttl} if ttl == "1h" else {})}}
