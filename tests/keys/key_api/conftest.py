"""A management key of alice's account, and its client."""

import pytest

from keys import management_keys
from keys.key_api import authentication
from tests.conftest import client_for


@pytest.fixture(autouse=True)
def _nothing_is_counted():
    authentication.requests._full_at.clear()
    authentication._unknown.clear()


@pytest.fixture
def manager(alice):
    return management_keys.issue(alice, name="terraform", created_by=alice.members.get())


@pytest.fixture
def api(manager):
    return client_for(manager[1])
