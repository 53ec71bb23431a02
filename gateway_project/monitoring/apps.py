from django.apps import AppConfig

from gateway_project import metrics


class MonitoringConfig(AppConfig):
    name = "gateway_project.monitoring"
    label = "monitoring"

    def ready(self) -> None:
        from gateway_project.monitoring import checks, collector  # noqa: F401  the first registers what it declares

        metrics.shared.register(collector.FactsCollector())
