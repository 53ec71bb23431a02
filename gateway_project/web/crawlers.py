"""What search engines may read: /robots.txt, which names the sitemap."""

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from gateway_project.web import hosts

_PRIVATE = ["/dashboard/", "/accounts/", "/admin/", "/api/", "/mails/", "/v1/"]
_TEXT = "User-agent: *\n" + "".join(f"Disallow: {path}\n" for path in _PRIVATE)


@require_safe
def robots(request: HttpRequest) -> HttpResponse:
    text = f"{_TEXT}Sitemap: {hosts.base_url(request)}{reverse('sitemap')}\n"
    return HttpResponse(text, content_type="text/plain; charset=utf-8", headers={"Cache-Control": "public, max-age=86400"})
