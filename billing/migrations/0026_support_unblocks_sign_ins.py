"""Support finds what blocks a sign-in, also on known devices, and unblocks it."""

from typing import Any

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

from gateway_project.activity import staff_groups

_UNBLOCK = ["view_signinlimit", "unblock_sign_in"]
GROUPS = {"Support": _UNBLOCK, "Support lead": _UNBLOCK, "Operator": ["unblock_sign_in"]}


def fill(apps: Any, schema_editor: Any) -> None:
    staff_groups.extend(apps, "billing", GROUPS)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("billing", "0025_payments_have_the_digest_of_their_events")]

    operations = [
        migrations.AddField(
            "signinlimit",
            "email_digest",
            models.CharField(
                blank=True,
                db_collation="C",
                db_default="",
                default="",
                help_text="Of a limit on a known device.",
                max_length=64,
            ),
        ),
        migrations.AlterModelOptions(
            "signinlimit", options={"permissions": [("unblock_sign_in", "Can unblock a sign-in after too many attempts")]}
        ),
        AddIndexConcurrently(
            "signinlimit",
            models.Index(condition=~models.Q(email_digest=""), fields=["email_digest"], name="limits_on_known_devices"),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop, hints={"is_owned": False}),
    ]
