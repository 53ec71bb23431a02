from collections.abc import Iterable
from typing import Any

from gateway_project import app_config


class BillingConfig(app_config.GatewayApp):
    name = "billing"

    def ready(self) -> None:
        from billing.payments import configuration  # noqa: F401  registers its checks

    def desk(self) -> app_config.Desk:
        from billing.desk import panels, search, sections

        return app_config.Desk(panels.PANELS, sections.SECTIONS, search.FINDERS)

    def facts(self) -> Iterable[Any]:
        from billing import facts

        return facts.FACTS

    def audit(self) -> app_config.Audit:
        from billing import audit
        from billing.ledger.audit import LEDGER_TABLES

        return app_config.Audit(audit.INVARIANTS, LEDGER_TABLES, audit.DAY_TABLES, audit.LATE_IDS)
