"""The list of one's sessions, with browsers in words."""

from typing import Any

from allauth.usersessions.views import ListUserSessionsView

_CHARACTERS_MAX = 60

# Parts of what browsers say of themselves. The first that occurs counts: nearly all claim to be others, too.
_BROWSERS = {"Edg": "Edge", "OPR/": "Opera", "Firefox/": "Firefox", "Chrome/": "Chrome", "Safari/": "Safari"}
_SYSTEMS = {
    "Android": "Android",
    "iPhone": "iPhone",
    "iPad": "iPad",
    "Windows": "Windows",
    "Mac OS X": "macOS",
    "CrOS": "ChromeOS",
    "Linux": "Linux",
}


class SessionList(ListUserSessionsView):
    """Allauth's view. The sessions that it lists have a ``browser`` each."""

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        for session in context["sessions"]:
            session.browser = describe_browser(session.user_agent)
        return context


def describe_browser(user_agent: str) -> str:
    """Return such as "Firefox on Linux"; the beginning of the text for a program that is neither."""
    browser = next((name for part, name in _BROWSERS.items() if part in user_agent), None)
    system = next((name for part, name in _SYSTEMS.items() if part in user_agent), None)
    if browser and system:
        return f"{browser} on {system}"
    return user_agent[:_CHARACTERS_MAX] or "an unknown program"
