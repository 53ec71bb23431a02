"""Validates the constraint of 0004, and lets the ready groups of staff see owners that wait for a second person."""

from typing import Any

from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations

from gateway_project.activity import staff_groups

BILLING = {
    "Support lead": ["view_ownerrequest"],
    "Operator": ["view_ownerrequest"],
}


def fill(apps: Any, schema_editor: Any) -> None:
    staff_groups.extend(apps, "billing", BILLING)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("billing", "0004_links_and_second_persons")]

    operations = [
        ValidateConstraint(model_name="creditrequest", name="a_payment_that_waits_has_the_banks_id"),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
