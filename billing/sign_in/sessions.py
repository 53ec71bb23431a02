"""Sessions end when nobody has used them for a while: those of staff after 12 hours, of others after 7 days."""

import time
from typing import Any

from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib import auth
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from gateway_project.web.page_middleware import PageAuthenticationMiddleware

STAFF_IDLE_SECONDS = 12 * 3_600
_USED_AT = "used_at"  # session key: when the session was last used, to within the precision
_PRECISION_SECONDS = 300  # so that a page is seldom a write


class PageIdleSessionMiddleware(PageAuthenticationMiddleware):
    """Django's ``request.user``, which is nobody once the session was idle for too long."""

    def process_request(self, request: HttpRequest) -> None:
        super().process_request(request)
        request.user = SimpleLazyObject(lambda: _user_of(request))  # type: ignore[assignment]


def note_use(request: HttpRequest) -> None:
    """Begin the session's idle time now, and show it in the list of the user's sessions."""
    request.session[_USED_AT] = int(time.time())
    UserSession.objects.filter(session_key=request.session.session_key).update(last_seen_at=timezone.now())


def _user_of(request: HttpRequest) -> Any:
    user = auth.get_user(request)
    if not user.is_authenticated:
        return user
    idle_seconds = time.time() - request.session.get(_USED_AT, 0) if _USED_AT in request.session else None
    if idle_seconds is not None and idle_seconds > _idle_seconds_max(user):
        request.session.flush()
        return AnonymousUser()
    if idle_seconds is None or idle_seconds > _PRECISION_SECONDS:
        note_use(request)
    return user


def _idle_seconds_max(user: Any) -> int:
    return STAFF_IDLE_SECONDS if user.is_staff else settings.SESSION_COOKIE_AGE
