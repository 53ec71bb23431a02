from django.apps import AppConfig
from django.core.cache import close_caches
from django.core.signals import request_finished, request_started
from django.db import reset_queries


class GatewayConfig(AppConfig):
    """Registers the system checks. This package has no models."""

    name = "gateway_project"

    def ready(self) -> None:
        from gateway_project import checks  # noqa: F401  registers them

        # Django does both for every request. Its log of queries is kept only under DEBUG, which is never on here, and the
        # cache is in memory, so there is nothing to close.
        request_started.disconnect(reset_queries)
        request_finished.disconnect(close_caches)
