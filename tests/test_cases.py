"""A case of a test leaves nothing to the next, and is checked like a test of its own."""

import pytest
from django.db import IntegrityError, transaction

from billing.models import Account, Membership
from tests.cases import undone


def test_a_case_leaves_no_rows_whether_it_passes_or_fails(alice):
    with undone():
        Account.objects.create(name="of a case")
    with pytest.raises(IntegrityError), undone():
        Account.objects.create(pk=alice.pk)  # after which the transaction is aborted
    assert list(Account.objects.all()) == [alice]


def test_a_case_ends_with_the_checks_of_deferred_constraints(alice):
    with pytest.raises(IntegrityError, match="foreign key"), undone():
        Membership.objects.create(account=alice, user_id=0)


def test_a_case_does_not_count_as_a_transaction_of_the_product(db):
    with undone(), transaction.atomic(durable=True):
        Account.objects.create(name="durable")
