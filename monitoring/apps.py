from django.apps import AppConfig

from gateway_project import metrics


class MonitoringConfig(AppConfig):
    name = "monitoring"

    def ready(self) -> None:
        from monitoring import background, collector  # noqa: F401  the first connects to Celery's signals

        metrics.shared.register(collector.FactsCollector())
