"""Clients that are signed in, without the page that signs in."""

import time
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import update_last_login
from django.contrib.sessions.backends.base import VALID_KEY_CHARS
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils.crypto import get_random_string

from billing.models import User


def sign_in(client: Client, user: User) -> None:
    """Sign in the user, who has given the password just now."""
    now = int(time.time())
    items = {"password_given_at": now, "signed_in_at": now, "used_at": now}
    if settings.SESSION_COOKIE_NAME in client.cookies:  # of a session, which ends
        client.force_login(user)
        update(client, **items)
    else:
        _begin_session(client, user, items)


def update(client: Client, **items: Any) -> None:
    """Change what is stored in the client's session."""
    session = client.session
    session.update(items)
    session.save()


def _begin_session(client: Client, user: User, items: dict[str, Any]) -> None:
    """Store what ``Client.force_login`` stores, and the items, in two statements instead of 19: thousands of tests sign in."""
    session = import_module(settings.SESSION_ENGINE).SessionStore(get_random_string(32, VALID_KEY_CHARS))
    [backend] = settings.AUTHENTICATION_BACKENDS
    of_login = {SESSION_KEY: str(user.pk), BACKEND_SESSION_KEY: backend, HASH_SESSION_KEY: user.get_session_auth_hash()}
    Session.objects.create(
        session_key=session.session_key,
        session_data=session.encode(of_login | items),
        expire_date=session.get_expiry_date(expiry=None),
    )
    update_last_login(None, user)
    client._set_login_cookies(SimpleNamespace(session=session))  # type: ignore[attr-defined]


def expire(client):
    update(client, password_given_at=int(time.time()) - 16 * 60)
