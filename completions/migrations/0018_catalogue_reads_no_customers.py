"""Takes the permission on completions from the ready group Catalogue: they show customers, who are refused to it elsewhere."""

from typing import Any

from django.db import migrations

from gateway_project.activity import staff_groups


def fill(apps: Any, schema_editor: Any) -> None:
    staff_groups.take(apps, "completions", {"Catalogue": ["view_completion"]})


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("completions", "0017_unreplied_responses_are_found_by_age")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop, hints={"is_owned": False})]
