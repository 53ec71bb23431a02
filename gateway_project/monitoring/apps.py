from collections.abc import Iterable
from typing import Any

from gateway_project import app_config, metrics


class MonitoringConfig(app_config.GatewayApp):
    name = "gateway_project.monitoring"
    label = "monitoring"

    def ready(self) -> None:
        from gateway_project.monitoring import collector  # which loads the checks of ``processes``, too

        metrics.shared.register(collector.FactsCollector())

    def facts(self) -> Iterable[Any]:
        from gateway_project.monitoring import facts

        return facts.FACTS
