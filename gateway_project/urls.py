"""The table of contents: what one address serves when it serves both."""

from gateway_project import urls_api, urls_base, urls_health
from gateway_project.urls_health import handler400, handler403, handler404, handler500  # noqa: F401  Django asks for them

urlpatterns = [*urls_health.urlpatterns, *urls_api.v1, *urls_base.base]
