"""What {api_url} serves: the completion interface."""

from django.urls import include, path

from gateway_project import urls_health

v1 = [path("v1/", include("completions.urls"))]

urlpatterns = [*urls_health.urlpatterns, *v1]

handler400 = "gateway_project.pages.bad_request"
handler403 = "gateway_project.pages.permission_denied"
handler404 = "gateway_project.pages.not_found"
handler500 = "gateway_project.pages.server_error"
