"""Adds the permission to publish a run that was held back to the ready groups of staff."""

from typing import Any

from django.db import migrations

from gateway_project.activity import staff_groups


def fill(apps: Any, schema_editor: Any) -> None:
    staff_groups.extend(apps, "rankings", {"Catalogue": ["change_snapshot"], "Operator": ["change_snapshot"]})


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("rankings", "0003_runs_are_held_back")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop, hints={"is_owned": False})]
