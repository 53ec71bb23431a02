"""What every address serves: probes and metrics; and what each answers when it has no view for a request."""

from django.urls import path

from gateway_project import addresses, handlers, health

urlpatterns = [
    path(addresses.ALIVE, health.alive),
    path(addresses.READY, health.ready),
    path(addresses.METRICS, health.metrics_text),
]

handler400 = handlers.bad_request
handler403 = handlers.permission_denied
handler404 = handlers.not_found
handler500 = handlers.server_error
