"""The names of those who spent: the ``spender`` of usage entries. Other apps know what a spender is."""

from collections.abc import Collection

from billing.models import Account
from gateway_project import app_config


def find_names(account: Account, *, limit: int, ids: Collection[str] | None = None, text: str | None = None) -> dict[str, str]:
    """Return what ``GatewayApp.spender_names`` of all apps finds."""
    found = [app.spender_names(account, limit=limit, ids=ids, text=text) for app in app_config.installed()]
    return {id: name for names in found for id, name in names.items()}
