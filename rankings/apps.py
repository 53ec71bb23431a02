from collections.abc import Collection, Iterable, Mapping
from typing import Any

from gateway_project import app_config


class RankingsConfig(app_config.GatewayApp):
    name = "rankings"

    def ready(self) -> None:
        from rankings.scoring import parameters  # noqa: F401  registers their system check

    def desk(self) -> app_config.Desk:
        from rankings import panels

        return app_config.Desk(panels.PANELS)

    def scores(self, model_ids: Collection[str]) -> Mapping[str, Any]:
        from rankings.pages import summary

        return summary.summarize(model_ids)

    def facts(self) -> Iterable[Any]:
        from gateway_project.monitoring.facts import Fact

        held = "SELECT source, 1 FROM rankings_snapshot WHERE held_because <> '' GROUP BY source"
        help = "1 if the last run of a ranking source was held back, and waits for staff."
        return [Fact("gateway_ranking_run_held", help, held, ("source",))]
