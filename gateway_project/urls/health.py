"""Routes of every host: probes and metrics, and the handlers of errors outside views."""

from django.urls import path

from gateway_project.web import error_replies, health, hosts

probes = [path(hosts.ALIVE, health.alive), path(hosts.READY, health.ready)]

urlpatterns = [*probes, path(hosts.METRICS, health.metrics_text)]

handler400 = error_replies.bad_request
handler403 = error_replies.permission_denied
handler404 = error_replies.not_found
handler500 = error_replies.server_error
