"""Routes of the host GATEWAY_BASE_HOST: the APIs of billing and rankings, and the pages."""

from django.templatetags.static import static
from django.urls import URLResolver, path
from django.urls.resolvers import RoutePattern
from django.views.generic import RedirectView

from gateway_project.urls import health
from gateway_project.urls.health import handler400, handler403, handler404, handler500  # noqa: F401  Django looks them up here
from gateway_project.web import mailbox, public_page
from gateway_project.web.openapi import changes, reference, specification
from gateway_project.web.page_middleware import counts_as_page


def lead_to(route: str, urls: str, namespace: str | None = None) -> URLResolver:
    """Route to an app's URLs. They are loaded with the first path that begins so, or with the first link to a page."""
    return URLResolver(RoutePattern(route), urls, app_name=namespace, namespace=namespace)


base = [
    lead_to("api/billing/", "billing.urls"),
    lead_to("api/", "keys.key_api.urls"),
    lead_to("api/", "rankings.api.urls"),
    lead_to(".well-known/", "billing.proof.urls"),
    path("api/openapi.json", counts_as_page(specification.document), name="openapi"),
    path("docs/reference", reference.show, name="reference"),
    path("docs/reference/<slug:operation_id>", reference.show, name="operation"),
    path("docs/changes", changes.show, name="api-changes"),
    path("docs/changes.atom", changes.feed, name="api-changes-feed"),
    lead_to("dashboard/", "billing.page_urls"),
    lead_to("dashboard/", "keys.page_urls"),
    lead_to("dashboard/", "completions.page_urls"),
    path("robots.txt", public_page.robots),
    path("favicon.ico", RedirectView.as_view(url=static("dashboard/icon.png"))),
    path("mails/", mailbox.show, name="mailbox"),
    lead_to("accounts/", "billing.sign_in.urls"),
    lead_to("admin/", "billing.desk.urls", namespace="admin"),
    lead_to("", "completions.public.urls"),
    lead_to("", "rankings.pages.urls"),
]

urlpatterns = [*health.urlpatterns, *base]
