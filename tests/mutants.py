"""Mutants: the gateway with one deliberate fault each, and the tests that must fail with it. ``make mutants`` runs all of them.

``make test`` runs the dangerous ones. ``tests.mutant_plugin`` does both, and tells how to run one by hand.

The product has no switches for this. A mutant replaces text in a function's source, or changes the test database, only while
a test runs. A mutant whose text no longer occurs in the source fails, and must be updated.
"""

import ast
import inspect
import pkgutil
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from django.db import connection

ROOT = Path(__file__).resolve().parent.parent

# A test of a plain reply, which every mutant passes: a mutant that breaks everything would prove nothing.
SERVES = "tests/test_promises.py::test_a_completion_has_every_field_with_its_type"

# Slow tests, which are not run again without a mutant, and only in ``make mutants``.
LEDGER_STATE_MACHINE = "tests/billing/ledger/test_state_machine.py::test_the_ledger_equals_its_model_after_any_steps"
LONG = {LEDGER_STATE_MACHINE}


@dataclass(frozen=True)
class Change:
    """How to break something while a block runs, and the path of what is broken: a file, or a folder of migrations."""

    path: str
    applied: Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True)
class Mutant:
    """A fault: what it breaks, as a sentence; the change that does; and the tests that must each fail with it.

    A dangerous one would lose money of owners or of the operator, or open what is closed, before anybody noticed.
    """

    breaks: str
    change: Change
    killed_by: tuple[str, ...]
    dangerous: bool = False

    @property
    def tests(self) -> tuple[str, ...]:
        return (*self.killed_by, SERVES)


MUTANTS: dict[str, Mutant] = {}


def mutant(name: str, breaks: str, change: Change, *killed_by: str, dangerous: bool = False) -> None:
    MUTANTS[name] = Mutant(breaks, change, tuple(f"tests/{test}" for test in killed_by), dangerous)


# --- What a mutant may change --------------------------------------------------------------------------------------


def code(where: str, *texts: str) -> Change:
    """Replace texts in the source of a function, "module:name": the first by the second, the third by the fourth, and so on."""

    @contextmanager
    def changed() -> Iterator[None]:
        function = _function(where)
        sound_code, function.__code__ = function.__code__, _compiled(where, function, texts)
        _forget_results(where)
        try:
            yield
        finally:
            function.__code__ = sound_code
            _forget_results(where)

    return Change(_path(where.partition(":")[0]), changed)


def _forget_results(where: str) -> None:
    """Forget what the functions of the module keep of their results, which may be those of the changed function."""
    for each in vars(pkgutil.resolve_name(where.partition(":")[0])).values():
        if hasattr(each, "cache_clear"):
            each.cache_clear()


def _path(module: str) -> str:
    """Return the path of a module's file below the root of the project, without importing it."""
    path = Path(*module.split("."))
    return str(path / "__init__.py" if (ROOT / path).is_dir() else path.with_suffix(".py"))


def _function(where: str) -> FunctionType:
    found: Any = pkgutil.resolve_name(where)
    return inspect.unwrap(found.fget if isinstance(found, property) else found)


def _compiled(where: str, function: FunctionType, texts: Sequence[str]) -> CodeType:
    source = textwrap.dedent(inspect.getsource(function))
    for sound, broken in zip(texts[::2], texts[1::2], strict=True):
        assert source.count(sound) == 1, f"{where} does not contain {sound!r} exactly once: update the mutant"
        source = source.replace(sound, broken)
    [definition] = ast.parse(source).body
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    module = compile(ast.Module([definition], []), f"<{where}, broken>", "exec")
    [compiled] = [each for each in module.co_consts if isinstance(each, CodeType) and each.co_name == function.__name__]
    return compiled


def without_trigger(table: str, name: str) -> Change:
    """Drop a trigger of the test database."""
    return _executed(table, f"DROP TRIGGER {name} ON {table}")


def without_unique(table: str, column: str) -> Change:
    """Drop the unique constraint of a column in the test database."""
    return _executed(table, f"ALTER TABLE {table} DROP CONSTRAINT {table}_{column}_key")


def _executed(table: str, sql: str) -> Change:
    """Execute the SQL in tests that are rolled back, which rolls back the change, too."""

    @contextmanager
    def executed() -> Iterator[None]:
        if connection.in_atomic_block:
            with connection.cursor() as cursor:
                cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # pending deferred checks would forbid the change
                cursor.execute(sql)
                cursor.execute("SET CONSTRAINTS ALL DEFERRED")
        yield

    return Change(f"{table.partition('_')[0]}/migrations/", executed)


# --- Locks -----------------------------------------------------------------------------------------------------------

LOAD = "billing/ledger/test_under_load.py"
ADMISSION = "completions/charging/test_admission.py"
BATCH = "completions/charging/test_batch.py"
DEMANDS = "completions/catalog/test_data_demands.py"
GROUP = "gateway_project/db/test_group_commit.py"

mutant(
    "no_lock_on_the_account",
    "Who books for an account does not lock it.",
    code("billing.locks:lock_account", '.select_for_update(of=("self",), no_key=True)', ""),
    "billing/ledger/test_writer.py::test_the_account_is_locked_before_its_balance_is_written",
    f"{LOAD}::test_placing_a_hold_waits_for_concurrent_holds_and_counts_them",
)
mutant(
    "no_lock_on_the_issuer",
    "Credits of one person are summed without locking the person.",
    code("billing.locks:lock_users", '.select_for_update(of=("self",), no_key=True)', ""),
    "pages/test_support.py::test_a_credit_waits_for_another_of_the_same_person_and_counts_it",
    "pages/test_staff_permissions.py::test_a_membership_waits_for_a_credit_of_the_same_person_and_is_refused",
)
mutant(
    "no_lock_on_accounts_in_a_batch",
    "A batch reads accounts without locking them.",
    code(
        "completions.charging.batch:_lock_and_read",
        "account_locks.lock_accounts_statement({each.account_id for each in operations}, skips_locked=skips_locked),",
        "pipelined_transaction.select_rows_statement(Account, {each.account_id for each in operations}),",
    ),
    f"{BATCH}::test_admission_waits_for_a_locked_account_and_sees_its_holds",
    dangerous=True,
)
mutant(
    "no_lock_on_keys_in_a_batch",
    "A batch reads keys without locking them.",
    code(
        "completions.charging.batch:_lock_and_read",
        "key_locks.lock_keys_statement(key_ids, skips_locked=skips_locked),",
        "pipelined_transaction.select_rows_statement(ApiKey, key_ids),",
    ),
    f"{BATCH}::test_admission_waits_for_a_locked_key_and_sees_its_revocation",
)
mutant(
    "locks_in_another_order",
    "A batch locks keys before accounts, unlike all other writers.",
    code(
        "completions.charging.batch:_lock_and_read",
        "accounts, keys, sums",
        "keys, accounts, sums",
        "account_locks.lock_accounts_statement({each.account_id for each in operations}, skips_locked=skips_locked),",
        "key_locks.lock_keys_statement(key_ids, skips_locked=skips_locked),",
        "key_locks.lock_keys_statement(key_ids, skips_locked=skips_locked),\n        spending",
        "account_locks.lock_accounts_statement({each.account_id for each in operations}, skips_locked=skips_locked),"
        "\n        spending",
    ),
    f"{BATCH}::test_a_batch_locks_accounts_before_keys",
)
mutant(
    "a_batch_waits_for_locked_rows",
    "A batch waits for the rows of one account, and all others with it.",
    code("completions.charging.batch:_Committer._run_batch", "skips_locked=True", "skips_locked=False"),
    f"{BATCH}::test_other_accounts_are_served_while_one_is_locked[account]",
    f"{BATCH}::test_other_accounts_are_served_while_one_is_locked[key]",
)
mutant(
    "settlements_together_never_wait_for_the_disk",
    "A reply ends before its charge is on disk, if it was settled in a batch with others.",
    code("completions.charging.batch:_commit_in", "durability.wait_until_durable(outcome.session)", "pass"),
    f"{BATCH}::test_settlements_together_let_go_of_their_rows_and_then_wait_for_the_disk",
)
mutant(
    "a_settlement_alone_does_not_wait_for_the_disk",
    "A reply ends before its charge is on disk, if it was settled alone.",
    code("completions.charging.batch:_run_on", "bool(settlements) and (commit_waits or session is None)", "False"),
    f"{BATCH}::test_only_the_commit_of_a_settlement_alone_waits_for_the_disk",
)
mutant(
    "a_flush_of_another_server_proves_a_settlement",
    "A settlement that a crash forgot counts as on disk, because the server that came after flushes.",
    code("gateway_project.db.durability:_flush", "None if number in flushed else", "None if True else"),
    "gateway_project/db/test_durability.py::test_a_flush_of_a_later_session_proves_nothing",
)
mutant(
    "what_is_found_charged_counts_as_on_disk",
    "A settlement whose flush failed is tried again, found charged, and not waited for.",
    code("completions.charging.batch:_run_on", "if not (is_durable and is_written):", "if not is_durable:"),
    f"{BATCH}::test_a_settlement_that_is_found_charged_waits_for_the_disk",
)
mutant(
    "a_moved_account_is_not_looked_up_again",
    "A request that waited for an account which moved meanwhile is refused.",
    code(
        "gateway_project.cells.directory:has_moved",
        "return place is not None and remember(account_id, place) != number",
        "return False",
    ),
    "billing/ledger/test_moves.py::test_its_keys_work_as_before",
)
mutant(
    "a_readmission_follows_its_account",
    "What waits on disk for an account that moved just now is taken for forgotten.",
    code(
        "completions.charging.recovery.owed:_wait",
        "Skipped() if operation.has_moved() else refusal",
        "refusal",
    ),
    "completions/charging/test_moves.py::test_what_moved_just_now_waits_instead_of_being_a_dead_letter",
)
mutant(
    "a_file_is_drained_where_its_account_was",
    "What waits on disk is looked for where this process believes its account.",
    code("completions.charging.recovery.drains:_by_cell", "directory.find_again(", "directory.cell_of("),
    "completions/charging/test_moves.py::test_what_waits_on_disk_is_charged_in_the_new_cell",
)
mutant(
    "a_connection_stays_in_its_cell",
    "A statement is sent in the cell of the statement before it.",
    code("gateway_project.db.cell:follow", "!= number", "!= number and False"),
    "gateway_project/cells/test_directory.py::test_a_completion_is_charged_in_the_cell_of_its_key",
)
mutant(
    "a_rollback_does_not_forget_the_cell",
    "After a rollback took the search path back, statements go on in another cell.",
    code("gateway_project.db.cell:forget", "_of_connections[connection] = _UNKNOWN", "pass"),
    "gateway_project/db/test_cell.py::test_after_a_rollback_the_next_statement_is_in_the_current_cell",
    "gateway_project/db/test_cell.py::test_after_a_rollback_to_a_savepoint_the_next_statement_is_in_the_current_cell",
)
mutant(
    "a_move_is_not_compared",
    "A ledger that is not the same in the new cell is moved.",
    code("gateway_project.cells.moving:move", "if _digest(target, digest_sql, account_id) != expected:", "if False:"),
    "billing/ledger/test_moves.py::test_a_ledger_that_is_not_the_same_there_is_not_moved",
)
mutant(
    "triggers_look_into_the_cell_of_the_session",
    "A deferred trigger that runs after a transaction went on in another cell looks there.",
    code("gateway_project.cells.structure:fix_functions", "execute(f", "str(f"),
    "gateway_project/cells/test_structure.py::test_a_deferred_trigger_looks_into_its_own_cell",
)
mutant(
    "what_was_skipped_is_taken_for_deleted",
    "A request of an account whose row was skipped is refused like one of a deleted account.",
    code("completions.charging.batch:_apply", "operation.account_id in locked_ids", "False"),
    f"{BATCH}::test_admission_waits_for_a_locked_account_and_sees_its_holds",
    f"{BATCH}::test_other_accounts_are_served_while_one_is_locked[key]",
)
mutant(
    "what_is_skipped_goes_last",
    "Items that were skipped come after those that arrived later.",
    code("gateway_project.db.group_commit:GroupCommit._finish", "self._waiting[:0] = skipped", "self._waiting += skipped"),
    f"{GROUP}::test_an_item_that_is_skipped_keeps_its_place",
)
mutant(
    "a_partition_stays_isolated",
    "A partition that was locked once has batches of its own for ever.",
    code("gateway_project.db.group_commit:GroupCommit._successor", "self._isolated.remove(partition)", "pass"),
    f"{GROUP}::test_a_partition_returns_to_the_shared_batches_when_none_of_its_items_waits",
)
mutant(
    "those_behind_a_locked_row_wait_on",
    "When an account stays locked, only the requests of the first batch are refused.",
    code("gateway_project.db.group_commit:GroupCommit._give_up", "(ticket) == partition]", "(ticket) == partition and False]"),
    f"{GROUP}::test_all_who_wait_for_a_partition_that_stays_locked_get_the_cause",
)
mutant(
    "who_is_tried_waits_for_a_locked_row",
    "After a wait in vain, the operation that is tried waits the whole time again.",
    code("gateway_project.db.group_commit:GroupCommit._begin_trial", "ticket.is_trial = True", "pass"),
    f"{GROUP}::test_a_partition_that_stayed_locked_is_tried_again_without_waiting",
)
mutant(
    "each_waits_for_a_locked_table",
    "Operations wait the whole time each while nothing can be charged.",
    code("gateway_project.db.group_commit:GroupCommit._give_up", "self._refuse_all(error.__cause__)", "pass"),
    f"{GROUP}::test_all_are_refused_without_a_batch_until_a_probe_succeeds",
)
mutant(
    "a_probe_alone_opens_the_circuit",
    "One probe that fails makes an outage of a busy host, although statements are answered.",
    code("gateway_project.db.circuit_breaker:CircuitBreaker._is_outage", "self._failed + stalled > self._answered", "True"),
    "gateway_project/db/test_circuit_breaker.py"
    "::test_a_probe_that_fails_while_most_statements_are_answered_opens_nothing_and_cuts_nobody_off",
)
mutant(
    "a_circuit_that_opens_cuts_off_what_works",
    "When the circuit opens, connections are cut off that had an answer while the probe ran.",
    code("gateway_project.db.circuit_breaker:CircuitBreaker._probe_until_answered", "if sent_at < began_at", ""),
    "gateway_project/db/test_circuit_breaker.py::test_only_a_connection_that_had_no_answer_since_the_probe_began_is_cut_off",
)
mutant(
    "each_waits_for_a_locked_row",
    "Callers that come one after another wait the whole time each for an account that stays locked.",
    code("gateway_project.db.group_commit:GroupCommit._enter", "if self._refused_until and", "if False and"),
    f"{GROUP}::test_a_partition_that_stayed_locked_is_refused_at_once_for_a_time",
)
mutant(
    "check_then_act",
    "The balance that is decided on was read before the lock was granted.",
    code(
        "billing.locks:lock_account",
        "return Account",
        "seen = Account.objects.get(pk=account_id)\n        Account",
        "no_key=True).get(pk=account_id)",
        "no_key=True).get(pk=account_id)\n        return seen",
    ),
    f"{LOAD}::test_placing_a_hold_waits_for_concurrent_holds_and_counts_them",
)

# --- One batch ---------------------------------------------------------------------------------------------------------

mutant(
    "a_batch_forgets_what_it_held",
    "Each admission of a batch sees the balance from before the batch.",
    code("billing.ledger.holds:place", "account.held_nanos += amount_nanos", "pass"),
    f"{BATCH}::test_a_batch_admits_as_many_requests_as_the_money_covers[balance]",
    dangerous=True,
)
mutant(
    "a_batch_forgets_what_a_key_held",
    "Each admission of a batch sees the spending from before the batch.",
    code("completions.charging.batch:LockedRows.begin", "window.held_nanos += amount_nanos + provider_nanos", "pass"),
    f"{BATCH}::test_a_batch_admits_as_many_requests_as_the_money_covers[limit]",
)
mutant(
    "requests_are_not_counted",
    "No request counts against the requests per minute.",
    code("keys.limits.rate_limits:CountedRequest.apply", "if self.requests:", "if False:"),
    f"{BATCH}::test_a_batch_admits_as_many_requests_as_the_rate_limit_allows",
)
mutant(
    "admissions_are_applied_first",
    "A batch applies its admissions before its settlements.",
    code("completions.charging.batch:_run_on", "in settlements + admissions", "in admissions + settlements"),
    f"{BATCH}::test_an_admission_can_hold_what_a_settlement_of_its_batch_frees[balance]",
)
mutant(
    "a_batch_forgets_what_was_given_back",
    "An admission does not see what a settlement of its batch frees of the spending limit.",
    code(
        "keys.limits.spending:SpendingWindow.settle",
        "self.held_nanos -= change.held_nanos + change.provider_held_nanos",
        "pass",
    ),
    f"{BATCH}::test_an_admission_can_hold_what_a_settlement_of_its_batch_frees[limit]",
)
mutant(
    "a_batch_forgets_what_was_spent",
    "An admission does not see what a settlement of its batch spent of the spending limit.",
    code(
        "keys.limits.spending:SpendingWindow.settle",
        "self.spent_nanos += change.spent_nanos + change.provider_spent_nanos",
        "pass",
    ),
    f"{BATCH}::test_an_admission_cannot_hold_what_a_settlement_of_its_batch_spent[limit]",
)
mutant(
    "one_poisoned_item_poisons_all",
    "When a batch fails, every operation in it fails.",
    code("gateway_project.db.group_commit:GroupCommit._commit", "self._commit([ticket], run)", "ticket.outcome = error"),
    "gateway_project/db/test_group_commit.py::test_a_faulty_item_fails_alone",
)
mutant(
    "a_lost_commit_is_taken_for_none",
    "A request that was admitted by a commit whose answer was lost is admitted again.",
    code("completions.charging.admission:AdmissionRequest.apply", "if self.completion_id in rows.holds:", "if False:"),
    f"{BATCH}::test_a_commit_whose_answer_is_lost_takes_effect_once[admission]",
)
mutant(
    "an_accounts_demand_about_data_is_not_read",
    "What an account demands about data holds for none of its requests.",
    code("completions.catalog.data_demands:in_force", '("account", account)', '("account", None)'),
    f"{DEMANDS}::test_each_demand_holds_for_itself",
    dangerous=True,
)
mutant(
    "what_is_unknown_is_taken_for_a_promise",
    "A route of which nothing is known gets data that nobody may train on.",
    code("completions.catalog.data_demands:Demand.unmet", "promise.trains is not False", "promise.trains is True"),
    f"{DEMANDS}::test_what_is_not_known_meets_no_demand[unknown1]",
    dangerous=True,
)
mutant(
    "a_retention_that_is_unknown_is_none",
    "A route that does not say how long it keeps data gets what nobody may keep.",
    code("completions.catalog.data_demands:Demand.unmet", "promise.retention_days != 0", "bool(promise.retention_days)"),
    f"{DEMANDS}::test_what_is_not_known_meets_no_demand[unknown0]",
    dangerous=True,
)
mutant(
    "demands_about_data_are_joined_by_or",
    "A route serves that meets one of several demands.",
    code("completions.catalog.data_demands:narrow", "not any(demand.unmet", "not all(demand.unmet"),
    f"{DEMANDS}::test_each_demand_holds_for_itself",
    dangerous=True,
)
mutant(
    "a_reply_is_kept_against_zdr",
    "The reply to a request that demands zdr is stored for retries.",
    code("completions.relay.running:Running.__post_init__", "not self.admitted.keeps_nothing", "True"),
    f"{DEMANDS}::test_with_zdr_the_reply_is_not_kept_for_retries",
    dangerous=True,
)
mutant(
    "a_lost_commit_is_not_looked_for",
    "A batch whose answer was lost is run again as if it were the first time.",
    code("gateway_project.db.group_commit:GroupCommit._rerun", "ticket.is_rerun = True", "pass"),
    "gateway_project/db/test_group_commit.py::test_a_batch_with_an_unknown_outcome_is_rerun_once",
    f"{BATCH}::test_a_commit_whose_answer_is_lost_takes_effect_once[admission]",
)
mutant(
    "a_lost_settlement_is_charged_again",
    "What was settled by a commit whose answer was lost is settled again.",
    code(
        "completions.charging.batch:_lock_and_read",
        "pipelined_transaction.instances(Hold, found_holds)",
        "{pk: Hold(reference=pk, account_id=hold.account_id, amount_nanos=hold.amount_nanos)"
        " for pk, hold in pipelined_transaction.instances(Hold, found_holds).items()}",
    ),
    f"{BATCH}::test_a_commit_whose_answer_is_lost_takes_effect_once[settlement]",
    dangerous=True,
)

# --- Holds -------------------------------------------------------------------------------------------------------------

LEDGER_MACHINE = LEDGER_STATE_MACHINE.removeprefix("tests/")
HOLDS = "billing/ledger/test_holds.py"
RELAY = "completions/relay/test_stream.py"
SWEEPER = "completions/test_tasks.py"

mutant(
    "held_money_is_available",
    "What running requests hold is available to others.",
    code("billing.models.accounts:Account.available_nanos", " - self.held_nanos", ""),
    f"{HOLDS}::test_the_whole_balance_can_be_held_to_the_nanodollar",
    LEDGER_MACHINE,
    "completions/charging/test_admission.py::test_affordable_max_tokens_exclude_what_running_requests_hold",
)
mutant(
    "one_nanodollar_too_much",
    "A hold may be a nanodollar larger than what is available.",
    code(
        "billing.ledger.holds:require_available",
        "account.available_nanos >= need_nanos",
        "account.available_nanos >= need_nanos - 1",
    ),
    f"{ADMISSION}::test_a_balance_one_nanodollar_short_is_refused",
    LEDGER_MACHINE,
    dangerous=True,
)
mutant(
    "settle_twice",
    "A hold is resolved whatever its state.",
    code("billing.ledger.holds:resolve", "hold.state != Hold.State.HELD", "False"),
    f"{HOLDS}::test_resolving_twice_changes_nothing[settle-settle]",
    LEDGER_MACHINE,
    f"{SWEEPER}::test_settling_twice_charges_once",
    f"{LOAD}::test_a_hold_resolved_concurrently_is_resolved_once",
    dangerous=True,
)
mutant(
    "release_whatever_the_state",
    "A hold is given back whatever its state.",
    code(
        "billing.ledger.holds:resolve",
        "hold.state != Hold.State.HELD",
        "hold.state != Hold.State.HELD and state != Hold.State.RELEASED",
    ),
    f"{HOLDS}::test_resolving_twice_changes_nothing[release-release]",
)
mutant(
    "release_after_settle",
    "A settled hold is given back.",
    code(
        "billing.ledger.holds:resolve",
        "hold.state != Hold.State.HELD",
        "hold.state != Hold.State.HELD and (hold.state, state) != (Hold.State.SETTLED, Hold.State.RELEASED)",
    ),
    f"{HOLDS}::test_resolving_twice_changes_nothing[settle-release]",
)
mutant(
    "settle_above_the_hold",
    "More is charged than was held.",
    code("billing.ledger.holds:resolve", "min(cost_nanos, hold.amount_nanos)", "cost_nanos"),
    f"{HOLDS}::test_no_more_is_settled_than_was_held",
    LEDGER_MACHINE,
    f"{RELAY}::test_usage_above_the_hold_charges_the_hold_and_counts_a_loss",
    dangerous=True,
)
mutant(
    "a_hold_is_never_given_back",
    "What a resolved hold held stays held.",
    code("billing.ledger.movements:_changes", "{held} - more.resolved_nanos", "{held}"),
    f"{HOLDS}::test_releasing_frees_the_hold_and_books_nothing[release-RELEASED]",
    LEDGER_MACHINE,
    f"{RELAY}::test_a_whole_reply_has_our_id_time_model_and_usage",
)
mutant(
    "the_remainder_is_not_returned",
    "What a settled hold held beyond the cost stays held.",
    code(
        "billing.ledger.movements:_writes",
        "= ended.reference\n            RETURNING account_id, amount_nanos",
        "= ended.reference RETURNING account_id, coalesce(billing_hold.settled_nanos, amount_nanos) AS amount_nanos",
    ),
    f"{HOLDS}::test_settling_charges_the_cost_and_frees_the_rest",
    LEDGER_MACHINE,
)
mutant(
    "a_key_keeps_its_hold",
    "What a resolved hold held of the key's spending limit stays held.",
    code(
        "keys.limits.spending:_settle_spending_statement",
        "keys_spendingday.held_nanos - change.held_nanos",
        "keys_spendingday.held_nanos",
    ),
    f"{RELAY}::test_a_whole_reply_has_our_id_time_model_and_usage",
)

# --- The ledger --------------------------------------------------------------------------------------------------------

LEDGER = "billing/ledger/test_writer.py"
CONSTRAINTS = "billing/test_constraints.py"
CONSISTENT_LEDGER = "billing/ledger/test_audit.py::test_a_consistent_ledger_has_no_violations"

mutant(
    "a_reference_is_not_unique",
    "The database takes two entries for one business fact.",
    without_unique("billing_ledgerentry", "reference"),
    f"{CONSTRAINTS}::test_a_reference_is_booked_once",
    dangerous=True,
)
mutant(
    "a_payment_is_booked_twice",
    "The same payment makes another entry each time.",
    code(
        "billing.ledger.writer:credit_purchase",
        "pay:{processor}:{payment_id}",
        "pay:{processor}:{payment_id}:{account.last_seq}",
    ),
    f"{LEDGER}::test_a_payment_is_booked_once_with_its_id",
    LEDGER_MACHINE,
    dangerous=True,
)
PAYMENTS = "billing/payments"
mutant(
    "a_payment_of_another_amount_is_credited",
    "What the processor reports is not compared with the amount of the payment.",
    code("billing.payments.booking:find_contradiction", "(payment.amount_cents, report.amount_cents)", "(0, 0)"),
    f"{PAYMENTS}/test_webhook.py::test_a_report_that_contradicts_the_payment_is_refused_and_kept"
    "[amount_total-2001-the amount in cents is 2000, and was reported as 2001]",
)
mutant(
    "more_is_taken_back_than_was_paid",
    "A refund and a dispute of one payment are both booked whole.",
    code(
        "billing.payments.booking:_taken_back_cents",
        "min(payment.refunded_cents + payment.disputed_cents, payment.amount_cents)",
        "payment.refunded_cents + payment.disputed_cents",
    ),
    f"{PAYMENTS}/test_webhook.py::test_a_refund_and_a_dispute_together_never_take_back_more_than_was_paid",
)
mutant(
    "an_older_report_is_booked",
    "A report that was fetched before another was booked is booked over it.",
    code("billing.payments.booking:book", "locked.revision != payment.revision", "False"),
    f"{PAYMENTS}/test_orders.py::test_an_older_report_is_not_booked_over_a_newer_one",
)
mutant(
    "a_page_is_not_compared_with_its_payment",
    "A page is believed, though the payment that it leads to is of another amount.",
    code("billing.payments.stripe_processor:_session_contradiction", "(session.amount_total, intent.amount)", "(0, 0)"),
    f"{PAYMENTS}/test_webhook.py::test_the_reason_of_a_refusal_is_on_the_desk",
)
mutant(
    "an_event_of_the_future_is_handled",
    "A signature may be of any time to come.",
    code("billing.payments.processor:require_recent", "int(each) > time.time() + SIGNATURE_AGE_SECONDS_MAX", "False"),
    f"{PAYMENTS}/test_webhook.py::test_an_event_with_a_wrong_signature_or_time_is_refused_without_a_query[of the future]",
)
mutant(
    "an_ordered_transfer_is_credited",
    "A page that is complete counts as paid, though the bank has not confirmed the transfer.",
    code(
        "billing.payments.stripe_processor:_session_status", 'session.payment_status == "paid"', 'session.status == "complete"'
    ),
    f"{PAYMENTS}/test_webhook.py::test_a_transfer_is_credited_when_the_bank_confirms_it",
)
mutant(
    "a_webhook_without_a_secret_is_open",
    "Events are handled although no secret is set.",
    code("billing.payments.webhook:_processor", "not configured.webhook_secret", "False"),
    f"{PAYMENTS}/test_webhook.py::test_without_a_secret_the_webhook_refuses_every_event_even_one_signed_with_nothing",
    dangerous=True,
)
mutant(
    "a_lost_card_is_charged_again",
    "An automatic top-up goes on after a hard decline.",
    code("billing.payments.top_ups:_count_decline", "declined.is_final", "False"),
    f"{PAYMENTS}/test_top_ups.py::test_after_a_hard_decline_there_is_no_further_attempt_until_a_member_pays[lost]",
)
mutant(
    "a_removed_members_card_is_charged",
    "Automatic top-ups go on with the card of someone who left the account.",
    code("billing.payments.stops:_cause", "~Q(Exists(may_pay))", "Q(pk__isnull=True)"),
    f"{PAYMENTS}/test_top_ups.py::test_the_card_of_who_may_not_pay_any_more_is_not_charged_though_another_changed_the_amounts[removed]",
)
mutant(
    "a_disputed_card_is_charged_on",
    "Automatic top-ups go on after a dispute, though no member has paid since.",
    code("billing.payments.stops:_cause", "Q(Exists(disputed_since))", "Q(pk__isnull=True)"),
    f"{PAYMENTS}/test_top_ups.py::test_an_account_that_disputes_a_payment_is_not_charged",
)
mutant(
    "a_lost_charge_is_made_after_the_top_up_was_turned_off",
    "A charge that the processor never heard of is asked for again, although the card may not be charged any more.",
    code("billing.payments.top_ups:_attempt", " and _is_allowed(rule, processor)", ""),
    f"{PAYMENTS}/test_top_ups.py::test_a_charge_that_the_processor_never_heard_of_is_not_made_once_it_may_not_be[turn_off]",
)
mutant(
    "a_month_has_no_ceiling",
    "Automatic top-ups ignore what was bought in the month.",
    code("billing.payments.stops:_cause", 'month_left_cents__lt=F("amount_cents")', "pk__isnull=True"),
    f"{PAYMENTS}/test_top_ups.py::test_a_month_has_a_ceiling",
)
mutant(
    "a_reference_is_reused",
    "A reference that names something else is taken for the same.",
    code(
        "billing.ledger.writer:_book",
        "!= (account.pk, type, amount_nanos)",
        "!= (account.pk, type, booked.amount_nanos)",
    ),
    f"{LEDGER}::test_a_reference_cannot_be_reused_for_something_else[bob-501]",
)
mutant(
    "a_refund_exceeds_its_credit",
    "More can be taken back of a credit than it was.",
    without_trigger("billing_ledgerentry", "refunds_fit_their_credit"),
    "billing/test_constraints.py::test_refunds_fit_their_credit[a nanodollar more]",
)
mutant(
    "support_credit_is_paid_out",
    "Closing an account pays out unused support credit, too.",
    code("billing.desk.money_acts:CloseWithRefund.payouts", " if credit.is_purchase", ""),
    "pages/test_account_page.py::test_an_account_is_closed_with_a_refund_of_what_is_unused_of_its_purchases",
)
mutant(
    "usage_takes_the_newest_credit_first",
    "Credits are used last in, first out.",
    code("billing.ledger.credits:unused_parts", "reversed(credited_nanos)", "credited_nanos", "parts[::-1]", "parts"),
    "billing/ledger/test_credits.py::test_unused_parts_are_what_is_left_when_usage_takes_the_oldest_credits_first",
)
mutant(
    "a_raise_of_a_limit_never_ends",
    "A spending limit that was raised for a time stays raised.",
    code("keys.limits.spending:select_spending_statement", "raised_until > statement_timestamp()", "raised_until IS NOT NULL"),
    "keys/limits/test_spending.py::test_a_raise_is_the_limit_until_its_moment_and_ends_by_itself",
)
mutant(
    "entries_can_be_changed",
    "The database lets entries be changed and deleted.",
    without_trigger("billing_ledgerentry", "entries_are_never_changed"),
    f"{CONSTRAINTS}::test_entries_are_never_changed",
    f"{CONSTRAINTS}::test_entries_are_never_changed_by_deleting_them",
    CONSISTENT_LEDGER,  # the audit also checks that the guards exist
    dangerous=True,
)
mutant(
    "entries_can_be_truncated",
    "The database allows TRUNCATE of the ledger.",
    without_trigger("billing_ledgerentry", "entries_are_never_truncated"),
    CONSISTENT_LEDGER,
)
mutant(
    "entries_need_not_follow_each_other",
    "The database takes entries that do not chain.",
    without_trigger("billing_ledgerentry", "entries_follow_each_other"),
    f"{CONSTRAINTS}::test_entries_follow_each_other_without_gaps[3]",
    f"{CONSTRAINTS}::test_entries_follow_each_other_in_their_balance",
    CONSISTENT_LEDGER,
)
mutant(
    "a_root_forgets_the_one_before",
    "A signed root does not name the one before it, which could be replaced.",
    code("billing.proof.roots:_sign", "if last.number else", "if last.number > 1 else"),
    "billing/proof/test_roots.py::test_a_root_is_signed_once_an_hour_and_names_the_one_before",
)
mutant(
    "a_proof_is_of_the_latest_head",
    "A proof for an older root has the account's last entry of now.",
    code("billing.proof.inclusion:find", "root__lte=root.number", "root__gt=0"),
    "billing/proof/test_roots.py::test_each_root_includes_every_account_as_it_was",
)
mutant(
    "a_changed_part_is_not_summed_up",
    "A root has the former hash of the last part in which something was booked.",
    code("billing.proof.roots:_join_parts", "sorted(changed)", "sorted(changed)[:-1] or [0]"),
    "billing/proof/test_roots.py::test_each_root_includes_every_account_as_it_was",
)
mutant(
    "a_balance_need_not_be_booked",
    "The database accepts a balance that differs from the ledger.",
    without_trigger("billing_account", "accounts_agree_with_their_book"),
    f"{CONSTRAINTS}::test_accounts_agree_with_their_book",
    dangerous=True,
)
mutant(
    "a_resolved_hold_can_be_changed",
    "The database lets a hold be resolved again.",
    without_trigger("billing_hold", "holds_resolve_once"),
    f"{CONSTRAINTS}::test_holds_resolve_once[release]",
)
for question, broken_by in {
    "seq_has_no_gaps": "skip_a_seq",
    "balances_chain": "miscount_in_the_middle",
    "open_holds_sum_to_what_is_held": "hold_more_than_the_holds",
    "settled_holds_are_debited": "settle_without_a_debit",
    "entries_have_a_source": "credit_without_a_source",
}.items():
    mutant(
        f"nobody_asks_whether_{question}",
        "verify_ledger is blind in one eye.",
        code(
            "billing.ledger.audit:_covered",
            "if scope.covers(each)",
            f"if scope.covers(each) and each.name != {question!r}",
        ),
        f"billing/ledger/test_audit.py::test_one_account_can_be_checked[{broken_by}]",
    )
for table, trigger in (
    ("completions_price", "prices_are_never_changed"),
    ("completions_completion", "charges_are_never_changed"),
):
    mutant(
        f"without_{trigger}",
        "A price, or what was charged, can be changed afterwards.",
        without_trigger(table, trigger),
        "keys/test_audit.py::test_a_price_and_what_was_charged_are_never_changed",
    )
SIGNED_DAYS = "billing/ledger/test_signed_days.py::test_"
mutant(
    "the_nightly_audit_leaves_a_day_out",
    "The nightly audit reads nothing after the last signed day.",
    code("billing.ledger.signed_days:_verify_since_signed", "Scope(since=last + _DAY)", "Scope(since=last, until=last + _DAY)"),
    f"{SIGNED_DAYS}what_is_booked_after_a_signed_day_is_checked",
    dangerous=True,
)
mutant(
    "a_day_is_signed_with_its_violations",
    "The nightly audit signs off what it found to be untrue, and never looks at it again.",
    code("billing.ledger.signed_days:_sign_if_consistent", "if not any(", "if True or any("),
    f"{SIGNED_DAYS}a_day_with_a_violation_is_not_signed_and_found_again",
    dangerous=True,
)
mutant(
    "counted_changes_are_ignored",
    "Entries that are changed with triggers disabled are not looked for at once.",
    code("billing.ledger.signed_days:_verify_since_signed", "rows_changed > rows_changed_before", "False"),
    f"{SIGNED_DAYS}updates_that_postgresql_counted_have_everything_checked",
)
ARCHIVE = "completions/retention/test_archive.py::test_"
mutant(
    "details_are_deleted_whatever_the_file_has",
    "Completions are deleted although their file is damaged.",
    code("completions.retention.archive:_archive", "files.verify(file)", "pass"),
    f"{ARCHIVE}nothing_is_deleted_while_the_file_is_not_what_was_written",
    dangerous=True,
)
mutant(
    "details_are_archived_that_replies_need",
    "Completions are archived although stored replies refer to them.",
    code("completions.retention.archive:_next_due", " or _is_needed(day)", ""),
    f"{ARCHIVE}replies_that_are_stored_keep_the_day",
)
mutant(
    "cents_are_truncated",
    "A balance below zero is shown in cents rounded towards zero.",
    code(
        "billing.money:floor_cents",
        "balance_nanos // NANOS_PER_CENT",
        "abs(balance_nanos) // NANOS_PER_CENT * (-1 if balance_nanos < 0 else 1)",
    ),
    "billing/test_money.py::test_below_zero_the_floor_is_towards_minus_infinity",
)
mutant(
    "cents_are_rounded_for_each_entry",
    "An entry's cents are rounded from its own amount, so that the cents of a ledger do not add up.",
    code(
        "billing.money:entry_cents",
        "floor_cents(balance_after_nanos) - floor_cents(balance_after_nanos - amount_nanos)",
        "floor_cents(amount_nanos)",
    ),
    "billing/test_money.py::test_the_cents_of_a_ledger_add_up_and_chain",
    "billing/test_views.py::test_the_first_tiny_debit_shows_a_cent_and_the_next_none",
)
mutant(
    "parts_are_rounded_each_by_itself",
    "The parts of a sum are rounded on pages without regard to the sum.",
    code("gateway_project.text.dollars:apportion", "[: whole - sum(quotients)]", "[:0]"),
    "gateway_project/text/test_dollars.py::test_parts_add_up_however_many_there_are",
)
mutant(
    "the_smallest_remainders_are_rounded_up",
    "Of the parts of a sum those are rounded up that are nearest to the number below.",
    code("gateway_project.text.dollars:apportion", "-(parts[place] % divisor)", "parts[place] % divisor"),
    "gateway_project/text/test_dollars.py::test_the_parts_of_a_sum_add_up_as_they_are_shown[parts0-shown0]",
)
mutant(
    "entries_are_rounded_each_by_itself",
    "The amount of an entry is rounded on pages without regard to the balances around it.",
    code(
        "gateway_project.text.dollars:show_entry",
        "shown = format_usd((after - before) * step_nanos, decimals_shown)",
        "shown = show(amount_nanos, decimals_shown).shown",
    ),
    "gateway_project/text/test_dollars.py::test_entries_and_balances_follow_each_other_as_they_are_shown",
)

# --- Prices ------------------------------------------------------------------------------------------------------------

PRICING = "completions/test_estimates.py"
HOUR = "completions/pricing/test_hour_cache.py"
SEARCHES = "completions/pricing/test_web_searches.py"
REPORTED = "completions/providers/test_reported_usage.py"
SERVICE_TIERS = "completions/pricing/test_service_tiers.py"
ROTATION = "keys/test_rotation.py"
MESSAGES = "completions/inbound/messages/test_views.py"
OWN_TOOLS = "completions/inbound/messages/test_own_tools.py"
MESSAGE_FIELDS = "completions/inbound/messages/test_request.py"
RESPONSE_FIELDS = "completions/inbound/responses/test_request.py"
REPLIES = "completions/relay/test_reply_format.py"
OWN_KEYS = "completions/relay/test_own_keys.py"
COUNTED_PRICES = "completions/charging/test_counted_prices.py"

mutant(
    "floats",
    "A cost is reckoned in floating point.",
    code(
        "billing.money:round_up",
        "-(-price_times_tokens * basis_points // (TOKENS_PER_PRICE * WHOLE))",
        "__import__('math').ceil(price_times_tokens * basis_points / (TOKENS_PER_PRICE * WHOLE))",
    ),
    "billing/test_money.py::test_a_charge_is_rounded_up_to_the_next_nanodollar_and_never_further",
)
mutant(
    "floats_of_dollars",
    "A cost is reckoned in dollars, in floating point.",
    code(
        "billing.money:round_up",
        "-(-price_times_tokens * basis_points // (TOKENS_PER_PRICE * WHOLE))",
        "__import__('math').ceil(price_times_tokens * basis_points / 1e19 * 1e9)",
    ),
    f"{RELAY}::test_cached_tokens_have_their_own_price_within_the_prompt[9-9-32700]",
)
mutant(
    "rounded_down",
    "A cost is rounded down to the nanodollar.",
    code(
        "billing.money:round_up",
        "-(-price_times_tokens * basis_points // (TOKENS_PER_PRICE * WHOLE))",
        "price_times_tokens * basis_points // (TOKENS_PER_PRICE * WHOLE)",
    ),
    f"{PRICING}::test_a_cost_is_exact_and_rounded_up_once",
)
mutant(
    "an_own_key_costs_the_full_price",
    "A reply to an account's own key is charged like one to ours.",
    code("completions.charging.own_keys:divided", "offer.price.share(fee)", "offer.price"),
    f"{OWN_KEYS}::test_an_own_key_serves_for_the_fee_to_the_nanodollar",
)
mutant(
    "a_dead_process_charges_an_own_key_in_full",
    "The sweeper charges what an own key served at the full price.",
    code("completions.models.record:Completion.sheet", "self.own_key_fee is None", "True"),
    f"{OWN_KEYS}::test_a_process_that_dies_leaves_the_fee_to_be_charged",
    dangerous=True,
)
mutant(
    "ours_is_paid_without_permission",
    "Where an own key fails, ours serves at the full price, although the owner did not allow it.",
    code("completions.charging.own_keys:divided", "        if may_pay:", "        if True:"),
    f"{OWN_KEYS}::test_a_refused_own_key_fails_the_request_and_ours_is_not_asked",
    dangerous=True,
)
mutant(
    "a_limit_counts_no_price_of_a_provider",
    "A spending limit asks for the fee alone, although the owner chose that it counts the provider's price.",
    code("completions.charging.own_keys:counted", "money.WHOLE + offer.own_key_fee", "offer.own_key_fee"),
    f"{COUNTED_PRICES}::test_a_limit_is_refused_by_fee_and_price_to_the_token_and_a_change_holds_from_the_next_request_on",
    dangerous=True,
)
mutant(
    "a_providers_price_counts_beyond_its_hold",
    "More of a provider's price counts than was held, and a run exceeds its budget.",
    code(
        "completions.charging.resolution:Resolution._spending_change",
        "min(self.provider_nanos, hold.amount_nanos + provider_held_nanos - (hold.settled_nanos or 0))",
        "self.provider_nanos",
    ),
    f"{COUNTED_PRICES}::test_of_a_price_above_its_hold_no_more_counts_than_was_held",
    dangerous=True,
)
mutant(
    "a_fallback_counts_more_than_was_asked_for",
    "A fallback is admitted though limits do not pay for its provider's price.",
    code("completions.charging.admission:_admitted_offers", "    if counted:", "    if False:"),
    f"{COUNTED_PRICES}::test_a_fallback_is_admitted_only_where_the_limit_pays_for_its_price[1000-asked0]",
)
mutant(
    "a_correction_counts_a_price_twice",
    "A correction counts the whole price of a provider, of which the sweeper's estimate has counted a part.",
    code("completions.charging.recovery.corrections:_correction", "- (swept.provider_nanos or 0)", "- 0"),
    f"{COUNTED_PRICES}::test_a_late_settlement_counts_what_is_missing_and_takes_nothing_back[too low]",
)
mutant(
    "a_correction_exceeds_its_run_with_a_providers_price",
    "A completion that is admitted unasked holds a provider's price beyond the budget of its run.",
    code(
        "completions.charging.batch:LockedRows.within_run",
        "min(completion.provider_held_nanos, run.available_nanos - amount_nanos)",
        "completion.provider_held_nanos",
    ),
    f"{COUNTED_PRICES}::test_a_correction_counts_no_more_than_its_run_has_left",
    dangerous=True,
)
mutant(
    "a_forgotten_run_has_no_budget",
    "Admissions that a crash forgot with their run are admitted again beyond its budget, which the database refuses for ever.",
    code("completions.charging.batch:LockedRows.within_run", "completion.run_budget_nanos or 0", "10**15"),
    f"{COUNTED_PRICES}::test_forgotten_admissions_of_a_forgotten_run_stay_within_its_budget_together[own key]",
    f"{COUNTED_PRICES}::test_forgotten_admissions_of_a_forgotten_run_stay_within_its_budget_together[ours]",
    dangerous=True,
)
mutant(
    "a_correction_counts_more_than_was_held",
    "A correction counts a provider's price above the hold, and a limit is exceeded.",
    code(
        "completions.charging.recovery.corrections:_correction", "min(provider_nanos or 0, left_nanos)", "provider_nanos or 0"
    ),
    f"{COUNTED_PRICES}::test_a_correction_counts_no_more_than_was_held[expired]",
)
mutant(
    "an_own_key_opens_circuits",
    "What fails with an account's own key counts against the route with ours.",
    code("completions.relay.route_health:record_failure", "if route.own_key_id:", "if False:"),
    f"{OWN_KEYS}::test_failing_own_keys_open_no_circuit_and_refuse_no_key_of_ours",
)
mutant(
    "cached_tokens_are_charged_twice",
    "Cached tokens cost the price of cached tokens, and that of the prompt as well.",
    code("completions.pricing.rates:_Band.__init__", "(self.nanos[meter.part_of] if meter.part_of else 0)", "0"),
    f"{PRICING}::test_a_cost_is_exact_and_rounded_up_once",
    f"{RELAY}::test_cached_tokens_have_their_own_price_within_the_prompt[9-9-32700]",
)
mutant(
    "a_long_prompt_costs_what_a_short_one_does",
    "A prompt above the threshold of a price is charged at the rates of short ones.",
    code("completions.pricing.rates:RateSheet._band", "prompt_tokens > band.above or", "False or"),
    f"{PRICING}::test_a_prompt_above_the_threshold_is_charged_whole_at_the_rates_of_its_length[usage0]",
    dangerous=True,
)
mutant(
    "a_threshold_is_above_itself",
    "A prompt of just the threshold is charged as a long one.",
    code("completions.pricing.rates:RateSheet._band", "prompt_tokens > band.above", "prompt_tokens >= band.above"),
    f"{PRICING}::test_a_prompt_of_just_the_threshold_is_charged_as_a_short_one",
)
mutant(
    "an_hour_costs_five_minutes",
    "What a cache keeps for an hour is charged as if it were five minutes.",
    code(
        "completions.pricing.rates:_resolve", "meters.lineage(meter)", "meters.lineage(meter)[meter.name == 'cache_write_1h' :]"
    ),
    f"{HOUR}::test_an_hour_is_charged_apart_from_five_minutes[whole]",
)
mutant(
    "an_hour_is_held_as_five_minutes",
    "The hold of a request for an hour in the cache is that of five minutes.",
    code("completions.pricing.rates:_dearest", "has_hour_cache or", "False or"),
    f"{HOUR}::test_the_hold_is_for_the_whole_prompt_at_the_dearest_price_that_was_asked_for[an hour]",
)
mutant(
    "an_hour_needs_no_price",
    "An hour in the cache may be asked for of a model that has no price for it.",
    code("completions.catalog.eligibility:_require_capabilities", 'not price.offers("cache_write_1h", request.tier)', "False"),
    f"{HOUR}::test_without_a_price_an_hour_is_refused_by_name[in a message]",
    f"{HOUR}::test_a_fallback_without_a_price_is_not_asked",
    dangerous=True,
)
mutant(
    "a_search_is_free",
    "A search of the web by the provider is not charged.",
    code(
        "completions.pricing.rates:_multiple",
        "money.TOKENS_PER_PRICE //",
        "(meter.name != 'web_search') * money.TOKENS_PER_PRICE //",
    ),
    f"{SEARCHES}::test_each_search_is_charged_as_the_provider_reports[1-whole]",
    f"{SEARCHES}::test_each_search_is_charged_as_the_provider_reports[1-streamed]",
    dangerous=True,
)
mutant(
    "a_failed_search_is_charged",
    "A search of the web that failed is charged, where the provider counts it.",
    code("completions.providers.reported_usage:Report._paid_searches", "if self.failures", "if False"),
    f"{SEARCHES}::test_a_search_that_failed_costs_nothing[counted alone-whole]",
    f"{SEARCHES}::test_a_search_that_failed_costs_nothing[counted alone-streamed]",
)
mutant(
    "a_search_that_nobody_asked_for_is_charged",
    "A provider may search the web unasked, at the caller's expense.",
    code("completions.providers.reported_usage:Report._paid_searches", "min(number, self.searches_max)", "number"),
    f"{SEARCHES}::test_searches_that_nobody_asked_for_are_the_operators_loss[/v1/messages-whole]",
)
mutant(
    "reasoning_beside_the_completion_is_free",
    "What only the total has of a reply is not charged.",
    code("completions.providers.reported_usage:Report._interpreted", "if total else stated", "if False else stated"),
    f"{REPORTED}::test_callers_of_messages_and_responses_pay_the_same[reasoning beside-/v1/messages-whole]",
    f"{REPORTED}::test_callers_of_messages_and_responses_pay_the_same[thoughts in the total alone-/v1/messages-whole]",
    dangerous=True,
)
mutant(
    "a_total_of_earlier_counts_is_charged",
    "The total that a stream reported at first decides, although its counts have changed.",
    code("completions.providers.reported_usage:Report.note", "elif has_changed", "elif False"),
    f"{REPORTED}::test_the_last_number_that_is_news_is_charged[a total that is not told again]",
)
mutant(
    "a_zero_is_news",
    "A zero that is repeated at the end of a stream makes free what was counted before.",
    code("completions.providers.reported_usage:Report.note", "known != _IMPOSSIBLE or number is None", "number is None"),
    f"{REPORTED}::test_the_last_number_that_is_news_is_charged[zeros at the end]",
    f"{REPORTED}::test_zeros_and_nulls_of_a_message_make_nothing_free[zeros-/v1/messages]",
    dangerous=True,
)
mutant(
    "thoughts_of_an_earlier_event_are_free",
    "Thoughts of which Gemini tells in the middle of a stream are not charged where the last total lacks them.",
    code("completions.providers.reported_usage:Report._is_reasoning_beside", "or self.is_total_apart and", "or False and"),
    f"{REPORTED}::test_gemini_is_charged_the_last_number_of_each_count[thoughts in the middle, no total]",
)
mutant(
    "searches_are_not_held_for",
    "The hold of a request that may search the web is for one reading of its prompt.",
    code("completions.estimates:max_prompt_tokens", "(1 + request.web_searches_max)", "1"),
    f"{SEARCHES}::test_the_hold_is_for_every_search_and_a_whole_context_window_after_each",
)
mutant(
    "a_search_needs_no_price",
    "A search of the web may be asked for of a model that has no price for it.",
    code("completions.catalog.eligibility:_require_capabilities", 'not price.offers("web_search", request.tier)', "False"),
    f"{SEARCHES}::test_without_a_price_a_search_is_refused_by_name",
    f"{SEARCHES}::test_a_fallback_without_a_price_is_not_asked",
    dangerous=True,
)
mutant(
    "a_tier_needs_no_price",
    "A service tier may be asked for of a model that has no prices for it.",
    code("completions.catalog.eligibility:_require_capabilities", "request.tier not in price.tiers", "False"),
    f"{SERVICE_TIERS}::test_without_prices_a_tier_is_refused_by_name[priority]",
    dangerous=True,
)
mutant(
    "a_tier_is_held_at_the_usual_price",
    "The hold of a request for a dearer tier is that of the usual prices.",
    code("completions.pricing.rates:RateSheet.held", "served in (STANDARD, tier)", "served == STANDARD"),
    f"{SERVICE_TIERS}::test_the_tier_that_served_is_charged[chat-whole-asked priority, no word]",
)
mutant(
    "an_unasked_tier_is_not_held",
    "The hold of a request that leaves the service tier to the provider is that of the usual prices.",
    code("completions.pricing.rates:RateSheet.held", "tier is None", "False"),
    f"{SERVICE_TIERS}::test_the_tier_that_served_is_charged[chat-whole-unasked, served priority]",
)
mutant(
    "a_tier_that_was_not_used_is_charged",
    "The tier that was asked for is charged, whatever the provider says that it served.",
    code("completions.providers.reported_usage:Report.note_tier", "if not isinstance(", "if self.tier or not isinstance("),
    f"{SERVICE_TIERS}::test_the_tier_that_served_is_charged[chat-whole-asked priority, served flex]",
    f"{SERVICE_TIERS}::test_the_tier_that_served_is_charged[responses-streamed-asked flex, served priority]",
    dangerous=True,
)
mutant(
    "a_tier_without_rates_is_charged",
    "A completion names a service tier that its price has no rates for.",
    code("completions.providers.served_tiers:read", "if tier in tiers and tier in rated", "if tier in tiers"),
    f"{SERVICE_TIERS}::test_a_tier_without_rates_is_charged_at_the_standard_ones_and_noted[one of ours]",
    dangerous=True,
)
mutant(
    "a_tier_without_rates_is_not_noted",
    "Nothing tells that a provider serves a service tier without rates.",
    code("completions.relay.charge:settle", "if call.head.unrated_tier:", "if False:"),
    f"{SERVICE_TIERS}::test_a_tier_without_rates_is_charged_at_the_standard_ones_and_noted[one of ours]",
)
mutant(
    "reasoning_is_charged_twice",
    "Reasoning tokens, which are part of the completion, are charged beside it.",
    code(
        "completions.pricing.rates:RateSheet.cost_nanos",
        "money.round_up(",
        "money.round_up(usage.reasoning_tokens * self.rate('output') + ",
    ),
    f"{RELAY}::test_reasoning_tokens_are_reported_and_not_charged_twice",
)
mutant(
    "a_reply_tells_more_than_was_held",
    "The cost in a reply is not capped like its charge.",
    code(
        "completions.charging.admission:Admitted.charge_nanos",
        "min(self.completion.due_nanos(cost_nanos), self.held_nanos)",
        "self.completion.due_nanos(cost_nanos)",
    ),
    f"{REPLIES}::test_a_reply_that_costs_more_than_was_held_tells_what_was_held[whole]",
    f"{REPLIES}::test_a_reply_that_costs_more_than_was_held_tells_what_was_held[streamed]",
)
mutant(
    "a_run_after_a_death_tells_its_whole_cost",
    "The cost in a reply includes what the runs before were charged.",
    code("completions.charging.admission:Admitted.charge_nanos", "self.completion.due_nanos(cost_nanos)", "cost_nanos"),
    f"{REPLIES}::test_a_run_after_a_death_tells_only_the_difference_that_it_is_charged",
)
mutant(
    "a_reply_tells_a_cost_that_nobody_charged",
    "A whole reply tells its cost although its settlement is not committed.",
    code("completions.relay.whole:relay", "running.charged_nanos != expected_nanos", "False"),
    f"{REPLIES}::test_a_whole_reply_that_the_sweeper_had_released_tells_no_cost",
)
mutant(
    "a_stream_tells_a_cost_that_nobody_charged",
    "A stream tells its cost although its settlement is not committed.",
    code("completions.relay.stream:_Progress.finish", "self.running.charged_nanos != expected_nanos", "False"),
    f"{REPLIES}::test_a_stream_that_the_sweeper_had_charged_tells_no_cost",
    f"{REPLIES}::test_a_stream_whose_charge_waits_for_the_database_tells_no_cost_and_its_repetition_does",
)
mutant(
    "boundless_usage",
    "An upstream that reports more tokens than a reply can have is believed.",
    code("completions.providers.wire:token_count", "<= TOKENS_MAX", "<= TOKENS_MAX**2"),
    f"{RELAY}::test_impossible_usage_is_replaced_by_an_estimate[a million millions]",
)
mutant(
    "the_price_of_today",
    "A completion costs what its model costs when it ends, not what it cost when it was admitted.",
    code(
        "completions.relay.charge:settle",
        "call.offer.price.cost_nanos(",
        "__import__('completions.models').models.Price.objects.latest('pk').sheet.cost_nanos(",
    ),
    f"{RELAY}::test_a_price_change_does_not_affect_a_running_completion",
)
mutant(
    "a_recovered_completion_costs_the_price_of_today",
    "What the sweeper recovers costs what its model costs then.",
    code(
        "completions.charging.recovery.sweeper:resolve",
        "completion.sheet",
        "__import__('completions.catalog.lookup').catalog.lookup.find_offer(completion.model_id).price",
    ),
    "completions/charging/recovery/test_checkpoints.py::test_a_recovered_completion_is_charged_at_its_admitted_price",
)

# --- Warnings ---------------------------------------------------------------------------------------------------------

CROSSINGS = "billing/ledger/test_crossings.py"
LIMIT_MARKS = "keys/limits/test_limit_marks.py"
REACHED = "keys/refusal_history/test_reached.py"

mutant(
    "a_low_balance_is_told_with_every_entry",
    "Each entry that leaves the balance below its threshold is a warning.",
    code("billing.ledger.movements:find_crossing", " <= after_nanos - entry.amount_nanos", ""),
    f"{CROSSINGS}::test_a_balance_that_stays_low_is_told_once_and_again_after_it_was_not_low",
)
mutant(
    "a_balance_at_its_threshold_is_low",
    "A balance that is exactly at its threshold is told to be below it.",
    code(
        "billing.ledger.movements:find_crossing",
        "after_nanos < threshold_nanos <=",
        "after_nanos <= threshold_nanos <",
    ),
    f"{CROSSINGS}::test_a_new_account_is_warned_below_five_dollars",
)
mutant(
    "settlements_do_not_warn",
    "A settlement that takes the balance below its threshold writes no warning.",
    code("completions.charging.resolution:Resolution._add_writes", "writes.alerts_inserted.append(alert)", "pass"),
    "completions/charging/test_batch.py::test_settlements_at_once_tell_each_crossing_once",
)
mutant(
    "a_limit_of_running_requests_is_not_read",
    "A key that was given its limit while a request ran is not warned of when that request is settled.",
    code("completions.charging.batch:_lock_and_read", "limited_ids - spending_ids", "set()"),
    f"{LIMIT_MARKS}::test_a_limit_that_was_set_while_the_request_ran_counts",
)
mutant(
    "webhooks_reach_what_providers_may",
    "An owner's webhook is sent to private networks that are permitted for providers.",
    code("billing.alerts.sending:_send_webhook", "settings.PRIVATE_WEBHOOKS", "None"),
    "billing/alerts/test_sending.py::test_a_name_that_leads_to_a_private_address_is_not_connected_to",
)
mutant(
    "a_claim_keeps_nobody_away",
    "A delivery that is being sent is sent by another run, too.",
    code("billing.alerts.deliveries:_claim", "next_try_at=now + CLAIM_TIME", "next_try_at=now"),
    "billing/alerts/test_sending.py::test_a_claimed_delivery_is_claimed_by_no_other_run",
)
mutant(
    "a_key_is_told_again_in_its_window",
    "A key above a mark of its limit is told with every settlement.",
    code("keys.limits.limit_marks:find_passed", "spent_nanos - spent_before_nanos", "spent_nanos"),
    f"{LIMIT_MARKS}::test_another_limit_is_told_when_its_own_marks_are_passed[16-told4]",
)
mutant(
    "an_enormous_request_reaches_a_budget",
    "A request that needs more than is left tells that a limit or budget is reached, however little is spent.",
    code("keys.limits.allowance:Allowance.reached", "* NEAR_PERCENT", "* 0"),
    *(f"{REACHED}::test_an_enormous_request_is_told_from_80_percent_on[{source}]" for source in ("key", "run", "budget")),
)

# --- Limits ------------------------------------------------------------------------------------------------------------

SPENDING = "keys/limits/test_spending.py"
# A time zone in which it is another day than in UTC at the time of the test.
ELSEWHERE = "Etc/GMT-14" if datetime.now(UTC).hour >= 11 else "Etc/GMT+12"

mutant(
    "a_window_ignores_what_is_held",
    "What running requests hold of a spending limit is available to others.",
    code("keys.limits.spending:SpendingWindow.available_nanos", " - self.held_nanos", ""),
    f"{ADMISSION}::test_holds_count_against_the_spending_limit_to_the_nanodollar",
    f"{SPENDING}::test_reserved_money_is_neither_available_nor_spent",
)
mutant(
    "a_week_begins_on_sunday",
    "A WEEKLY limit counts from Sunday.",
    code(
        "keys.limits.spending:select_spending_statement",
        "END, statement_timestamp() AT TIME ZONE 'UTC')::date",
        "END, statement_timestamp() AT TIME ZONE 'UTC' + interval '1 day')::date - 1",
    ),
    f"{ADMISSION}::test_a_recurring_limit_counts_from_the_first_day_of_its_window[WEEKLY]",
)
mutant(
    "a_week_resets_on_sunday",
    "A WEEKLY limit is said to reset on Sunday.",
    code("keys.limits.spending:resets_at", ".days_max)", ".days_max - 1)"),
    f"{SPENDING}::test_a_week_is_from_monday_to_sunday[18]",
)
mutant(
    "days_of_another_place",
    "A spending limit counts the days of the server's own time zone.",
    code(
        "keys.limits.spending:select_spending_statement",
        "END, statement_timestamp() AT TIME ZONE 'UTC')::date",
        f"END, statement_timestamp() AT TIME ZONE '{ELSEWHERE}')::date",
    ),
    f"{ADMISSION}::test_a_recurring_limit_counts_from_the_first_day_of_its_window[DAILY]",
)
mutant(
    "spent_on_a_day_of_another_place",
    "A completion counts on the day that it is in the server's own time zone.",
    code(
        "completions.charging.admission:AdmissionRequest._record",
        "spending_day=now.date()",
        f"spending_day=now.astimezone(__import__('zoneinfo').ZoneInfo('{ELSEWHERE}')).date()",
    ),
    f"{ADMISSION}::test_a_completion_counts_on_the_utc_day_of_its_admission",
)
mutant(
    "limits_in_cents",
    "A spending limit is compared in whole cents.",
    code(
        "keys.limits.spending:require_available",
        "window.available_nanos >= need_nanos",
        "window.available_nanos // 10_000_000 >= need_nanos // 10_000_000",
    ),
    f"{ADMISSION}::test_a_spending_limit_is_exact_to_the_nanodollar[FIXED-None]",
)
mutant(
    "spent_on_the_day_it_ended",
    "A completion counts on the day of its settlement.",
    code(
        "completions.charging.resolution:Resolution._spending_change",
        "self.completion.spending_day",
        "__import__('django.utils.timezone', fromlist=['now']).now().date()",
    ),
    f"{SWEEPER}::test_a_hold_of_yesterday_is_released_on_yesterdays_row",
)
mutant(
    "one_request_too_many",
    "One request more than the limit passes in a minute.",
    code("keys.limits.gcra:decide", "wait <= timedelta(0)", "wait <= _unit(limit)"),
    f"{ADMISSION}::test_a_burst_admits_exactly_the_requests_per_minute[2]",
    "keys/limits/test_gcra.py::test_exactly_the_limit_passes_in_a_burst[60]",
)
mutant(
    "a_request_stays_in_flight",
    "A settlement leaves the request in the count of its key's day.",
    code("keys.limits.spending:_settle_spending_statement", "- change.holds", "- 0"),
    "keys/limits/test_requests_in_flight.py::test_one_request_more_than_the_maximum_is_refused_until_one_ends",
)
mutant(
    "an_account_counts_a_batch_as_one_request",
    "An account counts one request for all holds of a batch.",
    code("billing.ledger.movements:_write_sql", "count(*) FILTER", "count(DISTINCT kind) FILTER"),
    "billing/ledger/test_movements.py::test_an_account_counts_each_hold_of_a_batch",
)
mutant(
    "tokens_are_not_corrected",
    "The tokens per minute that a request was counted are not corrected by what it used.",
    code("completions.charging.resolution:Resolution.apply", "rate_limits.correct_token_count(", "("),
    f"{ADMISSION}::test_settlement_corrects_the_count_of_tokens",
)
mutant(
    "a_refusal_is_counted",
    "A request that is refused for lack of money is counted against the requests per minute.",
    code(
        "completions.charging.admission:AdmissionRequest.apply",
        "min_tokens = self._require_money",
        "count.apply(key)\n    rows.writes.rate_limits_updated[key.pk] = key\n    min_tokens = self._require_money",
    ),
    f"{ADMISSION}::test_an_unaffordable_request_does_not_count_against_the_rate_limits",
)
mutant(
    "a_paused_key_is_good",
    "A key that was paused after its identity was cached is admitted.",
    code("keys.authentication:require_active", "key.paused_at is not None", "False"),
    f"{ROTATION}::test_a_paused_key_is_refused_in_words_with_each_of_its_secrets_until_it_is_resumed",
)
mutant(
    "an_ended_secret_is_good",
    "A former secret works until its process forgets it.",
    code("keys.authentication:require_active", "not key.accepts(caller.digest, now)", "False"),
    f"{ROTATION}::test_a_secret_that_ends_at_once_is_refused_at_once[True]",
    f"{ROTATION}::test_a_secret_stops_at_its_end_in_a_process_that_has_it_cached",
)
mutant(
    "a_former_secret_never_ends",
    "The end of a former secret is not looked at.",
    code("keys.models:ApiKey.working_former_digests", "end > now", "True"),
    f"{ROTATION}::test_a_secret_stops_at_its_end_in_a_process_that_has_it_cached",
)
mutant(
    "a_revoked_key_is_good",
    "A key that was revoked after its identity was cached is admitted.",
    code("keys.authentication:require_active", "key.revoked_at is not None", "False"),
    "completions/charging/test_idempotency.py::test_a_revoked_api_key_gets_no_replay",
    dangerous=True,
)

# Of these the state machine must find one by itself. It draws the same steps in every run.
mutant(
    "a_week_begins_a_day_late",
    "What is spent on a Monday does not count against a WEEKLY limit.",
    code(
        "keys.limits.spending:select_spending_statement",
        "END, statement_timestamp() AT TIME ZONE 'UTC')::date",
        "END, statement_timestamp() AT TIME ZONE 'UTC')::date + 1",
    ),
    f"{ADMISSION}::test_a_recurring_limit_counts_from_the_first_day_of_its_window[WEEKLY]",
)
mutant(
    "a_fixed_limit_begins_anew",
    "A FIXED limit counts from the first of the month, as if it were a MONTHLY one.",
    code(
        "keys.limits.spending:select_spending_statement",
        "'0001-01-01'",
        "date_trunc('month', statement_timestamp() AT TIME ZONE 'UTC')::date",
    ),
    f"{ADMISSION}::test_spending_before_the_window_counts_against_a_fixed_limit_only[FIXED-None-True]",
)
mutant(
    "a_batch_does_not_read_what_a_key_holds",
    "What running requests hold is not counted against the spending limit of a request that comes later.",
    code("keys.limits.spending:select_spending_statement", "sum(held_nanos + provider_held_nanos)", "sum(0)"),
    f"{ADMISSION}::test_holds_count_against_the_spending_limit_to_the_nanodollar",
)
mutant(
    "a_nanodollar_above_the_limit",
    "A request may hold a nanodollar more than is left of the spending limit.",
    code(
        "keys.limits.spending:require_available",
        "window.available_nanos >= need_nanos",
        "window.available_nanos >= need_nanos - 1",
    ),
    f"{ADMISSION}::test_a_spending_limit_is_exact_to_the_nanodollar[FIXED-None]",
)
# --- Reasoning that callers keep ----------------------------------------------------------------------------------------

TURNS = "completions/inbound/test_reasoning_across_turns.py"

mutant(
    "a_seal_opens_for_every_account",
    "What a provider hides of one account's reasoning is sent to it for another.",
    code("completions.providers.sealed_reasoning:_purpose", "{call.account_id}:", ""),
    f"{TURNS}::test_reasoning_of_another_account_is_left_out_and_named[Chat]",
    f"{TURNS}::test_reasoning_of_another_account_is_left_out_and_named[Responses]",
    dangerous=True,
)
mutant(
    "a_seal_opens_for_every_model",
    "A model's provider is sent the reasoning of another model, which it refuses.",
    code("completions.providers.sealed_reasoning:_purpose", ":{call.offer.model_id}", ""),
    f"{TURNS}::test_reasoning_of_claude_is_left_out_by_other_models[claude/haiku-Chat]",
)
mutant(
    "a_seal_opens_for_every_provider",
    "A provider is sent the reasoning that another one has encrypted, which it refuses.",
    code("completions.providers.sealed_reasoning:_purpose", "{kind}:{call.route.provider_slug}", "{kind}"),
    f"{TURNS}::test_another_provider_of_the_model_does_not_get_what_it_cannot_read",
)
mutant(
    "reasoning_is_left_out_in_silence",
    "The header does not name the reasoning that a provider is not sent.",
    code(
        "completions.providers.sealed_reasoning:_is_carried", "bool(given) and len(opened(call, message)) == len(given)", "True"
    ),
    f"{TURNS}::test_an_altered_seal_is_left_out_and_named",
)
mutant(
    "reasoning_comes_first",
    "A model's reasoning is sent back before all text, and not where the model reasoned.",
    code("completions.providers.sealed_reasoning:PlacedReasoning.begin", "self._at = at", "self._at = (0, 0)"),
    f"{TURNS}::test_gpt_goes_on_reasoning_after_each_result_of_a_tool[Chat-whole]",
    f"{TURNS}::test_claude_thinks_after_each_result_of_a_tool[adaptive-Chat-whole]",
)

# --- Idempotency -------------------------------------------------------------------------------------------------------

CORRECTIONS = "completions/charging/recovery/test_corrections.py"
IDEMPOTENCY = "completions/charging/test_idempotency.py"
STORED = "completions/inbound/responses/test_stored.py"
BACKGROUND = "completions/inbound/responses/test_background.py"

mutant(
    "idempotency_is_ignored",
    "A request with a known Idempotency-Key runs again.",
    code("completions.charging.idempotency:check", "stored.expires_at <= now", "True"),
    f"{IDEMPOTENCY}::test_a_retry_gets_the_same_reply_and_is_charged_once[False]",
    f"{IDEMPOTENCY}::test_a_retry_conflicts_while_its_request_runs",
    dangerous=True,
)
mutant(
    "fingerprints_are_ignored",
    "Another request under a known Idempotency-Key gets the reply of the first.",
    code("completions.charging.idempotency:check", "stored.fingerprint != idempotency_key.fingerprint", "False"),
    f"{IDEMPOTENCY}::test_another_body_under_the_same_key_is_refused[fields0]",
)
mutant(
    "fingerprints_do_not_tell_the_language",
    "A chat completion under the Idempotency-Key of a Messages request gets that one's reply.",
    code(
        "completions.inbound.completion_view:CompletionView.fingerprinted",
        "{self.fingerprinted_path: fields} if self.fingerprinted_path else fields",
        "fields",
    ),
    f"{MESSAGES}::test_a_repetition_gets_the_same_reply_and_another_language_does_not",
)
mutant(
    "a_response_request_goes_out_as_messages",
    "A restored Responses request is sent to Anthropic as it came, unchecked in that language.",
    code("completions.chat:RequestBody.restore", "None if self.original is None else parsed", "parsed"),
    f"{RESPONSE_FIELDS}::test_a_released_body_is_restored_and_sent_in_no_other_language",
)
mutant(
    "a_longer_time_in_the_cache_is_asked_for",
    "A Messages request asks for a time in the cache that costs more than the price says.",
    code("completions.request.serving:cache_control", 'read_choice(mark, "ttl", MARK_TTLS, at)', 'mark.get("ttl")'),
    f"{MESSAGE_FIELDS}::test_a_field_that_is_refused_is_named[tools[0].cache_control.ttl]",
)
mutant(
    "an_hour_in_the_cache_is_overlooked",
    "A block asks for an hour in the cache, and neither price nor hold is that of an hour.",
    code(
        "completions.request.messages:_Checker._check_part",
        "self._wants_hour_cache or prompt.wants_hour_cache(others)",
        "self._wants_hour_cache",
    ),
    f"{MESSAGE_FIELDS}::test_an_hour_in_the_cache_is_found_wherever_it_is_asked_for[text]",
    f"{HOUR}::test_without_a_price_an_hour_is_refused_by_name[in a message]",
    dangerous=True,
)
mutant(
    "anthropics_tools_go_to_others",
    "A tool of Anthropic's own is sent to the model of another maker, as a function that nobody described.",
    code("completions.catalog.eligibility:_check", "if request.messages_only_at and", "if False and"),
    f"{OWN_TOOLS}::test_other_models_refuse_them_by_name_and_nothing_is_held",
)
mutant(
    "a_refusal_uses_up_its_idempotency_key",
    "A refused request uses up its Idempotency-Key.",
    code(
        "completions.charging.batch:_apply",
        "return refusal",
        """if operation.idempotency_key:
            from completions.models import IdempotentRequest
            IdempotentRequest.objects.create(
                account_id=operation.account_id, key=operation.idempotency_key.value,
                fingerprint=operation.idempotency_key.fingerprint,
                completion_id=operation.completion_id, is_stream=False, expires_at=rows.now)
        return refusal""",
    ),
    f"{IDEMPOTENCY}::test_a_refused_request_does_not_use_up_its_key",
)
mutant(
    "a_failure_uses_up_its_idempotency_key",
    "A request whose provider failed uses up its Idempotency-Key.",
    code(
        "completions.charging.resolution:Resolution._end_idempotency_key",
        "elif not self.usage or self.reply_retention:",
        "elif False:",
    ),
    f"{IDEMPOTENCY}::test_a_retry_runs_after_a_provider_failure",
)
mutant(
    "a_replay_is_in_the_clear",
    "The reply that is stored for a retry can be read in the database.",
    code(
        "completions.charging.idempotency:seal",
        "secretbox.encrypt_bytes(reply, purpose=_PURPOSE)",
        "reply.decode()",
    ),
    f"{IDEMPOTENCY}::test_a_stored_reply_is_encrypted",
    dangerous=True,
)
mutant(
    "replies_before_the_run_have_no_bound",
    "An account stores the first answers of background responses without a bound.",
    code("completions.charging.idempotency:store_reply", "excess_bytes(account)", "0"),
    f"{BACKGROUND}::test_first_answers_of_an_account_take_no_more_room_than_there_is",
)
mutant(
    "a_repetition_reads_what_its_key_may_not",
    "A key that may not use a model gets its reply from a repetition whose earlier response is deleted.",
    code("completions.charging.admission:replay", "require_allowed(key, offer)", "pass"),
    f"{STORED}::test_a_repetition_whose_request_cannot_be_resolved_is_refused_and_counted_like_any",
    dangerous=True,
)
mutant(
    "what_waits_on_disk_is_given_away",
    "The sweeper gives away what another process of its host is to drain.",
    code("completions.charging.recovery.sweeper:_abandoned", "[path.stem for path in outbox.waiting_files()]", "[]"),
    "completions/charging/recovery/test_outbox.py::test_a_drain_that_hangs_keeps_no_sweeper_waiting_and_gives_nothing_away",
    dangerous=True,
)
mutant(
    "a_report_of_reasoning_is_doubted",
    "Reasoning that a provider reports counts as if nobody had seen it.",
    code("completions.relay.charge:_record_unseen", "and not arrived.reasoning_tokens", ""),
    "completions/relay/test_disconnects.py::test_reasoning_that_was_reported_before_a_deadline_is_no_loss",
)
mutant(
    "stored_replies_have_no_bound",
    "An account stores the replies of concurrent requests without a bound.",
    code(
        "completions.charging.idempotency:excess_bytes",
        "account.stored_reply_bytes - settings.IDEMPOTENT_ACCOUNT_BYTES_MAX",
        "0",
    ),
    f"{IDEMPOTENCY}::test_replies_of_concurrent_requests_never_take_more_room_than_there_is",
)

mutant(
    "a_stored_response_is_in_the_clear",
    "A stored response can be read in the database.",
    code(
        "completions.charging.stored_responses:seal",
        "secretbox.encrypt_bytes(plain, purpose=_purpose(account_id))",
        "plain.decode()",
    ),
    f"{STORED}::test_what_is_stored_is_encrypted_and_is_nothing_in_another_account",
    dangerous=True,
)
mutant(
    "an_account_reads_responses_of_others",
    "An account reads the stored responses of another.",
    code("completions.charging.stored_responses:of_account", "account_id=account_id, ", ""),
    f"{STORED}::test_a_response_of_another_account_is_not_found",
    dangerous=True,
)
mutant(
    "an_account_that_keeps_no_responses_stores_them",
    "An account that keeps no responses stores them.",
    code("completions.charging.stored_responses:count_stored_bytes", "not account.keeps_responses or ", ""),
    f"{STORED}::test_an_account_that_forbids_it_while_a_request_runs_stores_nothing",
    dangerous=True,
)
mutant(
    "stored_responses_have_no_bound",
    "An account stores responses without a bound.",
    code(
        "completions.charging.stored_responses:may_exceed",
        "account.stored_response_bytes > settings.STORED_RESPONSE_ACCOUNT_BYTES_MAX",
        "False",
    ),
    f"{STORED}::test_the_oldest_responses_of_an_account_make_room",
)

mutant(
    "a_run_after_a_death_pays_in_full",
    "A request whose process died is charged again when it is repeated.",
    code("completions.charging.records:CompletionRecord.due_nanos", "cost_nanos - self.charged_before_nanos", "cost_nanos"),
    f"{IDEMPOTENCY}::test_a_request_whose_process_died_is_charged_once_in_all",
)
mutant(
    "only_the_last_death_is_credited",
    "A repetition is credited with what the run before it was charged, and not with what the runs before that were.",
    code("completions.charging.idempotency:select_keys_statement", "charged_before_nanos + coalesce", "coalesce"),
    f"{IDEMPOTENCY}::test_runs_that_die_again_and_again_cost_what_the_dearest_costs",
)
mutant(
    "a_failed_run_forgets_what_was_charged_before",
    "A repetition that fails deletes the Idempotency-Key of a request whose process died.",
    code(
        "completions.charging.resolution:Resolution._is_credited_to_the_next_run",
        " or self.completion.repeats is not None",
        "",
    ),
    f"{IDEMPOTENCY}::test_a_run_that_is_refused_or_fails_leaves_what_was_charged_to_the_next",
)

mutant(
    "a_late_settlement_is_corrected_each_time",
    "A settlement that is found on disk again corrects what the sweeper charged again.",
    code(
        "completions.charging.recovery.corrections:correct",
        " or _find_correction(swept, runs)",
        "",
    ),
    f"{CORRECTIONS}::test_what_was_charged_too_much_is_given_back",
    dangerous=True,
)
mutant(
    "a_correction_costs_more_than_was_held",
    "A late settlement charges more than its request had reserved.",
    code(
        "completions.charging.recovery.corrections:_correction",
        "min(late.cost_nanos or 0, swept.charged_before_nanos + held_nanos)",
        "late.cost_nanos or 0",
    ),
    f"{CORRECTIONS}::test_a_correction_costs_at_most_what_was_held",
)
mutant(
    "what_is_given_back_counts_as_spent",
    "What a key was charged too much counts against its spending limit after it was given back.",
    code(
        "completions.charging.recovery.corrections:Correction._spending_change",
        "change.spent_nanos - self.overcharged_nanos",
        "change.spent_nanos",
    ),
    f"{CORRECTIONS}::test_what_was_charged_too_much_is_given_back",
)

# --- Ways to end -------------------------------------------------------------------------------------------------------

CHECKPOINTS = "completions/charging/recovery/test_checkpoints.py"
DISCONNECTS = "completions/relay/test_disconnects.py"
DEADLINES = "completions/relay/test_deadlines.py"
OUTBOX = "completions/charging/recovery/test_outbox.py"

mutant(
    "a_broken_stream_is_free",
    "The text that a stream relayed before it broke off is estimated as nothing.",
    code("completions.relay.charge:estimate", "return Usage(", "return Usage(0, 0) if relayed_bytes else Usage("),
    f"{RELAY}::test_a_stream_that_breaks_ends_in_one_error_event_and_is_charged_so_far[reset-later]",
)
mutant(
    "a_disconnect_is_free",
    "A client that disconnects in the middle of a stream is not charged.",
    code("completions.relay.stream:_Progress.settle_disconnected", "self._usage_so_far()", "Usage(0, 0)"),
    f"{RELAY}::test_a_disconnect_within_a_stream_frees_the_upstream_and_is_charged_so_far",
)
mutant(
    "a_disconnected_stream_is_closed_at_once",
    "A stream is left one token before its end for a fraction of what the provider charges.",
    code("completions.relay.stream:_Progress.settle_disconnected", "if not self.running.is_cancellable:", "if False:"),
    f"{DISCONNECTS}::test_a_stream_left_one_token_before_its_end_pays_its_reported_reasoning",
)
mutant(
    "a_disconnected_request_is_closed_at_once",
    "A whole reply is left midway for a fraction of what the provider charges.",
    code("completions.relay.attempts:_interruptible", "running.is_cancellable and running.client", "running.client"),
    f"{DISCONNECTS}::test_a_whole_reply_left_midway_pays_the_reported_usage",
)
mutant(
    "an_image_is_fetched_from_a_network_of_providers",
    "A caller names an image whose name leads into the network of the operator's own servers.",
    code("completions.relay.image_fetches:_fetch", "settings.PRIVATE_IMAGES", "settings.PRIVATE_UPSTREAMS"),
    "completions/relay/test_image_fetches.py::test_a_name_that_leads_to_a_private_address_is_not_connected_to",
    dangerous=True,
)
mutant(
    "an_image_that_cannot_be_fetched_keeps_its_hold",
    "The money of a request whose image cannot be had is held until its hold expires.",
    code("completions.inbound.completion_view:CompletionView._answer", "charge.release(running)", "pass"),
    "completions/relay/test_image_fetches.py::test_an_address_that_is_none_is_refused"
    "[http://127.0.0.1:9/-there was no connection]",
)
mutant(
    "reasoning_is_cancelled",
    "A disconnect ends the reasoning of a provider that cancels, and nobody knows how much of it was done.",
    code("completions.relay.running:Running.is_cancellable", "self.call.offer.reasoning is False and not", "not"),
    f"{DISCONNECTS}::test_reasoning_is_never_cancelled[the model may reason]",
)
mutant(
    "a_disconnected_client_is_served_elsewhere",
    "A further provider works, and charges, for a client that has left.",
    code("completions.relay.attempts:_first_success", "if disconnects.has_disconnected(running.client):", "if False:"),
    f"{DISCONNECTS}::test_no_attempt_begins_after_the_client_has_disconnected[left-plain-whole]",
)
mutant(
    "a_file_is_estimated_as_nothing",
    "A document costs next to nothing when its provider breaks off without a report.",
    code("completions.estimates:estimate_prompt_tokens", "if request.contents.file_at:", "if False:"),
    "completions/test_estimates.py::test_a_file_is_estimated_at_what_the_hold_assumed[document]",
)
mutant(
    "cut_off_reasoning_is_not_counted",
    "An account may have providers reason until a deadline for nothing as often as it likes.",
    code("completions.relay.charge:_record_unseen", "running.accountable_nanos(lost_nanos)", "0"),
    f"{DISCONNECTS}::test_reasoning_cut_off_at_a_deadline_is_unpaid_work",
)
mutant(
    "a_silent_route_counts_whole",
    "An account is refused for the fault of a provider that answers nobody.",
    code("completions.relay.running:Running.accountable_nanos", "lost_nanos // _SILENT_ROUTE_DIVISOR", "lost_nanos"),
    f"{DEADLINES}::test_a_reply_cut_off_counts_against_its_account_by_a_quarter_where_the_route_answers[nobody]",
)
mutant(
    "a_route_that_answers_others_counts_a_quarter",
    "An account may have a provider that works generate four times what it is allowed to leave unpaid.",
    code(
        "completions.relay.running:Running.accountable_nanos",
        "circuit_breaker.has_succeeded_since(route, self.attempted_at)",
        "False",
    ),
    f"{DEADLINES}::test_a_reply_cut_off_counts_against_its_account_by_a_quarter_where_the_route_answers[others]",
)
mutant(
    "a_refused_request_is_a_loss",
    "The loss that is reported counts requests that their provider refused, and did no work for.",
    code("completions.relay.charge:settle_broken_off", "not failure.provider_worked and not reported", "False"),
    "test_error_table.py::test_an_upstream_that_fails_costs_nothing[500-502-server_error-upstream_error-whole]",
)
mutant(
    "a_whole_reply_that_hangs_is_charged",
    "A caller pays for replies of a provider that hangs, of which nothing reached it.",
    code("completions.relay.charge:settle_broken_off", "text_bytes > 0 or", "True or"),
    f"{DEADLINES}::test_a_whole_reply_given_up_at_the_total_deadline_costs_nothing_and_is_unpaid_work",
)
mutant(
    "a_whole_reply_must_begin_in_time",
    "A generation that takes longer than the deadline to begin is done by several providers, for nothing.",
    code("gateway_project.net.http:AwaitedResponse.wait", "self._wait(self._deadline)", "self._wait(self._begin_by)"),
    f"{DEADLINES}::test_a_whole_reply_may_take_longer_to_begin_than_a_stream",
)
mutant(
    "a_reply_that_was_given_up_is_no_loss",
    "The loss that is reported lacks what a provider may charge for a reply that another one gave.",
    code("completions.relay.running:Running.abandon", "metrics.record_provider_loss(", "metrics.count_oddity("),
    "completions/relay/test_patience.py::test_a_whole_reply_that_does_not_arrive_is_given_by_another_route[nothing]",
)
mutant(
    "every_provider_may_be_at_work",
    "Every provider of a model is paid for one reply.",
    code("completions.relay.running:Running.abandon", "min(self.attempts_max, self.attempts + 1)", "self.attempts_max"),
    "completions/relay/test_patience.py::test_one_more_route_is_asked_and_no_third[hangs]",
)
mutant(
    "a_whole_reply_of_who_left_is_given_up",
    "A whole reply whose client left is given up, and is not paid by its provider's report.",
    code("completions.relay.attempts:_may_ask_another", "and not disconnects.has_disconnected(running.client)", ""),
    f"{DISCONNECTS}::test_no_other_route_is_asked_for_a_whole_reply_whose_client_has_disconnected",
)
mutant(
    "who_left_is_given_up",
    "A stream whose client left before it began is given up, and is not paid by its provider's report.",
    code("completions.relay.attempts:_first_chunks", "and not disconnects.has_disconnected(running.client)", ""),
    f"{DISCONNECTS}::test_a_disconnected_request_waits_beyond_the_first_byte_deadline[streamed]",
)
mutant(
    "a_late_stream_is_free",
    "The reply of a stream that began after the deadline is not there for a repetition, although its provider charges it.",
    code("completions.relay.stream:_begin", "running.late is None or failure.provider_worked or", "True or"),
    f"{DEADLINES}::test_what_begins_too_late_is_the_reply_to_a_repetition_and_paid_as_reported",
)
mutant(
    "unpaid_work_is_not_counted",
    "One account may have providers work for nothing as often as it likes.",
    code("completions.charging.resolution:Resolution.apply", "self.unpaid_nanos + ", ""),
    f"{DEADLINES}::test_an_account_that_left_too_much_unpaid_is_refused_until_an_hours_share_is_back",
)
mutant(
    "a_silent_provider_is_no_loss",
    "Nobody is told what a provider may charge for a stream that was answered elsewhere.",
    code(
        "completions.relay.running:Running.drop_late",
        "metrics.record_provider_loss(self.late.call.route.provider_slug, self.late.unpaid_nanos)",
        "pass",
    ),
    f"{DEADLINES}::test_a_stream_that_does_not_begin_in_time_is_answered_elsewhere[None-15000]",
)
mutant(
    "an_outage_counts_against_its_callers",
    "While a provider is down, its callers are refused every model, for work that they could not help.",
    code("completions.relay.running:Running.drop_late", "not circuit_breaker.fails_for_several(self.late.call.route)", "True"),
    f"{DEADLINES}::test_a_late_stream_of_a_provider_that_fails_for_several_accounts_counts_against_none",
)
mutant(
    "late_work_counts_when_another_provider_was_paid",
    "A caller who paid for the answer of a fallback is refused because the first provider was silent.",
    code("completions.relay.charge:settle", "running.late_nanos and not expected_nanos(running, usage)", "True"),
    f"{DEADLINES}::test_a_stream_that_does_not_begin_in_time_is_answered_elsewhere[None-15000]",
)
mutant(
    "one_account_keeps_a_circuit_open",
    "One account whose requests fail everywhere keeps a provider that is well again from everybody.",
    code("completions.relay.circuit_breaker:record_failure", "circuits.count_failed_probe(account_id, own.weight)", "True"),
    "completions/relay/test_circuit_breaker.py::test_failed_probes_of_one_account_keep_out_no_other",
)
mutant(
    "any_switch_hides_reasoning",
    "A field that the provider ignores hides reasoning that a deadline cuts off, so that nobody counts it.",
    code("completions.relay.running:Running.reasons", "return not providers.", "return False and not providers."),
    f"{DISCONNECTS}::test_a_switch_that_a_provider_may_ignore_does_not_hide_reasoning[{{'reasoning_effort': 'none'}}]",
)
mutant(
    "a_client_need_not_read",
    "A stream whose client does not read is paid up to where the client stopped, and keeps its connection.",
    code("completions.relay.stream:_WriteDeadline.begin_write", "min(_UNREAD_SECONDS_MAX, self._left_seconds)", 'float("inf")'),
    f"{DISCONNECTS}::test_a_client_that_reads_too_slowly_is_treated_as_disconnected_while_the_rest_can_be_read",
)
mutant(
    "the_sweeper_ignores_checkpoints",
    "What a process had relayed before it died is free.",
    code("completions.charging.recovery.sweeper:resolve", "if completion.relayed_bytes:", "if False:"),
    f"{CHECKPOINTS}::test_an_old_checkpoint_is_charged_and_the_rest_of_the_hold_is_freed",
)
mutant(
    "the_sweeper_takes_what_runs",
    "The sweeper resolves holds that have not expired.",
    code("completions.charging.recovery.sweeper:_abandoned", "expires_at__lt=now", "expires_at__gt=now"),
    f"{SWEEPER}::test_the_sweeper_ignores_a_running_hold",
)
mutant(
    "the_sweeper_estimates_what_the_outbox_knows",
    "The sweeper does not drain the outbox first.",
    code("completions.charging.recovery.sweeper:release_expired_holds", ", drains.drain]", "]"),
    f"{OUTBOX}::test_the_sweeper_drains_the_outbox_before_it_estimates",
)
mutant(
    "an_unsettled_completion_is_not_stored",
    "A settlement that the database refuses is dropped.",
    code("completions.relay.charge:commit_or_store", "outbox.store(resolution, error)", "pass"),
    f"{OUTBOX}::test_a_stream_that_ends_in_an_outage_is_completed_and_its_settlement_stored",
)
mutant(
    "what_may_have_been_repeated_is_admitted_again",
    "A forgotten completion with an Idempotency-Key is charged, though its caller may have paid for a repetition.",
    code("completions.charging.recovery.owed:Readmission.apply", "if self.ended.reply_retention:", "if False:"),
    f"{OUTBOX}::test_dead_letters_are_booked_or_discarded_by_hand",
    dangerous=True,
)
mutant(
    "what_was_repeated_is_admitted_again",
    "A forgotten completion is charged beside the repetition that its caller paid for.",
    code(
        "completions.charging.recovery.owed:Readmission._require_unrepeated",
        "if stored and stored.expires_at > rows.now and",
        "if False and",
    ),
    "completions/charging/recovery/test_readmission.py::test_a_repetition_that_runs_is_not_charged_beside_the_forgotten_one",
    dangerous=True,
)
mutant(
    "a_journal_is_deleted_before_a_failover_is_found",
    "Files of the journal are deleted by their age before they are compared with the database that a failover brought.",
    code(
        "completions.charging.recovery.journal:replay_after_failover",
        "if database == known:",
        "_delete_old(10**9)\n        if database == known:",
    ),
    "completions/charging/recovery/test_journal.py::test_a_failover_that_takes_longer_than_the_journal_is_kept_loses_no_charge",
)
mutant(
    "a_settled_file_stays_in_the_outbox",
    "A file whose settlement is committed stays in the outbox.",
    code("completions.charging.recovery.drains:_drain_files", "path.unlink(missing_ok=True)", "pass"),
    f"{OUTBOX}::test_a_stored_settlement_is_charged_exactly_once_and_its_reply_replayed",
)


# --- Credentials of clouds ---------------------------------------------------------------------------------------------

KEEPER = "completions/providers/access/test_keeper.py"

mutant(
    "a_refused_credential_is_not_renewed",
    "A credential that was withdrawn early fails requests until it would have expired.",
    code("completions.providers.exchange:_is_renewed", "credential.renew(proof)", "False"),
    "completions/providers/access/test_aws.py::test_a_session_that_was_withdrawn_is_replaced_by_the_next_one",
)
mutant(
    "requests_do_not_wait_for_a_renewal",
    "Of many requests whose credential was refused at once, all but one fail.",
    code(
        "completions.providers.access.keeper:Keeper.renew",
        "lambda: self._proof != refused or not self._is_busy",
        "lambda: True",
    ),
    f"{KEEPER}::test_a_refused_credential_is_renewed_once_for_all_whose_requests_were_refused",
)
mutant(
    "refused_credentials_are_renewed_without_end",
    "Each request that a provider refuses fetches another credential.",
    code("completions.providers.access.keeper:Keeper.renew", "now >= self._forced_at + _FORCED_SECONDS", "True"),
    f"{KEEPER}::test_a_successor_that_is_refused_too_is_not_replaced_at_once",
)
mutant(
    "a_session_is_told",
    "What AWS repeats of a session is kept with the completion, and logged.",
    code("completions.providers.access.aws:Signer.secrets", "self.session_secret or", ""),
    "completions/providers/access/test_aws.py::test_what_aws_repeats_of_a_session_is_kept_nowhere",
)

# --- What programs book ---------------------------------------------------------------------------------------------

EXPORT = "completions/usage/test_export.py"

mutant(
    "an_export_leaves_out_the_first_entry_of_each_page",
    "The books of whoever follows the export lack a completion of each page.",
    code("completions.usage.export:_read_entries", "seq__gt=after", "seq__gt=after + 1"),
    f"{EXPORT}::test_a_key_exports_its_own_usage_and_a_management_key_that_of_the_account",
    dangerous=True,
)
mutant(
    "an_export_continues_another_ledger",
    "After a restore of the database books continue from entries that the ledger no longer has.",
    code("completions.usage.export:_cursor", "bytes(hash or b'').hex()", "0"),
    f"{EXPORT}::test_a_cursor_from_before_a_restore_is_refused",
)
mutant(
    "an_export_shows_what_a_crash_forgets",
    "A program books a completion that a crash of the database then takes back.",
    code("completions.usage.export:read_page", "durability.wait_until_durable(session)", "pass"),
    f"{EXPORT}::test_a_page_that_a_crash_of_the_database_might_forget_is_not_shown",
)
mutant(
    "an_export_leaves_refunds_out",
    "The books of whoever follows the export of a key lack what was given back.",
    code("completions.usage.export:_read_entries", "[*usage[:limit], *credits[:limit]]", "usage[:limit]"),
    f"{EXPORT}::test_a_refund_of_an_overcharge_names_the_completion_that_was_charged",
)
