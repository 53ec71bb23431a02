"""Private addresses are connected to only where GATEWAY_PRIVATE_UPSTREAMS lists them, by either HTTP client."""

import socket
from ipaddress import ip_network
from types import SimpleNamespace

import gevent
import pytest

from gateway_project.net import addresses, background_http, http
from tests.document_server import reply as document
from tests.document_server import serving
from tests.gateway_project.net.requests import post
from tests.upstream import upstream, whole

__all__ = ["upstream"]

LOOPBACK = [ip_network("127.0.0.0/8")]
PRIVATE = [
    *(
        "127.0.0.1",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "0.0.0.0",
        "100.64.0.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
    ),
    *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fec0::1", "ff02::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b:1::1", "2002:0a00:0001::"),
    # of clouds: where a machine asks for its credentials
    *("169.254.169.254", "169.254.170.2", "fd00:ec2::254", "100.100.100.200", "192.0.0.192", "168.63.129.16"),
    *("::ffff:169.254.169.254", "64:ff9b::169.254.169.254"),
]
PUBLIC = ["1.1.1.1", "8.8.8.8", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1"]


@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_address_is_permitted_by_its_network_only(settings, address):
    settings.PRIVATE_UPSTREAMS = []
    assert not addresses.is_permitted(address)
    settings.PRIVATE_UPSTREAMS = [ip_network("192.168.77.0/24"), ip_network("fd77::/16")]
    assert not addresses.is_permitted(address)
    settings.PRIVATE_UPSTREAMS = [ip_network("0.0.0.0/0"), ip_network("::/0")]
    assert addresses.is_permitted(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_permitted(settings, address):
    settings.PRIVATE_UPSTREAMS = []
    assert addresses.is_permitted(address)


def test_an_ipv6_notation_of_a_permitted_ipv4_address_is_permitted(settings):
    settings.PRIVATE_UPSTREAMS = LOOPBACK
    assert [addresses.is_permitted(each) for each in ("::ffff:127.0.0.1", "::1")] == [True, False]


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "::1",
        "::ffff:127.0.0.1",
        "fe80::1%eth0",
        "localhost",
        "localhost.",
        "a.localhost",
    ],
)
def test_a_private_host_is_refused_without_asking_a_name_server(settings, host):
    settings.PRIVATE_UPSTREAMS = []
    with pytest.raises(ValueError, match="leads to a private address, which GATEWAY_PRIVATE_UPSTREAMS does not permit"):
        addresses.check_host(host)


@pytest.mark.parametrize(
    "host",
    ["2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.1", "127.0.0.1.", "1.2.3.4.5", "256.1.1.1", "1:2", "a.0x1"],
)
def test_a_number_in_an_unusual_form_is_refused(host):
    with pytest.raises(ValueError, match="an IP address in its usual form"):
        addresses.check_host(host)


@pytest.mark.parametrize("host", ["１２７.0.0.1", "127。0.0.1", "ｌocalhost", "bücher.example", "a\\b", "-a", "a b"])
def test_a_host_that_is_not_ascii_is_refused(host):
    with pytest.raises(ValueError, match="must have a host of ASCII letters"):
        addresses.check_host(host)


@pytest.mark.parametrize(
    "host", ["api.example.com", "api.example.com.", "xn--bcher-kva.example", "gpu_shed", "ollama", "1.1.1.1"]
)
def test_a_host_that_may_be_public_is_accepted(settings, host):
    settings.PRIVATE_UPSTREAMS = []
    addresses.check_host(host)


# --- Connecting ---------------------------------------------------------------------------------------------------

NAMES_OF_THIS_MACHINE = ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "0"]


@pytest.fixture
def background():
    client = background_http.Client()
    yield client
    client.close()


@pytest.fixture
def server():
    with serving() as server:
        server.will(document("{}"))
        yield server


@pytest.mark.parametrize("host", NAMES_OF_THIS_MACHINE)
def test_an_upstream_at_a_private_address_is_not_connected_to(settings, upstream, host):
    settings.PRIVATE_UPSTREAMS = []
    with pytest.raises(http.ConnectFailed, match="is at a private address, which GATEWAY_PRIVATE_UPSTREAMS does not permit"):
        post(upstream.url.replace("127.0.0.1", host))
    assert upstream.requests == []


@pytest.mark.parametrize("host", NAMES_OF_THIS_MACHINE)
def test_a_background_request_to_a_private_address_is_not_sent(settings, server, background, host):
    settings.PRIVATE_UPSTREAMS = []
    with pytest.raises(background_http.FetchFailed, match="is at a private address") as failed:
        background.get(server.origin.replace("127.0.0.1", host))
    assert not failed.value.is_retryable
    assert server.received == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"])
def test_a_listed_network_is_connected_to(settings, upstream, server, background, host):
    settings.PRIVATE_UPSTREAMS = LOOPBACK
    upstream.will(whole())
    assert b"Hello you" in post(upstream.url.replace("127.0.0.1", host)).read_all()
    assert background.get(server.origin.replace("127.0.0.1", host)).body == b"{}"


@pytest.fixture
def name_server(monkeypatch):
    """Answers for rebinding.example: with the address of this machine, and from the second time on with another one."""
    asked: list[str] = []
    resolve = socket.getaddrinfo

    def answer(host, *args, **options):
        if host != "rebinding.example":
            return resolve(host, *args, **options)
        asked.append(host)
        return resolve("127.0.0.1" if len(asked) == 1 else "10.255.255.1", *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    monkeypatch.setattr(gevent.socket, "getaddrinfo", answer)
    return SimpleNamespace(asked=asked)


def test_what_was_checked_is_what_is_connected_to(settings, upstream, name_server):
    """A name is resolved once for each connection, not once for the check and again for the connection."""
    settings.PRIVATE_UPSTREAMS = LOOPBACK
    upstream.will(whole(), whole())
    for _ in range(2):
        assert b"Hello you" in post(upstream.url.replace("127.0.0.1", "rebinding.example")).read_all()
    assert [received.connection for received in upstream.requests] == [1, 1]
    assert name_server.asked == ["rebinding.example"]
    with pytest.raises(http.ConnectFailed, match="private address"):
        post("http://rebinding.example:9/")


def test_what_was_checked_is_what_a_background_request_connects_to(settings, server, background, name_server):
    settings.PRIVATE_UPSTREAMS = LOOPBACK
    url = server.origin.replace("127.0.0.1", "rebinding.example")
    assert background.get(url).body == b"{}"
    assert server.received[0].headers["host"] == url.removeprefix("http://")
    assert name_server.asked == ["rebinding.example"]
    with pytest.raises(background_http.FetchFailed, match="private address"):
        background.get("http://rebinding.example:9/")
