from django.db import migrations, models


class Migration(migrations.Migration):
    """Providers of before count as other people's: what callers invent is no longer passed on to them."""

    dependencies = [
        ("completions", "0011_stored_replies_have_a_size"),
    ]

    operations = [
        migrations.AddField(
            model_name="provider",
            name="passes_unknown_fields",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="A server of our own, in OpenAI's format: it gets all fields of a request, also unknown ones.",
            ),
        ),
    ]
