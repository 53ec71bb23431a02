"""Sessions that nobody uses end, and other hosts cannot set their cookies."""

import time

import pytest
from django.conf import settings

from tests import sessions
from tests.pages.conftest import owner, support, support_user  # noqa: F401  fixtures

HOUR, DAY = 3_600, 86_400


def idle(client, seconds):
    sessions.update(client, used_at=int(time.time()) - seconds)


@pytest.mark.parametrize(("hours", "status"), [(11, 200), (13, 302)])
def test_a_session_of_staff_ends_after_12_idle_hours(support, hours, status):  # noqa: F811
    idle(support, hours * HOUR)
    assert support.get("/admin/").status_code == status
    assert support.get("/admin/").status_code == status  # using it has begun its time anew, or ended it for good


@pytest.mark.parametrize(("days", "status"), [(6, 200), (8, 302)])
def test_a_session_of_an_owner_ends_after_7_idle_days(owner, days, status):  # noqa: F811
    idle(owner, days * DAY)
    assert owner.get("/dashboard/").status_code == status
    assert settings.SESSION_COOKIE_AGE == 7 * DAY


def test_a_page_seldom_writes_the_session(owner):  # noqa: F811
    idle(owner, 60)
    before = owner.session["used_at"]
    owner.get("/dashboard/")
    assert owner.session["used_at"] == before
    idle(owner, 600)
    owner.get("/dashboard/")
    assert owner.session["used_at"] > before
