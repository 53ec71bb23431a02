"""Sessions end when they are not used for a while (staff: 12 hours, others: 7 days), and old ones in any case."""

import time
from typing import Any

from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib import auth
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from billing import locks

STAFF_IDLE_SECONDS = 12 * 3_600
_SIGNED_IN_AT = "signed_in_at"  # session key
_USED_AT = "used_at"  # session key: when the session was last used, to within the precision
_PRECISION_SECONDS = 300  # so that a page is seldom a write


class PageIdleSessionMiddleware(AuthenticationMiddleware):
    """Django's ``request.user``, who is anonymous once the session was idle for too long, or is too old."""

    def process_request(self, request: HttpRequest) -> None:
        super().process_request(request)
        request.user = SimpleLazyObject(lambda: _user_of(request))  # type: ignore[assignment]


def note_sign_in(request: HttpRequest) -> None:
    """Begin the session's times now. The user's oldest sessions end beyond USER_SESSIONS_MAX."""
    request.session[_SIGNED_IN_AT] = int(time.time())
    note_use(request)
    user_id: Any = request.user.pk
    with transaction.atomic():
        locks.lock_users([user_id])
        others = UserSession.objects.filter(user=user_id).exclude(session_key=request.session.session_key)
        surplus = others.order_by("-last_seen_at", "-pk")[settings.USER_SESSIONS_MAX - 1 :]
        ended = dict(surplus.values_list("pk", "session_key"))
        if ended:
            Session.objects.filter(session_key__in=ended.values()).delete()
            UserSession.objects.filter(pk__in=ended).delete()


def find_open(user: Any) -> QuerySet[UserSession]:
    kept = Session.objects.filter(session_key=OuterRef("session_key"), expire_date__gt=timezone.now())
    found: QuerySet[UserSession] = UserSession.objects.filter(Exists(kept), user=user)
    return found.order_by("-created_at", "-pk")


def note_use(request: HttpRequest) -> None:
    """Begin the session's idle time now, and show it in the list of the user's sessions."""
    request.session[_USED_AT] = int(time.time())
    UserSession.objects.filter(session_key=request.session.session_key).update(last_seen_at=timezone.now())


def _user_of(request: HttpRequest) -> Any:
    user = auth.get_user(request)
    if not user.is_authenticated:
        return user
    if _SIGNED_IN_AT not in request.session or _USED_AT not in request.session:  # from before the gateway kept both
        note_sign_in(request)
    age_seconds, idle_seconds = (time.time() - request.session[moment] for moment in (_SIGNED_IN_AT, _USED_AT))
    if idle_seconds > idle_seconds_max(user) or age_seconds > seconds_max(user):
        request.session.flush()
        return AnonymousUser()
    if idle_seconds > _PRECISION_SECONDS:
        note_use(request)
    return user


def idle_seconds_max(user: Any) -> int:
    return STAFF_IDLE_SECONDS if user.is_staff else settings.SESSION_COOKIE_AGE


def seconds_max(user: Any) -> int:
    """However much it is used."""
    return 3_600 * (settings.STAFF_SESSION_HOURS_MAX if user.is_staff else settings.SESSION_HOURS_MAX)
