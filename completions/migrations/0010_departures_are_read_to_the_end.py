"""Replies are read to their end after a departure, unless the provider is said to stop charging; models say if they reason.

``drains`` is not renamed: ``cancels`` is its opposite, and nobody has said it of any provider yet. Its
column stays, with a default, because the processes of the version before read it until they are restarted.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("completions", "0009_keys_count_their_open_holds"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[migrations.RemoveField(model_name="provider", name="drains")],
            database_operations=[
                migrations.RunSQL(
                    "ALTER TABLE completions_provider ALTER COLUMN drains SET DEFAULT false",
                    "ALTER TABLE completions_provider ALTER COLUMN drains DROP DEFAULT",
                )
            ],
        ),
        migrations.AddField(
            model_name="provider",
            name="cancels",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="It stops charging when the connection is closed, as its documentation says. Then a client's "
                "departure ends a request, except where the model may reason. Otherwise every reply is read to its end.",
            ),
        ),
        migrations.AddField(
            model_name="languagemodel",
            name="reasoning",
            field=models.BooleanField(
                blank=True,
                help_text="Whether it generates reasoning that its replies do not show. Unknown: only when a request asks for "
                "it.",
                null=True,
            ),
        ),
    ]
