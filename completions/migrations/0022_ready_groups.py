"""Adds the permissions on completions and the catalog to the ready groups of staff."""

from typing import Any

from django.db import migrations

from gateway_project.activity import staff_groups

_COSTS = ["view_completion", "view_languagemodel", "view_price"]
_CATALOG = [*_COSTS, "view_provider", "view_route", "view_upstreamlist", "view_catalogproposal", "view_routablealias"]
COMPLETIONS = {
    "Support": _COSTS,
    "Support lead": _COSTS,
    "Finance": _COSTS,
    "Catalogue": [
        *(*_CATALOG, "add_languagemodel", "change_languagemodel", "add_price", "change_catalogproposal"),
        *("add_route", "change_route", "delete_route"),
    ],
    "Operator": [*_CATALOG, "view_idempotentrequest", "add_provider", "change_provider", "change_route"],
}


def fill(apps: Any, schema_editor: Any) -> None:
    staff_groups.extend(apps, "completions", COMPLETIONS)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ("completions", "0021_completions_are_found_by_key"),
        ("billing", "0016_ready_groups"),
    ]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
