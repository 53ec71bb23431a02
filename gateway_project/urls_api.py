"""What {api_url} serves: the completion interface."""

from django.urls import include, path

from gateway_project import urls_health
from gateway_project.urls_health import handler400, handler403, handler404, handler500  # noqa: F401  Django asks for them

v1 = [path("v1/", include("completions.urls"))]

urlpatterns = [*urls_health.urlpatterns, *v1]
