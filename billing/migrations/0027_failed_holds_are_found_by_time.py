from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("billing", "0026_groups_see_invitations")]

    operations = [
        AddIndexConcurrently(
            model_name="hold",
            index=models.Index(
                condition=models.Q(("state__in", ["RELEASED", "EXPIRED"])),
                fields=["account", "resolved_at"],
                name="failed_holds_by_time",
            ),
        ),
    ]
