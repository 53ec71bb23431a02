"""Adds the permissions on rankings to the ready groups of staff."""

from typing import Any

from django.db import migrations

from gateway_project.activity import staff_groups

_SEEN = ["view_sourcestate", "view_snapshot", "view_standing", "view_entry", "view_dailyrank", "view_publication"]
RANKINGS = {
    "Catalogue": [
        *(*_SEEN, "change_sourcestate", "view_alias", "add_alias", "change_alias", "delete_alias"),
        *("view_profile", "add_profile", "change_profile", "delete_profile"),
    ],
    "Operator": [*_SEEN, "change_sourcestate", "view_alias", "view_profile"],
}


def fill(apps: Any, schema_editor: Any) -> None:
    staff_groups.extend(apps, "rankings", RANKINGS)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ("rankings", "0001_initial"),
        ("billing", "0003_ready_groups"),
    ]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
