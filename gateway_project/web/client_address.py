"""The IP address of a client, for limits and logs: the peer's, or what trusted proxies say in ``X-Forwarded-For``."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

from django.conf import settings
from django.http import HttpRequest

_HOST_BITS = 64  # a client of IPv6 has at least a /64, and may use any address in it


def client_address(request: HttpRequest) -> str:
    """Return the address. "" if it is not known: the server listens on a Unix socket, and no proxy says.

    Each trusted proxy appends the address of its peer. Whatever stands left of these was written by the client.
    """
    peer = str(request.META.get("REMOTE_ADDR") or "")
    proxies: int = settings.TRUSTED_PROXIES
    forwarded = request.headers.get("X-Forwarded-For", "") if proxies else ""
    claims = [part for part in map(_parse, forwarded.split(",")[-proxies:]) if part]
    found = claims[0] if claims else _parse(peer)
    return str(found) if found else ""


def client_network(address: str) -> str:
    """Return what one client can use of addresses: the address itself, or the /64 of an IPv6 address."""
    parsed = _parse(address)
    return str(IPv6Network((int(parsed), _HOST_BITS), strict=False)) if isinstance(parsed, IPv6Address) else address


def network_of(request: HttpRequest) -> str:
    return client_network(client_address(request))


def read_network(text: str) -> str:
    """Return the network of one client that a person names by an address or as ``client_network`` writes it; '' if none."""
    parsed = _parse(text.removesuffix(f"/{_HOST_BITS}"))
    return client_network(str(parsed)) if parsed else ""


def _parse(text: str) -> IPv4Address | IPv6Address | None:
    """Parse an address, which some proxies send with a port: ``192.0.2.1:5000``, ``[2001:db8::1]:5000``."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
