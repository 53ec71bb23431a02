"""The usage of a reply, as its provider reports it or the gateway estimates it. Pure."""

import msgspec


class Usage(msgspec.Struct, frozen=True):
    """Tokens by price. ``prompt_tokens`` includes ``cached_tokens`` (read from a cache) and ``cache_write_tokens``.

    These include ``cache_write_1h_tokens``, which the cache keeps for an hour. ``tier`` is the service tier that served, if
    it has rates of its own. ``web_searches`` are those that the provider made, ``others`` the numbers of meters that have no
    column.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_1h_tokens: int = 0
    tier: str = ""
    web_searches: int = 0
    others: dict[str, int] = {}
