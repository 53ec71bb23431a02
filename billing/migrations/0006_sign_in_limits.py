from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("billing", "0005_checks_read_what_they_compare")]

    operations = [
        migrations.CreateModel(
            name="SignInLimit",
            fields=[
                (
                    "digest",
                    models.CharField(
                        db_collation="C",
                        help_text="SHA-256 of what is limited.",
                        max_length=64,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("full_at", models.DateTimeField(db_index=True, help_text="When the whole burst is available again.")),
            ],
        ),
    ]
