"""Adds the permissions to act on accounts to the ready groups of staff."""

from typing import Any

from django.db import migrations

from gateway_project.activity import staff_groups

BILLING = {
    "Support": ["send_password_link"],
    "Support lead": ["send_password_link", "correct_credit", "close_account"],
    "Finance": ["correct_credit", "book_purchase", "refund_purchase", "close_account"],
}


def fill(apps: Any, schema_editor: Any) -> None:
    staff_groups.extend(apps, "billing", BILLING)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("billing", "0022_acts_on_accounts_need_permissions")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
