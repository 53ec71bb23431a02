"""What {base_url} serves: billing, rankings and the pages."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from gateway_project import openapi, urls_health

base = [
    path("", RedirectView.as_view(pattern_name="dashboard")),
    path("api/billing/", include("billing.urls")),
    path("api/openapi.json", openapi.document),
    path("dashboard/", include("keys.urls")),
    path("admin/", admin.site.urls),
]

urlpatterns = [*urls_health.urlpatterns, *base]

handler400 = "gateway_project.pages.bad_request"
handler403 = "gateway_project.pages.permission_denied"
handler404 = "gateway_project.pages.not_found"
handler500 = "gateway_project.pages.server_error"
