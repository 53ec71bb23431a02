import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        migrations.CreateModel(
            name="AccountPlace",
            fields=[
                ("account_id", models.UUIDField(primary_key=True, serialize=False)),
                ("cell", models.PositiveSmallIntegerField()),
            ],
            options={"indexes": [models.Index(fields=["cell"], name="places_by_cell")]},
        ),
        migrations.CreateModel(
            name="Cell",
            fields=[
                ("number", models.PositiveSmallIntegerField(primary_key=True, serialize=False)),
                ("is_open", models.BooleanField(default=False, help_text="New accounts may be put here.")),
                ("added_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("number__gt", 1), ("number__lt", 3844)), name="the_first_cell_has_no_row"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="SignedDay",
            fields=[
                ("cell", models.PositiveSmallIntegerField(primary_key=True, serialize=False)),
                ("day", models.DateField()),
                ("digest", models.CharField(max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name="Reference",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("key", "Key"),
                            ("management key", "Management Key"),
                            ("payment", "Payment"),
                            ("invitation", "Invitation"),
                            ("entry", "Entry"),
                        ],
                        max_length=20,
                    ),
                ),
                ("value", models.CharField(db_collation="C", max_length=255)),
                ("account_id", models.UUIDField(db_index=True)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("kind", "value"), name="a_reference_has_one_account")],
            },
        ),
        migrations.CreateModel(
            name="UserPlace",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("cell", models.PositiveSmallIntegerField()),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("user", "cell"), name="a_user_is_once_in_a_cell")],
            },
        ),
    ]
