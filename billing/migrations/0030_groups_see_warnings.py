"""Adds the permission to see warnings to the ready groups of staff that see accounts."""

from typing import Any

from django.db import migrations

from gateway_project.activity import staff_groups

BILLING = dict.fromkeys(("Support", "Support lead", "Finance", "Operator"), ["view_accountwarning"])


def fill(apps: Any, schema_editor: Any) -> None:
    staff_groups.extend(apps, "billing", BILLING)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("billing", "0029_validate_the_threshold")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
