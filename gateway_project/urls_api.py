"""Routes of the host GATEWAY_API_HOST: the completion API."""

from django.urls import include, path

from gateway_project import urls_health
from gateway_project.urls_health import handler400, handler403, handler404, handler500  # noqa: F401  Django looks them up here

v1 = [path("v1/", include("completions.urls"))]

urlpatterns = [*urls_health.urlpatterns, *v1]
