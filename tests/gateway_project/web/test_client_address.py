"""Which address counts as the client's, behind any number of proxies."""

import pytest
from django.test import RequestFactory

from gateway_project.web.client_address import client_address, client_network

PEER = "203.0.113.9"


@pytest.mark.parametrize(
    ("proxies", "forwarded", "address"),
    [
        (0, "192.0.2.1", PEER),
        (1, "192.0.2.1", "192.0.2.1"),
        (1, "10.9.9.9, 192.0.2.1", "192.0.2.1"),  # the client wrote the first
        (2, "10.9.9.9, 192.0.2.1, 10.0.0.1", "192.0.2.1"),
        (2, "192.0.2.1", "192.0.2.1"),  # it passed one proxy only
        (1, "192.0.2.1:5000", "192.0.2.1"),
        (1, "[2001:db8::1]:5000", "2001:db8::1"),
        (1, "2001:db8::1", "2001:db8::1"),
        (1, "::ffff:192.0.2.1", "192.0.2.1"),
        (1, "unknown", PEER),
        (1, "192.0.2.1, ", PEER),
        (1, None, PEER),
    ],
)
def test_the_address_is_what_the_first_trusted_proxy_saw(settings, proxies, forwarded, address):
    settings.TRUSTED_PROXIES = proxies
    headers = {"X-Forwarded-For": forwarded} if forwarded else {}
    assert client_address(RequestFactory().get("/", headers=headers, REMOTE_ADDR=PEER)) == address


def test_a_client_on_a_unix_socket_has_no_address():
    assert client_address(RequestFactory().get("/", REMOTE_ADDR="")) == ""


@pytest.mark.parametrize(("address", "network"), [("192.0.2.1", "192.0.2.1"), ("2001:db8::1", "2001:db8::/64"), ("", "")])
def test_a_client_may_use_every_address_of_its_network(address, network):
    assert client_network(address) == network
