"""Adds the permissions on keys to the ready groups of staff."""

from typing import Any

from django.db import migrations

from gateway_project.activity import staff_groups

_SEEN = ["view_apikey", "view_spendingday", "view_refusalcount", "view_refusedrequest"]
_SUPPORT = [*_SEEN, "set_spending_limit", "set_rates", "revoke_apikey"]
KEYS = {"Support": _SUPPORT, "Support lead": _SUPPORT, "Operator": [*_SEEN, "revoke_apikey"]}


def fill(apps: Any, schema_editor: Any) -> None:
    staff_groups.extend(apps, "keys", KEYS)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ("keys", "0008_keys_are_found_by_their_last_four"),
        ("billing", "0016_ready_groups"),
    ]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
