"""Which addresses the gateway may connect to: public ones, and for providers those of GATEWAY_PRIVATE_UPSTREAMS.

Staff and catalog files name the hosts of providers. Without this rule, they could make the gateway ask hosts of its own
network, such as the service that hands out a cloud machine's credentials. A name can be pointed anywhere at any time, so both
HTTP clients check the resolved address, once for each connection, and connect to this address.
"""

import re
from collections.abc import Collection, Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from django.conf import settings

REFUSAL = "a private address, which GATEWAY_PRIVATE_UPSTREAMS does not permit"

_AddressInfo = tuple[Any, Any, int, str, tuple[Any, ...]]  # what getaddrinfo returns
Networks = Collection[IPv4Network | IPv6Network]
_PUBLIC_V6 = ip_network("2000::/3")
_TRANSLATED = ip_network("64:ff9b::/96")  # NAT64: the last 32 bits are an IPv4 address
_COMPATIBLE = ip_network("::/96")  # the same, in the oldest notation
# Public by their number, but answered inside a cloud only: protocol assignments (Oracle's metadata) and Azure's host agent.
_HOSTING = [ip_network("192.0.0.0/24"), ip_network("168.63.129.16/32")]
_NUMERIC_LABEL = re.compile(r"[0-9]+|0x[0-9a-f]*")
_NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?\.?")


class NotPermitted(Exception):
    """A host has none but private addresses, and they are not permitted. The message is a predicate."""


def permitted(resolved: Iterable[_AddressInfo], private: Networks | None = None) -> list[_AddressInfo]:
    """Return those of GATEWAY_PRIVATE_UPSTREAMS or other ``private`` networks, and public ones. Raises NotPermitted."""
    found = [info for info in resolved if is_permitted(info[4][0], private)]
    if not found:
        raise NotPermitted(f"is at {REFUSAL}")
    return found


def is_permitted(text: str, private: Networks | None = None) -> bool:
    """Return whether the gateway may connect to this IP address."""
    address = _innermost(ip_address(text.partition("%")[0]))
    networks = settings.PRIVATE_UPSTREAMS if private is None else private
    is_elsewhere = address.is_global and (isinstance(address, IPv4Address) or address in _PUBLIC_V6)
    is_public = is_elsewhere and not (address.is_multicast or any(address in network for network in _HOSTING))
    return is_public or any(address in network for network in networks)


def _innermost(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address that an IPv6 address stands for, if any: a gateway would forward to that one."""
    if isinstance(address, IPv4Address):
        return address
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and (address in _TRANSLATED or (address in _COMPATIBLE and int(address) > 1)):
        inner = IPv4Address(int(address) & 0xFFFF_FFFF)
    return inner or address


def check_host(host: str, private: Networks | None = None) -> None:
    """Raise ValueError for a host that can be known to be unusable or private without a name server: the text is a predicate.

    Numbers are read in one way only, as four decimal ones. Resolvers also read 2130706433, 0x7f.1 and 0177.0.0.1 as 127.0.0.1.
    """
    if ":" in host:
        _check_number(host, private)
        return
    if not _NAME.fullmatch(host):
        raise ValueError("must have a host of ASCII letters, digits, dots and hyphens (an international name begins with xn--)")
    name = host.removesuffix(".")
    last_label = name.rpartition(".")[2]
    if _NUMERIC_LABEL.fullmatch(last_label):
        _check_number(host, private)
    elif last_label == "localhost" and not (is_permitted("127.0.0.1", private) or is_permitted("::1", private)):
        raise ValueError(f"leads to {REFUSAL}")


def _check_number(host: str, private: Networks | None) -> None:
    try:
        may_be_asked = is_permitted(str(ip_address(host)), private)
    except ValueError:
        raise ValueError("must have a host name, or an IP address in its usual form") from None
    if not may_be_asked:
        raise ValueError(f"leads to {REFUSAL}")
