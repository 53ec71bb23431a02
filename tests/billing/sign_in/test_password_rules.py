"""Which new passwords are accepted, by the page on which an owner changes it."""

import pytest

from tests import factories
from tests.pages.conftest import owner, owner_of  # noqa: F401  a fixture


def change(client, password):
    fields = {"old_password": factories.PASSWORD, "new_password1": password, "new_password2": password}
    return client.post("/dashboard/password/", fields)


@pytest.mark.parametrize(
    "password",
    [
        "twelve chars",
        " spaces at the ends ",
        "ein Satz mit Umlauten: äöü",
        "密码不一定要用拉丁字母来写的",
        "🦀🐙🦑🐠🐟🐡🦈🐳🐬🐋🦭🪼",
        "807463529184",
        "lower case letters only",
        "x7 " * 42 + "zz",
    ],
)
def test_a_password_of_any_characters_is_accepted_and_works_whole(owner, alice, password):  # noqa: F811
    assert change(owner, password).status_code == 302
    user = owner_of(alice)
    assert user.check_password(password)
    assert not user.check_password(password[:-1])
    assert not user.check_password(password.strip()[:64] if len(password) > 64 else f"{password} ")


@pytest.mark.parametrize(
    ("password", "reason"),
    [
        ("eleven char", "at least 12 characters"),
        ("x" * 129, "at most 128 characters"),
        ("1qaz2wsx3edc", "too common"),
        ("QWERTY123456", "too common"),
        ("password1234", "too common"),
        ("alice@example.org", "too similar to the email address"),
        ("Model Gateway 1", "name of this service"),
        ("my-gateway-2026", "name of this service"),
        ("example.org.alice!!", "your email address or the name"),
    ],
)
def test_a_short_long_breached_or_obvious_password_is_refused_with_the_reason(owner, alice, password, reason):  # noqa: F811
    reply = change(owner, password)
    assert reply.status_code == 200
    assert reason in reply.content.decode()
    assert owner_of(alice).check_password(factories.PASSWORD)


def test_the_rules_stand_on_the_page(owner):  # noqa: F811
    text = owner.get("/dashboard/password/").content.decode()
    assert "12 to 128 characters of any kind." in text
    assert "Not close to your email address or the name of this service." in text


def test_the_page_says_the_rules_once_in_plain_words(owner):  # noqa: F811
    page = owner.get("/dashboard/password/").content.decode()
    for label in ("Current password", "New password", "New password again"):
        assert f">{label}</label>" in page
    assert page.count("12 to 128 characters") == 1
    assert "personal information" not in page
    assert "Your other browsers are signed out." in page
