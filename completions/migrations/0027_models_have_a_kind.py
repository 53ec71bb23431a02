from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("completions", "0026_usage_by_hour")]

    operations = [
        migrations.AddField(
            model_name="languagemodel",
            name="kind",
            field=models.CharField(
                choices=[("chat", "writes text"), ("embedding", "makes embeddings of text")],
                db_default="chat",
                default="chat",
                max_length=10,
            ),
        ),
    ]
