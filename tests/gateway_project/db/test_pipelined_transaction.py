"""What an error of a commit says about it."""

import pytest
from django.db import Error

from completions.charging.recovery import outbox
from gateway_project.db import pool
from gateway_project.db.group_commit import OutcomeUnknown
from gateway_project.db.pipelined_transaction import PipelinedConnection, PipelinedTransaction, Statement

_FORBIDDEN = Statement("SELECT to_json(1) FROM billing_account")


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


@pytest.mark.django_db(transaction=True)
def test_what_our_role_may_not_do_is_worth_repeating() -> None:
    """So a settlement waits on disk until the role has its rights again."""
    pipelined = PipelinedConnection()
    try:
        with pytest.raises(outbox.UNAVAILABLE) as raised:
            pipelined.run(lambda transaction: transaction.read(Statement("SET ROLE pg_monitor"), _FORBIDDEN), is_durable=True)
        assert pool.is_unavailable(raised.value)
    finally:
        pipelined.close()
