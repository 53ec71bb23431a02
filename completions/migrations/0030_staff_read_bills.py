"""Lets ready groups of staff read bills, and some import them."""

from typing import Any

from django.db import migrations

from gateway_project.activity import staff_groups

_READ = ["view_bill", "view_billcomparison", "view_billedmodel"]
_WRITE = [*_READ, "add_billedmodel", "change_billedmodel", "delete_billedmodel"]
GROUPS = {"Finance": [*_WRITE, "add_bill", "delete_bill"], "Catalogue": _WRITE, "Operator": [*_READ, "add_bill"]}


def fill(apps: Any, schema_editor: Any) -> None:
    staff_groups.extend(apps, "completions", GROUPS)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("completions", "0029_bills_of_providers")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop, hints={"is_owned": False})]
