"""Clients that are signed in, without the page that signs in."""

import time
from typing import Any

from django.test import Client

from billing.models import User


def sign_in(client: Client, user: User) -> None:
    """Sign in the user, who has given the password just now."""
    client.force_login(user)
    now = int(time.time())
    update(client, password_given_at=now, signed_in_at=now, used_at=now)


def update(client: Client, **items: Any) -> None:
    """Change what is stored in the client's session."""
    session = client.session
    session.update(items)
    session.save()
