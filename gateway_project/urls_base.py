"""Routes of the host GATEWAY_BASE_HOST: the APIs of billing and rankings, and the pages."""

from django.contrib import admin
from django.templatetags.static import static
from django.urls import include, path
from django.views.generic import RedirectView

from gateway_project import urls_health
from gateway_project.urls_health import handler400, handler403, handler404, handler500  # noqa: F401  Django looks them up here
from gateway_project.web import api_reference, crawlers, mailbox, openapi
from gateway_project.web.page_middleware import counts_as_page

base = [
    path("", include("completions.public.urls")),
    path("api/billing/", include("billing.urls")),
    path("api/", include("keys.key_api.urls")),
    path("api/", include("rankings.api.urls")),
    path("api/openapi.json", counts_as_page(openapi.document), name="openapi"),
    path("docs/reference", api_reference.show, name="reference"),
    path("", include("rankings.pages.urls")),
    path("dashboard/", include("billing.page_urls")),
    path("dashboard/", include("keys.page_urls")),
    path("dashboard/usage/", include("completions.usage.page_urls")),
    path("dashboard/", include("completions.history.page_urls")),
    path("dashboard/playground/", include("completions.playground.page_urls")),
    path("robots.txt", crawlers.robots),
    path("favicon.ico", RedirectView.as_view(url=static("dashboard/icon.png"))),
    path("mails/", mailbox.show, name="mailbox"),
    path("accounts/", include("billing.sign_in.urls")),
    path("admin/", admin.site.urls),
]

urlpatterns = [*urls_health.urlpatterns, *base]
