"""Adds the permissions on completions and the catalog to the ready groups of staff."""

from typing import Any

from django.db import migrations

from gateway_project.activity import staff_groups

_COSTS = ["view_completion", "view_languagemodel", "view_price", "view_completionhour"]
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
    replaces = [
        ("completions", "0022_ready_groups"),
        ("completions", "0024_groups_see_hours"),
    ]

    dependencies = [
        ("completions", "0002_unused_indexes"),
        ("billing", "0003_ready_groups"),
    ]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
