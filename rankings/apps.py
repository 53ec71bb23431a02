from collections.abc import Iterable
from typing import Any

from gateway_project import app_config


class RankingsConfig(app_config.GatewayApp):
    name = "rankings"

    def ready(self) -> None:
        from rankings import checks  # noqa: F401  registers itself

    def desk(self) -> app_config.Desk:
        from rankings.desk import panels

        return app_config.Desk(panels.PANELS)

    def facts(self) -> Iterable[Any]:
        from rankings import facts

        return facts.FACTS
