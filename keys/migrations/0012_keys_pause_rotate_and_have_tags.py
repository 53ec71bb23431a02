import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models
from django.db.models.functions import Now


class Migration(migrations.Migration):
    dependencies = [("keys", "0011_validate_raises_of_limits")]

    operations = [
        migrations.AddField("apikey", "former_digests", models.JSONField(blank=True, editable=False, null=True)),
        migrations.AddField(
            "apikey",
            "paused_at",
            models.DateTimeField(blank=True, editable=False, help_text="Since when it is paused. Empty: it is not.", null=True),
        ),
        migrations.AddField(
            "apikey",
            "tags",
            django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=40),
                blank=True,
                help_text="Labels, to find and group keys.",
                null=True,
                size=None,
            ),
        ),
        migrations.CreateModel(
            name="FormerSecret",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("digest", models.CharField(editable=False, max_length=64, unique=True)),
                ("last_four", models.CharField(db_index=True, editable=False, max_length=4)),
                ("rotated_at", models.DateTimeField(db_default=Now(), editable=False)),
                ("ends_at", models.DateTimeField(help_text="Until when it works.")),
                (
                    "key",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="former_secrets", to="keys.apikey"
                    ),
                ),
            ],
        ),
    ]
