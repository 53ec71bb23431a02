"""Settings that consist of several named numbers, addresses, and networks."""

from decimal import Decimal
from ipaddress import ip_network

import pytest
from django.core.exceptions import ImproperlyConfigured

from gateway_project import environment

DEFAULTS = {"speed": 0.15, "cost": 0.15}


def read(monkeypatch, value):
    monkeypatch.setenv("GATEWAY_EXAMPLE", value)
    return environment.numbers("GATEWAY_EXAMPLE", DEFAULTS)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("", DEFAULTS),
        ("speed=0.3", {"speed": 0.3, "cost": 0.15}),
        (" cost = 1 , speed=0 ", {"speed": 0.0, "cost": 1.0}),
    ],
)
def test_named_numbers_replace_their_defaults(monkeypatch, value, found):
    assert read(monkeypatch, value) == found


def test_an_unset_variable_keeps_all_defaults(monkeypatch):
    monkeypatch.delenv("GATEWAY_EXAMPLE", raising=False)
    assert environment.numbers("GATEWAY_EXAMPLE", DEFAULTS) == DEFAULTS


@pytest.mark.parametrize("value", ["0.3", "sped=0.3", "speed=", "speed=fast", "speed=-1", "speed=nan", "speed=inf", "speed:1"])
def test_an_unreadable_value_raises_with_the_reason(monkeypatch, value):
    with pytest.raises(ImproperlyConfigured, match="GATEWAY_EXAMPLE must have"):
        read(monkeypatch, value)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("", None),
        ("9464", ("127.0.0.1", 9464)),
        (":9464", ("127.0.0.1", 9464)),
        ("0.0.0.0:9464", ("0.0.0.0", 9464)),
        (" [::1]:9464 ", ("::1", 9464)),
    ],
)
def test_an_address_is_a_port_or_a_host_and_a_port(monkeypatch, value, found):
    monkeypatch.setenv("GATEWAY_EXAMPLE", value)
    assert environment.address("GATEWAY_EXAMPLE") == found


@pytest.mark.parametrize("value", ["localhost", "127.0.0.1:", "0", "65536", "127.0.0.1:port", "unix:/run/metrics.sock"])
def test_an_unreadable_address_raises_with_the_reason(monkeypatch, value):
    monkeypatch.setenv("GATEWAY_EXAMPLE", value)
    with pytest.raises(ImproperlyConfigured, match="GATEWAY_EXAMPLE must be a port"):
        environment.address("GATEWAY_EXAMPLE")


@pytest.mark.parametrize(
    ("value", "found"),
    [("", []), ("10.0.0.0/8, ::1", ["10.0.0.0/8", "::1/128"]), ("127.0.0.1", ["127.0.0.1/32"]), ("*", ["0.0.0.0/0", "::/0"])],
)
def test_networks_are_read_from_a_list(monkeypatch, value, found):
    monkeypatch.setenv("GATEWAY_EXAMPLE", value)
    assert environment.networks("GATEWAY_EXAMPLE") == [ip_network(each) for each in found]


@pytest.mark.parametrize("value", ["yes", "10.0.0.1/8", "10.0.0.0/33", "*, 10.0.0.0/8", "localhost"])
def test_an_unreadable_network_raises_with_the_reason(monkeypatch, value):
    monkeypatch.setenv("GATEWAY_EXAMPLE", value)
    with pytest.raises(ImproperlyConfigured, match="GATEWAY_EXAMPLE must have networks"):
        environment.networks("GATEWAY_EXAMPLE")


@pytest.mark.parametrize(("value", "percent"), [(None, "0"), ("5", "5"), ("5.5", "5.5"), ("0.25", "0.25"), ("1000", "1000")])
def test_a_percentage_is_exact(monkeypatch, value, percent):
    monkeypatch.delenv("GATEWAY_EXAMPLE", raising=False) if value is None else monkeypatch.setenv("GATEWAY_EXAMPLE", value)
    assert environment.percent("GATEWAY_EXAMPLE", maximum=1_000) == Decimal(percent)


@pytest.mark.parametrize("value", ["", " ", "-1", "5 %", "5,5", "1000.01", "0.125", "1e2", "NaN", "٥", "five"])
def test_what_is_no_percentage_raises_with_the_reason(monkeypatch, value):
    monkeypatch.setenv("GATEWAY_EXAMPLE", value)
    with pytest.raises(ImproperlyConfigured, match="GATEWAY_EXAMPLE must be between 0 and 1000"):
        environment.percent("GATEWAY_EXAMPLE", maximum=1_000)


@pytest.mark.parametrize(
    "value", ["example.org/terms", "javascript:alert(1)", "https://", "https://example.org/a b", "ftp://x.org"]
)
def test_what_is_no_address_of_a_page_raises_with_the_reason(monkeypatch, value):
    monkeypatch.setenv("GATEWAY_EXAMPLE", value)
    with pytest.raises(ImproperlyConfigured, match="GATEWAY_EXAMPLE must be an address"):
        environment.web_address("GATEWAY_EXAMPLE")
