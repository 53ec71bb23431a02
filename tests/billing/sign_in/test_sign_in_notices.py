"""A mail about a sign-in with a browser that was not seen before. It cannot be switched off."""

from datetime import timedelta

import pytest
from django.core import mail
from django.db.models import F
from django.test import Client

from billing.models import User
from tests import factories

SIGN_IN = "/accounts/login/"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


@pytest.fixture(autouse=True)
def _known_for_long(alice):
    User.objects.update(date_joined=F("date_joined") - timedelta(days=2))


def sign_in(client, password=factories.PASSWORD):
    form = {"login": "alice@example.org", "password": password}
    return client.post(SIGN_IN, form, HTTP_USER_AGENT=FIREFOX, REMOTE_ADDR="192.0.2.7")


def test_a_new_browser_is_told_with_where_and_what_and_a_button_to_the_sessions():
    client = Client()
    assert sign_in(client).status_code == 302
    [message] = mail.outbox
    assert (message.to, message.subject) == (["alice@example.org"], "New sign-in to the Model Gateway")
    assert "Firefox on Linux, from 192.0.2.7, on " in message.body
    assert "http://testserver/accounts/sessions/" in message.body
    assert ">Review your sessions</a>" in getattr(message, "alternatives")[0][0]  # noqa: B009  Django's stubs


def test_a_known_browser_is_not_told_again():
    client = Client()
    sign_in(client)
    client.post("/dashboard/sign-out/")
    sign_in(client)
    assert len(mail.outbox) == 1
    sign_in(Client())
    assert len(mail.outbox) == 2


def test_a_failed_attempt_is_not_told():
    sign_in(Client(), "wrong")
    assert mail.outbox == []


def test_whoever_has_just_signed_up_is_not_told():
    User.objects.update(date_joined=F("date_joined") + timedelta(days=2))
    sign_in(Client())
    assert mail.outbox == []
