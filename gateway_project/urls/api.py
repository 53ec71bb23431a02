"""Routes of the host GATEWAY_API_HOST: the completion API."""

from django.urls import include, path

from gateway_project.urls import health
from gateway_project.urls.health import handler400, handler403, handler404, handler500  # noqa: F401  Django looks them up here

v1 = [path("v1/", include("completions.urls"))]

urlpatterns = [*health.urlpatterns, *v1]
