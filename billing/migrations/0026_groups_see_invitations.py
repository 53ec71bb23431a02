"""Adds the permission to see invitations to the ready groups of staff that see members."""

from typing import Any

from django.db import migrations

from gateway_project.activity import staff_groups

BILLING = dict.fromkeys(("Support", "Support lead", "Operator"), ["view_invitation"])


def fill(apps: Any, schema_editor: Any) -> None:
    staff_groups.extend(apps, "billing", BILLING)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("billing", "0025_validate_the_roles")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
