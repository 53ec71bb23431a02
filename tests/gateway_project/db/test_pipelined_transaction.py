"""What an error of a commit says about it."""

import pytest
from django.db import Error

from gateway_project.db.group_commit import OutcomeUnknown
from gateway_project.db.pipelined_transaction import PipelinedConnection, PipelinedTransaction, Statement


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("state", "is_unknown"), [("XX000", True), ("23514", False)], ids=["an internal error, as Citus has them", "a constraint"]
)
def test_a_commit_that_fails_by_an_internal_error_may_have_been_carried_out(state: str, is_unknown: bool) -> None:
    def work(transaction: PipelinedTransaction) -> None:
        transaction.read()
        transaction.write([Statement(f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{state}'; END $$")])

    pipelined = PipelinedConnection()
    try:
        with pytest.raises((OutcomeUnknown, Error)) as raised:
            pipelined.run(work, is_durable=True)
        assert isinstance(raised.value, OutcomeUnknown) == is_unknown
    finally:
        pipelined.close()
