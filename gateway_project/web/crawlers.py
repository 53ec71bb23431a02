"""What search engines may read: /robots.txt."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

_PRIVATE = ["/dashboard/", "/accounts/", "/admin/", "/api/", "/mails/", "/v1/"]
_TEXT = "User-agent: *\n" + "".join(f"Disallow: {path}\n" for path in _PRIVATE)


@require_safe
def robots(request: HttpRequest) -> HttpResponse:
    """Keep search engines off everything but the public pages."""
    return HttpResponse(_TEXT, content_type="text/plain; charset=utf-8", headers={"Cache-Control": "public, max-age=86400"})
