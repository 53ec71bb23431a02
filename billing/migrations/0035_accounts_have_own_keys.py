from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("billing", "0034_keys_have_a_maximum_lifetime")]

    operations = [
        migrations.AddField("account", "has_own_keys", models.BooleanField(db_default=False, default=False, editable=False)),
    ]
