"""Lets the ready groups of staff that see keys see management keys and former secrets, too."""

from typing import Any

from django.db import migrations

from gateway_project.activity import staff_groups

_SEEN = ["view_managementkey", "view_formersecret"]
KEYS = {"Support": _SEEN, "Support lead": _SEEN, "Operator": _SEEN}


def fill(apps: Any, schema_editor: Any) -> None:
    staff_groups.extend(apps, "keys", KEYS)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("keys", "0013_management_keys")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
