"""Marks of what Anthropic is to cache. Pure."""

from completions.request.fields import Fields, check_members, read_object, refuse


def cache_control(fields: Fields, path: str) -> Fields:
    """Return the ``cache_control`` of a block, a tool or the body, checked, to merge into what it becomes."""
    mark = read_object(fields, "cache_control", path)
    if not mark:
        return {}
    at = f"{path}.cache_control" if path else "cache_control"
    check_members(mark, {"type", "ttl"}, at)
    if mark.get("type") != "ephemeral":
        refuse(f"{at}.type", "must be ephemeral")
    if mark.get("ttl") not in (None, "5m"):
        refuse(f"{at}.ttl", "must be 5m: no price of the catalog covers a longer time")
    return {"cache_control": {"type": "ephemeral"}}
