from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("billing", "0024_members_have_roles")]

    operations = [ValidateConstraint(model_name="membership", name="a_member_has_a_role")]
