"""Numbers are read in ASCII digits only, wherever people and programs outside write them."""

from decimal import Decimal

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError

from billing import money
from billing.management import arguments
from completions.providers.gemini import json_schema
from gateway_project import environment
from gateway_project.text import ascii_numbers, number_fields
from rankings.sources import openrouter

ARABIC, FULL_WIDTH = "\N{ARABIC-INDIC DIGIT THREE}", "\N{FULLWIDTH DIGIT THREE}"
NO_NUMBERS = ["1_0", ARABIC, FULL_WIDTH, f"1{ARABIC}", "\N{SUPERSCRIPT TWO}", "0x1", "1e", "", "one", "NaN", "Infinity"]


def from_environment(text: str, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setenv("GATEWAY_EXAMPLE", text)
    return environment.integer("GATEWAY_EXAMPLE", 1, minimum=0, maximum=100)


def pair_from_environment(text: str, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setenv("GATEWAY_EXAMPLE", f"speed={text}")
    return environment.numbers("GATEWAY_EXAMPLE", {"speed": 0.5})["speed"]


READERS = {
    "a whole number": (lambda text, _: ascii_numbers.whole(text), ValueError),
    "a decimal": (lambda text, _: ascii_numbers.decimal(text), ValueError),
    "a price": (lambda text, _: money.price_nanos(text) // 10**9, ValueError),
    "the environment": (from_environment, ImproperlyConfigured),
    "a pair of the environment": (pair_from_environment, ImproperlyConfigured),
    "an argument": (lambda text, _: arguments.whole_number("--days", text, minimum=0, maximum=100), CommandError),
    "a form": (lambda text, _: number_fields.IntegerField().clean(text), Exception),
    "a form of fractions": (lambda text, _: number_fields.FloatField().clean(text), Exception),
    "a form of decimals": (lambda text, _: number_fields.DecimalField().clean(text), Exception),
    "a form of days": (lambda text, _: number_fields.DateField().clean(f"2026-11-{text}").day, Exception),
    "a form of times": (lambda text, _: number_fields.DateTimeField().clean(f"2026-11-{text}T00:00").day, Exception),
    "the admin's day": (lambda text, _: number_fields.SplitDateTimeField().clean([f"2026-11-{text}", "00:00"]).day, Exception),
    "the admin's time": (
        lambda text, _: number_fields.SplitDateTimeField().clean(["2026-11-21", f"{text}:00"]).hour,
        Exception,
    ),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("text", NO_NUMBERS)
def test_what_is_no_number_in_ascii_digits_is_refused(reader, text, monkeypatch):
    read, refusal = READERS[reader]
    with pytest.raises(refusal):
        read(text, monkeypatch)


@pytest.mark.parametrize("reader", READERS)
def test_a_number_in_ascii_digits_is_read(reader, monkeypatch):
    assert READERS[reader][0]("12", monkeypatch) == 12


@pytest.mark.parametrize(
    ("text", "number"),
    [("0.0375", "0.0375"), ("1.5e-7", "0.00000015"), (".5", "0.5"), ("5.", "5"), ("-1", "-1"), ("2E1", "20")],
)
def test_a_decimal_has_a_point_and_an_exponent(text, number):
    assert ascii_numbers.decimal(text) == Decimal(number)


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_a_source_and_a_path_of_a_schema_have_no_such_number(text):
    assert openrouter._price(text) is None
    assert json_schema._step(["a", "b", "c", "d"], text) is None
