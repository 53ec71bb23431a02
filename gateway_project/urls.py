"""The table of contents: what one address serves when it serves both."""

from gateway_project import urls_api, urls_base, urls_health

urlpatterns = [*urls_health.urlpatterns, *urls_api.v1, *urls_base.base]

handler400 = "gateway_project.pages.bad_request"
handler403 = "gateway_project.pages.permission_denied"
handler404 = "gateway_project.pages.not_found"
handler500 = "gateway_project.pages.server_error"
