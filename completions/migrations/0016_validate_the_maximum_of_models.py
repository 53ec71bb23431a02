from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("completions", "0015_models_have_a_maximum_in_flight")]

    operations = [ValidateConstraint(model_name="languagemodel", name="a_model_may_have_requests_in_flight")]
