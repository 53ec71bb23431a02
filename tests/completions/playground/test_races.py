"""The playground and API requests at the same moment, on funds for some of them."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from billing.ledger import audit
from billing.models import Hold, LedgerEntry
from tests import chat, factories
from tests.completions.playground.forms import PATH, STREAM, form, playground_keys
from tests.conftest import client_for
from tests.pages.conftest import owner_of, signed_in

pytestmark = pytest.mark.django_db(transaction=True)

ASKED, AFFORDED = 20, 10


def test_of_api_and_playground_requests_at_once_exactly_the_afforded_ones_are_served():
    factories.make_model("demo/echo", input="0", output="100")  # a cent for 100 tokens
    account = factories.make_account("Alice", cents=AFFORDED, owner=factories.make_user("alice@example.org"))
    secret = factories.make_key(account)[1]
    members = [signed_in(owner_of(account)) for _ in range(ASKED // 2)]
    together = threading.Barrier(ASKED)

    def ask(number):
        together.wait()
        try:
            if number < len(members):
                return members[number].post(PATH, form(account, max_tokens="100"), **STREAM)
            return chat.ask(client_for(secret), max_tokens=100, stream=True)
        finally:
            connection.close()

    with ThreadPoolExecutor(ASKED) as threads:
        replies = list(threads.map(ask, range(ASKED)))
    statuses = Counter(reply.status_code for reply in replies)
    assert (statuses[200], statuses[402] + statuses[429]) == (AFFORDED, ASKED - AFFORDED)
    assert Hold.objects.filter(state="HELD").count() == AFFORDED
    for reply in replies:
        if reply.status_code == 200:
            assert chat.events(reply)[-1] == "[DONE]"
    assert playground_keys(account).count() == 1
    assert LedgerEntry.objects.filter(type="USAGE_DEBIT").count() == AFFORDED
    account.refresh_from_db()
    assert account.held_nanos == 0
    assert audit.verify() == []
