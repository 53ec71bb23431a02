import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("activity", "0004_forms_are_acted_on_once"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            "activity",
            "program",
            models.CharField(
                blank=True,
                db_default="",
                help_text="The management key by which a program acted, if it was one.",
                max_length=200,
            ),
        ),
        migrations.AlterField(
            "activity",
            "actor",
            models.ForeignKey(
                db_index=False,
                help_text="Empty: a program, or a command of an operator.",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
    ]
