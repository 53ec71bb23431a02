from django.apps import AppConfig


class GatewayConfig(AppConfig):
    """The frame: it has no models, only system checks."""

    name = "gateway_project"

    def ready(self) -> None:
        from gateway_project import checks  # noqa: F401  registers them
