"""Routes of the address GATEWAY_METRICS_BIND: probes and metrics."""

from django.urls import path

from gateway_project.urls.health import handler400, handler403, handler404, handler500, probes  # noqa: F401  Django looks them up here
from gateway_project.web import health, hosts

urlpatterns = [*probes, path(hosts.METRICS, health.metrics_text, {"is_own_address": True})]
