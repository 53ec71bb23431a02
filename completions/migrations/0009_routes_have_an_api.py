"""A route says by which of OpenAI's two APIs its provider is asked."""

from django.db import migrations, models

_APIS = [("chat", "Chat completions"), ("responses", "Responses")]
_HELP = "Which API of an OpenAI-compatible provider is asked. With Responses, reasoning continues across turns."


class Migration(migrations.Migration):
    dependencies = [("completions", "0008_a_run_is_repeated_once")]

    operations = [
        migrations.AddField(
            "route",
            "api",
            models.CharField("API", max_length=10, choices=_APIS, default="chat", db_default="chat", help_text=_HELP),
        )
    ]
