"""Copies what Django's admin has recorded until now. It is not deleted there, and nothing more is written to it."""

from typing import Any

from django.contrib.admin.models import ADDITION, DELETION, LogEntry
from django.db import migrations

_ACTS = {ADDITION: "ADDED", DELETION: "DELETED"}


def copy(apps: Any, schema_editor: Any) -> None:
    activity_model, old_model = apps.get_model("activity", "Activity"), apps.get_model("admin", "LogEntry")
    if activity_model.objects.exists():
        return
    old_entries = old_model.objects.select_related("content_type").order_by("pk").iterator(1_000)
    activity_model.objects.bulk_create((_activity(activity_model, old) for old in old_entries), batch_size=1_000)


def _activity(activity_model: Any, old: Any) -> Any:
    kind = old.content_type
    readable = LogEntry(action_flag=old.action_flag, object_repr=old.object_repr, change_message=old.change_message)
    return activity_model(
        at=old.action_time,
        act=_ACTS.get(old.action_flag, "CHANGED"),
        actor_id=old.user_id,
        object_type=f"{kind.app_label}.{kind.model}" if kind else "",
        object_id=old.object_id or "",
        object_text=old.object_repr,
        summary=readable.get_change_message() or str(readable),
    )


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ("activity", "0002_acts_are_never_changed"),
        ("admin", "0003_logentry_add_action_flag_choices"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [migrations.RunPython(copy, migrations.RunPython.noop)]
