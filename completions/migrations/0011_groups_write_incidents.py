"""Lets two of the ready groups of staff write incidents, and a third read them."""

from typing import Any

from django.db import migrations

from gateway_project.activity import staff_groups

_WRITE = [f"{act}_{name}" for name in ("incident", "incidentupdate") for act in ("view", "add", "change")]
_READ = ["view_incident", "view_incidentupdate"]
COMPLETIONS = {"Support": _READ, "Support lead": _WRITE, "Operator": _WRITE}


def fill(apps: Any, schema_editor: Any) -> None:
    staff_groups.extend(apps, "completions", COMPLETIONS)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("completions", "0010_status_page")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
