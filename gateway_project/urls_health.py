"""What every address serves: probes and metrics."""

from django.urls import path

from gateway_project import health

urlpatterns = [
    path("healthz", health.alive),
    path("readyz", health.ready),
    path("metrics", health.metrics_text),
]

handler404 = "gateway_project.pages.not_found"
handler400 = "gateway_project.pages.bad_request"
