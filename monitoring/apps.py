from django.apps import AppConfig

from gateway_project import metrics


class MonitoringConfig(AppConfig):
    name = "monitoring"

    def ready(self) -> None:
        from monitoring import background, checks, collector  # noqa: F401  two of them register what they declare

        metrics.shared.register(collector.FactsCollector())
