"""Routes of an address that serves both the API and the pages."""

from gateway_project import urls_api, urls_base, urls_health
from gateway_project.urls_health import handler400, handler403, handler404, handler500  # noqa: F401  Django looks them up here

urlpatterns = [*urls_health.urlpatterns, *urls_api.v1, *urls_base.base]
