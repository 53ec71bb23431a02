"""Sessions that nobody uses end, and other hosts cannot set their cookies."""

import time
from datetime import timedelta

import pytest
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from billing import tasks
from tests import factories, sessions
from tests.pages.conftest import other_owner, owner, support, support_user  # noqa: F401  fixtures

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


def use_for(client, seconds):
    """Make the session that old, and in constant use."""
    sessions.update(client, signed_in_at=int(time.time()) - seconds)


@pytest.mark.parametrize(("hours", "status"), [(23, 200), (25, 302)])
def test_a_session_of_staff_ends_after_24_hours_however_much_it_is_used(support, hours, status):  # noqa: F811
    use_for(support, hours * HOUR)
    assert [support.get("/admin/").status_code for _ in range(2)] == [status, status]


@pytest.mark.parametrize(("days", "status"), [(13, 200), (15, 302)])
def test_a_session_of_an_owner_ends_after_14_days_however_much_it_is_used(owner, days, status):  # noqa: F811
    use_for(owner, days * DAY)
    assert [owner.get("/dashboard/").status_code for _ in range(2)] == [status, status]


def test_the_longest_time_of_a_session_is_a_setting(owner, settings):  # noqa: F811
    use_for(owner, 3 * HOUR)
    page = owner.get("/accounts/sessions/").content.decode()
    assert "after 7 days without use, and at the latest 14 days after you sign in" in page
    settings.SESSION_HOURS_MAX = 2
    assert owner.get("/dashboard/").status_code == 302


def test_signing_in_again_begins_the_time_of_a_session_anew(alice):
    client = browser("Laptop/1.0")
    use_for(client, 15 * DAY)
    assert client.get("/dashboard/").status_code == 302
    client.post("/accounts/login/", {"login": "alice@example.org", "password": factories.PASSWORD})
    assert client.get("/dashboard/").status_code == 200


def test_a_session_from_before_the_upgrade_begins_its_time_now(owner):  # noqa: F811
    session = owner.session
    del session["signed_in_at"]
    session.save()
    assert owner.get("/dashboard/").status_code == 200
    assert owner.session["signed_in_at"] > time.time() - 60


def test_a_page_seldom_writes_the_session(owner):  # noqa: F811
    idle(owner, 60)
    before = owner.session["used_at"]
    owner.get("/dashboard/")
    assert owner.session["used_at"] == before
    idle(owner, 600)
    owner.get("/dashboard/")
    assert owner.session["used_at"] > before


# --- The list of one's sessions -----------------------------------------------------------------------------------------

LIST = "/accounts/sessions/"


def browser(name):
    client = Client(headers={"user-agent": name})
    client.post("/accounts/login/", {"login": "alice@example.org", "password": factories.PASSWORD})
    return client


def test_a_user_sees_their_sessions_and_ends_the_others(alice, other_owner):  # noqa: F811
    laptop, telephone = browser("Laptop/1.0"), browser("Telephone/1.0")
    page = laptop.get(LIST).content.decode()
    assert page.index("Telephone/1.0") < page.index("Laptop/1.0") < page.index("This one")
    assert page.count("127.0.0.1") == 2
    laptop.post(LIST)
    assert telephone.get("/dashboard/").status_code == 302
    assert [client.get("/dashboard/").status_code for client in (laptop, other_owner)] == [200, 200]
    assert "You are signed in nowhere else." in laptop.get(LIST).content.decode()


def end(client, name):
    return client.post(f"{LIST}{UserSession.objects.get(user_agent=name).pk}/end/")


def test_a_user_ends_one_of_their_sessions(alice):
    laptop, telephone, tablet = map(browser, ("Laptop/1.0", "Telephone/1.0", "Tablet/1.0"))
    page = laptop.get(LIST).content.decode()
    assert page.count("/end/") == 2  # this one is signed out by the button of every page
    assert "Telephone/1.0 is signed out." in laptop.get(end(laptop, "Telephone/1.0")["Location"]).content.decode()
    assert [client.get("/dashboard/").status_code for client in (laptop, telephone, tablet)] == [200, 302, 200]
    assert "Telephone/1.0" not in laptop.get(LIST).content.decode()
    assert end(laptop, "Laptop/1.0")["Location"] == "/accounts/login/"
    assert laptop.get("/dashboard/").status_code == 302


def test_ending_a_session_locks_the_user_first_as_signing_in_does(alice):
    laptop, _ = browser("Laptop/1.0"), browser("Telephone/1.0")
    with CaptureQueriesContext(connection) as captured:
        end(laptop, "Telephone/1.0")
    statements = [query["sql"] for query in captured]
    locked = next(i for i, sql in enumerate(statements) if '"billing_user"' in sql and "FOR NO KEY UPDATE" in sql)
    deleted = next(i for i, sql in enumerate(statements) if sql.startswith("DELETE") and "session" in sql)
    assert locked < deleted


def test_nobody_ends_the_session_of_somebody_else(alice, other_owner):  # noqa: F811
    laptop = browser("Laptop/1.0")
    assert end(other_owner, "Laptop/1.0").status_code == 404
    assert end(Client(), "Laptop/1.0").status_code == 302
    assert laptop.get(f"{LIST}1/end/").status_code == 405
    assert laptop.get("/dashboard/").status_code == 200


CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0.0.0 Safari/537.36"


@pytest.mark.parametrize(
    ("user_agent", "words"),
    [
        (CHROME, "Chrome on Linux"),
        (f"{CHROME} Edg/150.0", "Edge on Linux"),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605 Version/19.0 Safari/604.1",
            "Safari on iPhone",
        ),
        ("Mozilla/5.0 (Windows NT 10.0; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Windows"),
        ("curl/8.5.0", "curl/8.5.0"),
        ("<b>" + "x" * 300, "&lt;b&gt;" + "x" * 57 + "<"),
    ],
)
def test_the_list_names_browsers_in_words(alice, user_agent, words):
    assert f">{words}" in browser(user_agent).get(LIST).content.decode()


def test_the_list_says_when_a_session_was_last_used(alice):
    client = browser("Laptop/1.0")
    UserSession.objects.update(last_seen_at=UserSession.objects.get().created_at - timedelta(days=1))
    sessions.update(client, used_at=int(time.time()) - 600)
    client.get("/dashboard/")
    session = UserSession.objects.get()
    assert session.last_seen_at >= session.created_at


def test_changing_the_password_keeps_this_session_in_the_list(alice):
    client, other = browser("Laptop/1.0"), browser("Telephone/1.0")
    new = "a wholly new sentence"
    client.post("/dashboard/password/", {"old_password": factories.PASSWORD, "new_password1": new, "new_password2": new})
    page = client.get(LIST).content.decode()
    assert "This one" in page
    assert "Telephone/1.0" not in page
    assert other.get("/dashboard/").status_code == 302


def test_sessions_that_ended_are_deleted_every_hour(alice):
    browser("Laptop/1.0")
    Session.objects.update(expire_date="2020-01-01T00:00:00Z")
    tasks.forget_sign_in_attempts()
    assert not Session.objects.exists()


# --- How many there are -------------------------------------------------------------------------------------------------


def age(name, days):
    """Let the session of that browser be so many days old."""
    at = timezone.now() - timedelta(days=days)
    UserSession.objects.filter(user_agent=name).update(created_at=at, last_seen_at=at)


def test_the_oldest_session_ends_when_a_user_has_as_many_as_may_be(alice, other_owner, settings):  # noqa: F811
    settings.USER_SESSIONS_MAX = 3
    laptop, telephone, tablet = map(browser, ("Laptop/1.0", "Telephone/1.0", "Tablet/1.0"))
    for name, days in (("Laptop/1.0", 3), ("Telephone/1.0", 4), ("Tablet/1.0", 1)):
        age(name, days)
    new = browser("New/1.0")
    statuses = [client.get("/dashboard/").status_code for client in (laptop, telephone, tablet, new, other_owner)]
    assert statuses == [200, 302, 200, 200, 200]
    assert set(UserSession.objects.values_list("user_agent", flat=True)) == {"Laptop/1.0", "Tablet/1.0", "New/1.0"}


def test_the_list_of_sessions_has_pages_and_looks_only_at_those_that_it_shows(alice):
    laptop = browser("Laptop/1.0")
    stored, session = Session.objects.get(), UserSession.objects.get()

    def add(count):
        for number in range(count):
            stored.session_key = session.session_key = f"session-{number}-of-{count}"
            session.pk, session.created_at = None, session.created_at - timedelta(hours=1)
            stored.save(force_insert=True)
            session.save(force_insert=True)

    def look(path=LIST):
        with CaptureQueriesContext(connection) as captured:
            page = laptop.get(path).content.decode()
        return len(captured), page.count('role="rowheader"')

    add(10)
    few = look()
    assert (few[1], look(f"{LIST}?page=2")[1]) == (10, 1)
    add(20)
    assert look() == few
