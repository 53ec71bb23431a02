from typing import Any

from gateway_project import app_config


class KeysConfig(app_config.GatewayApp):
    name = "keys"

    def desk(self) -> app_config.Desk:
        from keys.desk import panels, search

        return app_config.Desk(panels.PANELS, panels.SECTIONS, search.FINDERS)

    def audit(self) -> app_config.Audit:
        from keys import audit

        return app_config.Audit(audit.INVARIANTS, audit.TABLES)

    def spender_names(self, account: Any, **asked: Any) -> dict[str, str]:
        from keys import summaries

        return summaries.find_names(account, **asked)

    def exported_tables(self) -> app_config.Tables:
        from keys import summaries

        return {"keys": summaries.read_all}

    def erase(self, account: Any) -> None:
        from keys import lifecycle

        lifecycle.erase_keys(account)
