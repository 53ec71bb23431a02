"""Attempts to sign in, and limits small enough to use up."""

import pytest
from django.test import Client

from billing.sign_in import limits

SIGN_IN = "/accounts/login/"
ALICE = "alice@example.org"
BURST, BURST_OF_ADDRESS = 3, 6
HOUR = 3_600


@pytest.fixture(autouse=True)
def _slow_rates(monkeypatch):
    """However slow the machine is, no attempt becomes due while a test runs."""
    monkeypatch.setitem(limits.RATES, "user", limits.Rate(BURST, HOUR))
    monkeypatch.setitem(limits.RATES, "address", limits.Rate(BURST_OF_ADDRESS, HOUR))


def attempt(email=ALICE, password="wrong", *, client=None, address="192.0.2.1"):
    form = {"login": email, "password": password}
    return (client or Client()).post(SIGN_IN, form, headers={"accept": "text/html"}, REMOTE_ADDR=address)


def use_up(email=ALICE, **options):
    """Use up the limit of a user, each time from another address."""
    for number in range(BURST):
        assert attempt(email, address=f"198.51.100.{number}", **options).status_code == 200
