"""Support sees why a key's requests were refused: on the key's page, and summed up on the account's."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from keys.models import RefusalCount
from keys.refusal_history import collector
from tests import chat, factories
from tests.conftest import client_for
from tests.keys.refusal_history.conftest import _nothing_collected
from tests.pages.conftest import make_staff, signed_in
from tests.pages.dashboard_pages import text
from tests.pages.desk_pages import account_page, key_page

__all__ = ["_nothing_collected"]


@pytest.fixture
def refused(bob, echo_model):
    """A key of an account without credit, which sent three requests, one of them for a model that does not exist."""
    key, secret = factories.make_key(bob, "laptop")
    for model in ("demo/echo", "demo/echo", "demo/nobody"):
        assert chat.ask(client_for(secret), model=model).status_code in (402, 404)
    collector.write()
    return key


def test_a_keys_page_shows_its_last_refusals_and_how_many_there_were(support, refused):
    reply = support.get(key_page(refused))
    assert reply.content.decode().count('<rect class="space"') == 24  # a bar for each hour
    page = text(reply)
    assert "3 refusals in the last 24 hours, 3 in the worst hour" in page
    row = refused.refused_requests.order_by("at").first()
    assert "The account had too few credits. The account has too few credits: this request may cost up to" in page
    assert f"402 insufficient_quota demo/echo {row.request_id}" in page
    assert "The model does not exist, or is not offered." in page
    assert "404 model_not_found demo/nobody" in page


def test_a_keys_page_says_that_nothing_was_refused(support, key):
    assert "No refused requests in the last 24 hours." in text(support.get(key_page(key)))


def test_a_message_that_quotes_the_request_is_not_shown(support, key, echo_model):
    other, secret = factories.make_key(key.account)
    chat.send(client_for(secret), b'{"my plan": 1, "my plan": 2}')
    collector.write()
    page = text(support.get(key_page(other)))
    assert "We do not store this message because it quotes the request." in page
    assert "my plan" not in page


def test_an_accounts_page_sums_up_why_its_keys_were_refused(support, bob, refused, alice):
    reply = support.get(account_page(bob))
    page = text(reply)
    assert "2 The account had too few credits 402 insufficient_quota laptop (2)" in page
    assert f'<a href="{key_page(refused)}#key-refusals">laptop</a> (2)' in reply.content.decode()
    assert "No refused requests." in text(support.get(account_page(alice)))


def test_without_permission_to_see_keys_nothing_is_shown(bob, refused):
    reader = signed_in(make_staff("reader@example.org", ["billing.view_account"]))
    assert "insufficient_quota" not in text(reader.get(account_page(bob)))
    assert reader.get(key_page(refused)).status_code == 403


def test_the_pages_take_as_many_queries_however_much_was_refused(support, bob, refused):
    def queries():
        with CaptureQueriesContext(connection) as captured:
            assert support.get(key_page(refused)).status_code == support.get(account_page(bob)).status_code == 200
        return len(captured)

    before = queries()
    now = timezone.now()
    for number in range(20):
        hour = (now - timedelta(hours=number)).replace(minute=0, second=0, microsecond=0)
        RefusalCount.objects.create(key=refused, hour=hour, status=429, code=f"c{number}", error="TiedUp", number=number + 1)
    assert queries() == before
