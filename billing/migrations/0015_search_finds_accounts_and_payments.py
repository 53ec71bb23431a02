from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.operations import AddIndexConcurrently
from django.contrib.postgres.search import SearchVector
from django.db import migrations
from django.db.models import Q


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("billing", "0014_payments_keep_their_amount")]

    operations = [
        AddIndexConcurrently(
            model_name="account",
            index=GinIndex(SearchVector("name", config="simple"), name="accounts_by_words_of_name"),
        ),
        AddIndexConcurrently(
            model_name="ledgerentry",
            index=GinIndex(condition=~Q(("type", "USAGE_DEBIT")), fields=["metadata"], name="entries_by_metadata"),
        ),
    ]
