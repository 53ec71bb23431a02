from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("keys", "0003_keys_count_their_open_holds")]

    operations = [
        migrations.AlterModelOptions(
            name="apikey",
            options={
                "permissions": [
                    ("set_spending_limit", "Can set or clear a key's spending limit"),
                    ("set_rates", "Can set how many requests and tokens a key may send"),
                    ("revoke_apikey", "Can revoke a key"),
                ],
                "verbose_name": "API key",
            },
        ),
    ]
