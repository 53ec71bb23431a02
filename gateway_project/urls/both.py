"""Routes of an address that serves both the API and the pages."""

from gateway_project.urls import api, base, health
from gateway_project.urls.health import handler400, handler403, handler404, handler500  # noqa: F401  Django looks them up here

urlpatterns = [*health.urlpatterns, *api.v1, *base.base]
