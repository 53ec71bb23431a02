from django.apps import AppConfig


class GatewayConfig(AppConfig):
    """Registers the system checks. This package has no models."""

    name = "gateway_project"

    def ready(self) -> None:
        from gateway_project import checks  # noqa: F401  registers them
