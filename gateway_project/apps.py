from django.apps import AppConfig
from django.core.cache import close_caches
from django.core.signals import request_finished, request_started
from django.db import reset_queries


class GatewayConfig(AppConfig):
    """The frame: it has no models, only system checks."""

    name = "gateway_project"

    def ready(self) -> None:
        from gateway_project import checks  # noqa: F401  registers them

        # For every request Django would clear its log of queries, which it keeps under DEBUG, and here that is never; and close
        # its caches: ours is in memory.
        request_started.disconnect(reset_queries)
        request_finished.disconnect(close_caches)
