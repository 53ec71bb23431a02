import idna
from django.db import migrations


def respell(apps, schema_editor):
    """Give each user's address the spelling by which it is looked up now, unless another user has it already."""
    users, addresses = apps.get_model("billing", "User").objects, apps.get_model("account", "EmailAddress").objects
    for user in users.filter(email__regex="[^\x01-\x7f]"):
        name, _, domain = user.email.rpartition("@")
        try:
            email = f"{name}@{idna.encode(domain, uts46=True).decode()}".lower()
        except UnicodeError:
            continue
        if not users.filter(email=email).exists():
            addresses.filter(user_id=user.pk, email=user.email).update(email=email)
            users.filter(pk=user.pk).update(email=email)


class Migration(migrations.Migration):
    atomic = False  # a few rows, each by itself
    dependencies = [
        ("account", "0009_emailaddress_unique_primary_email"),
        ("billing", "0017_signed_days_outlive_moves"),
    ]

    operations = [migrations.RunPython(respell, migrations.RunPython.noop, hints={"is_owned": False})]
