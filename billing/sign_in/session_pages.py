"""The list of one's sessions, with browsers in words, where each can be ended."""

from typing import Any

from allauth.usersessions.models import UserSession
from allauth.usersessions.views import ListUserSessionsView
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST

from billing.accounts.member_pages import page_of
from billing.models import User
from billing.sign_in import devices, links, sessions

SESSIONS_PER_PAGE = 10


class SessionList(ListUserSessionsView):
    """Allauth's view, one page at a time, and with browsers. Allauth would make some queries for each session of the user."""

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super(ListUserSessionsView, self).get_context_data(**kwargs)
        user = self.request.user
        context["page"] = page = page_of(self.request, sessions.find_open(user), SESSIONS_PER_PAGE)
        context["sessions"] = [each for each in page if not each.purge()]  # those that another password has ended
        for session in context["sessions"]:
            session.browser = devices.describe_browser(session.user_agent)
        context["idle_time"] = _in_words(sessions.idle_seconds_max(user))
        context["whole_time"] = _in_words(sessions.seconds_max(user))
        return context

    def form_valid(self, form: Any) -> HttpResponse:
        """End all other sessions, and the links that whoever had them has sent."""
        assert isinstance(self.request.user, User)
        with transaction.atomic():
            links.void(self.request.user)
            response: HttpResponse = super().form_valid(form)
        return response


@require_POST
def end(request: HttpRequest, session_id: int) -> HttpResponse:
    """End one of the user's sessions; with another than the current one, also the links sent by it. It needs no password."""
    session = get_object_or_404(UserSession, pk=session_id, user=request.user)
    is_current = session.is_current()
    with transaction.atomic():
        if not is_current:
            links.void(session.user)  # locks the user, before the session, as a sign-in does
        session.end()
    if is_current:
        request.session.flush()
        return redirect("account_login")
    messages.success(request, f"{devices.describe_browser(session.user_agent)} is signed out.")
    return redirect("usersessions_list")


def _in_words(seconds: int) -> str:
    hours = seconds // 3_600
    number, unit = (hours, "hour") if hours % 24 or hours == 24 else (hours // 24, "day")
    return f"{number} {unit}{'s' if number != 1 else ''}"
