"""Settings that consist of several named numbers."""

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
