"""Adds the permission to see completions summed up by hour to the ready groups of staff that see completions."""

from typing import Any

from django.db import migrations

from gateway_project.activity import staff_groups

COMPLETIONS = dict.fromkeys(staff_groups.NAMES, ["view_completionhour"])


def fill(apps: Any, schema_editor: Any) -> None:
    staff_groups.extend(apps, "completions", COMPLETIONS)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("completions", "0023_hours_of_completions")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
