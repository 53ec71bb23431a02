from collections.abc import Collection, Iterable
from typing import Any

from gateway_project import app_config


class CompletionsConfig(app_config.GatewayApp):
    name = "completions"

    def ready(self) -> None:
        from completions import checks  # noqa: F401  registers them

    def desk(self) -> app_config.Desk:
        from completions.desk import panels, search

        return app_config.Desk(panels.PANELS, panels.SECTIONS, search.FINDERS)

    def facts(self) -> Iterable[Any]:
        from completions import facts

        return [*facts.FACTS, *facts.HOST_GAUGES]

    def audit(self) -> app_config.Audit:
        from completions import audit

        return app_config.Audit(audit.INVARIANTS, audit.TABLES, audit.DAY_TABLES, audit.LATE_IDS)

    def require_ready(self) -> None:
        from completions.charging import batch
        from completions.charging.recovery import reserve

        reserve.require()
        batch.require_ready()

    def known_models(self, ids: Collection[str]) -> set[str]:
        from completions.models import LanguageModel, RoutableAlias

        found = (table.objects.filter(pk__in=ids).values_list("pk", flat=True) for table in (LanguageModel, RoutableAlias))
        return {model_id for each in found for model_id in each}

    def exported_tables(self) -> app_config.Tables:
        from completions.history import files
        from completions.inbound.responses import keeping
        from completions.own_keys import acts

        return {"requests": files.read_all, "responses": keeping.read_all, "own_keys": acts.read_all}
