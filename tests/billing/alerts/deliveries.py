"""What deliveries of webhooks are tested with."""

import pytest
from django.test import RequestFactory


@pytest.fixture
def request_of_owner(alice):
    request = RequestFactory().get("/")
    request.user = alice.members.get()
    return request
