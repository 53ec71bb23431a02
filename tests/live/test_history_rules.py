"""Every rule of ``history`` finds its violations, each added alone to a history without any."""

import dataclasses
from collections.abc import Callable
from copy import deepcopy
from decimal import Decimal
from typing import Any

import pytest

from tests.live import history
from tests.live.history import BalanceReading, Call, EntryJson, History, LedgerReading

MODEL = "demo/model"
PRICES = {MODEL: (Decimal("0.0001"), Decimal("0.001"))}
CREDIT, A, B, LEFT, SILENT, RETRIED, LIMITED = range(7)  # indexes of entries


def whole(name: str, called_at: float, replied_at: float, completion_id: str, **more: Any) -> Call:
    facts = {"status": 200, "completion_id": completion_id, "prompt_tokens": 10, "completion_tokens": 5, "max_tokens": 5}
    return Call(name, more.pop("key", "plain"), MODEL, called_at, replied_at, **{**facts, **more})


def debit(completion_id: str, prompt: int, reply: int, cost: str, amount: int, after: int) -> EntryJson:
    facts = {"model": MODEL, "completionId": completion_id, "costInDollars": cost, "tokens": prompt + reply}
    facts |= {"promptTokens": prompt, "completionTokens": reply}
    return entry(f"entry of {completion_id}", "USAGE_DEBIT", amount, after, facts)


def entry(name: str, kind: str, amount: int, after: int, facts: dict[str, Any]) -> EntryJson:
    created_at = "2026-11-21T10:00:00.000Z"
    amounts = {"amountInCents": amount, "balanceAfterInCents": after}
    return {"id": name, "type": kind, **amounts, "metadata": facts, "createdAt": created_at}


def true_history() -> History:
    entries = [
        entry("opening", "SUPPORT_CREDIT", 100, 100, {"reason": "test"}),
        debit("a", 10, 5, "0.006", -1, 99),  # exactly 99.4 cents
        debit("b", 10, 5, "0.006", -1, 98),  # 98.8
        debit("left", 4, 2, "0.0024", 0, 98),  # 98.56
        debit("silent", 10, 5, "0.006", -1, 97),  # 97.96
        debit("retried", 10, 5, "0.006", 0, 97),  # 97.36
        debit("limited", 10, 5, "0.006", -1, 96),  # 96.76
    ]
    return History(
        opening_cents=100,
        prices=PRICES,
        calls=[
            whole("0/0", 1.0, 2.0, "a"),
            whole("0/1", 3.0, 4.0, "b"),
            Call("1/0", "plain", MODEL, 3.5, status=200, completion_id="left"),
            Call("1/1", "plain", MODEL, 4.4),
            Call("1/2", "plain", MODEL, 5.0, 5.1, status=402),
            whole("0/2", 6.0, 7.0, "retried", retry_key="again"),
            whole("1/3", 8.0, 9.0, "retried", retry_key="again", is_replayed=True),
            whole("0/3", 10.0, 11.0, "limited", key="limited"),
        ],
        ledgers=[
            LedgerReading(0.1, 0.2, deepcopy(entries[:1])),
            LedgerReading(4.2, 4.3, deepcopy(entries[:3])),  # the disconnected client may be charged before or after
            LedgerReading(7.2, 7.3, deepcopy(entries[:6])),
            LedgerReading(12.0, 12.1, deepcopy(entries)),
        ],
        balances=[
            BalanceReading(0.0, 0.1, 100),
            BalanceReading(2.1, 2.2, 99),
            BalanceReading(7.1, 7.2, 97),
            BalanceReading(12.2, 12.3, 96),
        ],
        limits_cents={"limited": 1},
    )


def test_a_true_history_violates_no_rule():
    assert history.violations(true_history()) == []


# --- Planted violations ------------------------------------------------------------------------------------------

Corruption = Callable[[History], object]
CORRUPTIONS: list[tuple[str, Corruption]] = []


def violates(rule: Callable[[History], object]) -> Callable[[Corruption], Corruption]:
    def register(corrupt: Corruption) -> Corruption:
        CORRUPTIONS.append((rule.__name__, corrupt))
        return corrupt

    return register


def everywhere(seen: History, place: int, **changes: Any) -> None:
    """Change an entry and its metadata in every reading, as if it had always been so."""
    for reading in seen.ledgers:
        for found in reading.entries[place : place + 1]:
            found.update({name: value for name, value in changes.items() if name in found})
            found["metadata"].update({name: value for name, value in changes.items() if name not in found})


def tell(seen: History, name: str, **changes: Any) -> None:
    """Change what a client received."""
    seen.calls[:] = [dataclasses.replace(call, **changes) if call.name == name else call for call in seen.calls]


@violates(history.the_ledger_is_never_rewritten)
def an_entry_changed_after_it_was_read(seen):
    seen.ledger[A]["metadata"]["note"] = "corrected"


@violates(history.the_ledger_is_never_rewritten)
def an_entry_vanished(seen):
    del seen.ledger[LEFT]


@violates(history.the_ledger_is_never_rewritten)
def an_entry_was_slipped_in(seen):
    seen.ledger.insert(B, debit("late", 0, 0, "0.00", 0, 99))


@violates(history.the_ledger_is_never_rewritten)
def a_later_reading_saw_less(seen):
    seen.ledgers[1:3] = [dataclasses.replace(seen.ledgers[1], entries=seen.ledgers[2].entries), seen.ledgers[1]]


@violates(history.entries_are_unique)
def an_entry_is_there_twice(seen):
    seen.ledger.append(seen.ledger[LIMITED])


@violates(history.amounts_chain)
def an_amount_is_not_what_changed(seen):
    everywhere(seen, LEFT, amountInCents=-1)


@violates(history.shown_cents_are_the_floor_of_the_exact_balance)
def a_balance_was_rounded_up(seen):
    everywhere(seen, A, amountInCents=0, balanceAfterInCents=100)
    everywhere(seen, B, amountInCents=-2)


@violates(history.no_balance_is_negative)
def usage_overdrew_the_account(seen):
    everywhere(seen, LIMITED, amountInCents=-98, balanceAfterInCents=-1)


@violates(history.no_balance_is_negative)
def a_balance_was_below_zero_for_a_moment(seen):
    seen.balances[2] = dataclasses.replace(seen.balances[2], cents=-1)


@violates(history.timestamps_never_decrease)
def an_entry_is_older_than_the_one_before_it(seen):
    everywhere(seen, B, createdAt="2026-11-21T09:59:59.999Z")


@violates(history.debits_cost_what_the_prices_say)
def a_debit_is_a_nanodollar_too_dear(seen):
    everywhere(seen, LIMITED, costInDollars="0.006000001")


@violates(history.debits_cost_what_the_prices_say)
def tokens_do_not_add_up(seen):
    everywhere(seen, LEFT, tokens=7)


@violates(history.money_is_conserved)
def a_cent_appeared(seen):
    seen.balances[-1] = dataclasses.replace(seen.balances[-1], cents=97)


@violates(history.money_is_conserved)
def money_was_credited_without_a_credit(seen):
    seen.ledger.append(entry("gift", "SUPPORT_CREDIT", 1, 97, {}))
    seen.balances[-1] = dataclasses.replace(seen.balances[-1], cents=97)


@violates(history.an_acknowledged_completion_is_debited_once)
def a_charge_was_lost(seen):
    del seen.ledger[LIMITED]


@violates(history.an_acknowledged_completion_is_debited_once)
def a_disconnected_client_was_not_charged(seen):
    for reading in seen.ledgers:
        del reading.entries[LEFT : LEFT + 1]


@violates(history.an_acknowledged_completion_is_debited_once)
def a_completion_was_charged_twice(seen):
    seen.ledger.append({**debit("limited", 10, 5, "0.006", 0, 96), "id": "another"})


@violates(history.nothing_else_is_debited)
def a_refused_request_was_charged(seen):
    seen.ledger.append(debit("refused", 10, 5, "0.006", 0, 96))  # besides "silent", whose client disconnected


@violates(history.nothing_else_is_debited)
def a_client_was_charged_for_another_model(seen):
    seen.prices["demo/other"] = PRICES[MODEL]
    everywhere(seen, SILENT, model="demo/other")


@violates(history.debits_match_what_clients_were_told)
def a_client_was_told_fewer_tokens(seen):
    tell(seen, "0/1", completion_tokens=4)


@violates(history.debits_match_what_clients_were_told)
def a_client_was_told_another_model(seen):
    tell(seen, "0/1", model="demo/other")


@violates(history.debits_match_what_clients_were_told)
def more_was_charged_than_allowed(seen):
    tell(seen, "1/0", max_tokens=1)


@violates(history.a_retry_is_the_same_completion)
def a_retry_became_another_completion(seen):
    tell(seen, "1/3", completion_id="a")


@violates(history.a_retry_is_the_same_completion)
def a_retry_ran_again(seen):
    tell(seen, "1/3", is_replayed=False)


@violates(history.keys_spend_within_their_limits)
def a_key_spent_more_than_its_limit(seen):
    seen.limits_cents["limited"] = 0


@violates(history.entries_are_in_the_order_of_time)
def a_later_entry_precedes(seen):
    everywhere(seen, A, completionId="b")
    everywhere(seen, B, completionId="a")


@violates(history.entries_are_in_the_order_of_time)
def an_entry_requested_later_precedes(seen):
    tell(seen, "1/0", called_at=8.0)  # but its entry precedes one that was acknowledged at 7


@violates(history.readings_show_all_acknowledged_entries_and_no_future_ones)
def an_acknowledged_entry_was_not_read(seen):
    del seen.ledgers[1].entries[B]


@violates(history.readings_show_all_acknowledged_entries_and_no_future_ones)
def an_entry_was_read_before_it_was_asked_for(seen):
    seen.ledgers[0].entries.append(deepcopy(seen.ledger[A]))


@violates(history.balances_are_those_of_the_ledger)
def an_acknowledged_charge_was_not_in_the_balance(seen):
    seen.balances[1] = dataclasses.replace(seen.balances[1], cents=100)


@violates(history.balances_are_those_of_the_ledger)
def a_balance_ran_ahead(seen):
    seen.balances[1] = dataclasses.replace(seen.balances[1], cents=97)


@pytest.mark.parametrize(("rule", "corrupt"), CORRUPTIONS, ids=[corrupt.__name__ for _, corrupt in CORRUPTIONS])
def test_a_planted_violation_is_found(rule, corrupt):
    seen = true_history()
    corrupt(seen)
    assert rule in [name for name, _ in history.violations(seen)]


def test_every_rule_has_a_planted_violation():
    assert {rule for rule, _ in CORRUPTIONS} == {rule.__name__ for rule in history.RULES}
