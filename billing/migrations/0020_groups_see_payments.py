"""Adds the permissions to see payments to the ready groups of staff."""

from typing import Any

from django.db import migrations

from gateway_project.activity import staff_groups

BILLING = {
    "Support": ["view_payment"],
    "Support lead": ["view_payment"],
    "Finance": ["view_payment", "view_paymentevent", "view_paymentdifference", "view_billingdetails", "view_topuprule"],
}


def fill(apps: Any, schema_editor: Any) -> None:
    staff_groups.extend(apps, "billing", BILLING)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("billing", "0019_top_ups")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
