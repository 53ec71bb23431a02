from django.apps import AppConfig

from gateway_project import metrics


class MonitoringConfig(AppConfig):
    name = "gateway_project.monitoring"
    label = "monitoring"

    def ready(self) -> None:
        from gateway_project.monitoring import background, checks, collector  # noqa: F401  two of them register what they declare

        metrics.shared.register(collector.FactsCollector())
