"""Every law of ``history`` finds what breaks it: one history that is true, and each violation planted in it once."""

import dataclasses
from collections.abc import Callable
from copy import deepcopy
from decimal import Decimal
from typing import Any

import pytest

from tests.live import history
from tests.live.history import BalanceReading, BookReading, Call, Entry, History

MODEL = "demo/model"
PRICES = {MODEL: (Decimal("0.0001"), Decimal("0.001"))}
CREDIT, A, B, LEFT, SILENT, RETRIED, LIMITED = range(7)  # places in the book


def whole(name: str, called_at: float, replied_at: float, completion_id: str, **more: Any) -> Call:
    told = {"status": 200, "completion_id": completion_id, "prompt_tokens": 10, "completion_tokens": 5, "max_tokens": 5}
    return Call(name, more.pop("key", "plain"), MODEL, called_at, replied_at, **{**told, **more})


def debit(completion_id: str, prompt: int, reply: int, cost: str, amount: int, after: int) -> Entry:
    facts = {"model": MODEL, "completionId": completion_id, "costInDollars": cost, "tokens": prompt + reply}
    facts |= {"promptTokens": prompt, "completionTokens": reply}
    return entry(f"entry of {completion_id}", "USAGE_DEBIT", amount, after, facts)


def entry(name: str, kind: str, amount: int, after: int, facts: dict[str, Any]) -> Entry:
    created_at = "2026-11-21T10:00:00.000Z"
    amounts = {"amountInCents": amount, "balanceAfterInCents": after}
    return {"id": name, "type": kind, **amounts, "metadata": facts, "createdAt": created_at}


def true_history() -> History:
    book = [
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
        books=[
            BookReading(0.1, 0.2, deepcopy(book[:1])),
            BookReading(4.2, 4.3, deepcopy(book[:3])),  # who left is charged later, or was by now
            BookReading(7.2, 7.3, deepcopy(book[:6])),
            BookReading(12.0, 12.1, deepcopy(book)),
        ],
        balances=[
            BalanceReading(0.0, 0.1, 100),
            BalanceReading(2.1, 2.2, 99),
            BalanceReading(7.1, 7.2, 97),
            BalanceReading(12.2, 12.3, 96),
        ],
        limits_cents={"limited": 1},
    )


def test_a_true_history_breaks_no_law():
    assert history.violations(true_history()) == []


# --- What may go wrong -------------------------------------------------------------------------------------------

Doctor = Callable[[History], object]
DOCTORS: list[tuple[str, Doctor]] = []


def breaks(law: Callable[[History], object]) -> Callable[[Doctor], Doctor]:
    def remember(doctor: Doctor) -> Doctor:
        DOCTORS.append((law.__name__, doctor))
        return doctor

    return remember


def everywhere(seen: History, place: int, **changes: Any) -> None:
    """Change an entry, and its metadata, in every reading, so that it was never otherwise."""
    for book in seen.books:
        for found in book.entries[place : place + 1]:
            found.update({name: value for name, value in changes.items() if name in found})
            found["metadata"].update({name: value for name, value in changes.items() if name not in found})


def tell(seen: History, name: str, **changes: Any) -> None:
    """Tell a client something else."""
    seen.calls[:] = [dataclasses.replace(call, **changes) if call.name == name else call for call in seen.calls]


@breaks(history.the_book_is_never_rewritten)
def an_entry_changed_after_it_was_read(seen):
    seen.book[A]["metadata"]["note"] = "corrected"


@breaks(history.the_book_is_never_rewritten)
def an_entry_vanished(seen):
    del seen.book[LEFT]


@breaks(history.the_book_is_never_rewritten)
def an_entry_was_slipped_in(seen):
    seen.book.insert(B, debit("late", 0, 0, "0.00", 0, 99))


@breaks(history.the_book_is_never_rewritten)
def a_later_reading_saw_less(seen):
    seen.books[1:3] = [dataclasses.replace(seen.books[1], entries=seen.books[2].entries), seen.books[1]]


@breaks(history.entries_are_unique)
def an_entry_is_there_twice(seen):
    seen.book.append(seen.book[LIMITED])


@breaks(history.amounts_chain)
def an_amount_is_not_what_changed(seen):
    everywhere(seen, LEFT, amountInCents=-1)


@breaks(history.shown_cents_are_the_floor_of_the_exact_balance)
def a_balance_was_rounded_up(seen):
    everywhere(seen, A, amountInCents=0, balanceAfterInCents=100)
    everywhere(seen, B, amountInCents=-2)


@breaks(history.no_balance_is_below_zero)
def usage_overdrew_the_account(seen):
    everywhere(seen, LIMITED, amountInCents=-98, balanceAfterInCents=-1)


@breaks(history.no_balance_is_below_zero)
def a_balance_was_below_zero_for_a_moment(seen):
    seen.balances[2] = dataclasses.replace(seen.balances[2], cents=-1)


@breaks(history.times_never_run_back)
def an_entry_is_older_than_the_one_before_it(seen):
    everywhere(seen, B, createdAt="2026-11-21T09:59:59.999Z")


@breaks(history.debits_cost_what_the_price_list_says)
def a_debit_is_a_nanodollar_too_dear(seen):
    everywhere(seen, LIMITED, costInDollars="0.006000001")


@breaks(history.debits_cost_what_the_price_list_says)
def tokens_do_not_add_up(seen):
    everywhere(seen, LEFT, tokens=7)


@breaks(history.money_is_conserved)
def a_cent_appeared(seen):
    seen.balances[-1] = dataclasses.replace(seen.balances[-1], cents=97)


@breaks(history.money_is_conserved)
def money_was_credited_that_nobody_gave(seen):
    seen.book.append(entry("gift", "SUPPORT_CREDIT", 1, 97, {}))
    seen.balances[-1] = dataclasses.replace(seen.balances[-1], cents=97)


@breaks(history.an_acknowledged_completion_is_debited_once)
def a_charge_was_lost(seen):
    del seen.book[LIMITED]


@breaks(history.an_acknowledged_completion_is_debited_once)
def who_left_after_the_head_pays_nothing(seen):
    for book in seen.books:
        del book.entries[LEFT : LEFT + 1]


@breaks(history.an_acknowledged_completion_is_debited_once)
def a_completion_was_charged_twice(seen):
    seen.book.append({**debit("limited", 10, 5, "0.006", 0, 96), "id": "another"})


@breaks(history.nothing_else_is_debited)
def a_refused_request_was_charged(seen):
    seen.book.append(debit("refused", 10, 5, "0.006", 0, 96))  # beside "silent", whose client left


@breaks(history.nothing_else_is_debited)
def somebody_was_charged_for_another_model(seen):
    seen.prices["demo/other"] = PRICES[MODEL]
    everywhere(seen, SILENT, model="demo/other")


@breaks(history.debits_say_what_clients_were_told)
def a_client_was_told_fewer_tokens(seen):
    tell(seen, "0/1", completion_tokens=4)


@breaks(history.debits_say_what_clients_were_told)
def a_client_was_told_another_model(seen):
    tell(seen, "0/1", model="demo/other")


@breaks(history.debits_say_what_clients_were_told)
def more_was_charged_than_allowed(seen):
    tell(seen, "1/0", max_tokens=1)


@breaks(history.a_retry_is_the_same_completion)
def a_retry_became_another_completion(seen):
    tell(seen, "1/3", completion_id="a")


@breaks(history.a_retry_is_the_same_completion)
def a_retry_ran_again(seen):
    tell(seen, "1/3", is_replayed=False)


@breaks(history.keys_spend_within_their_limits)
def a_key_spent_more_than_its_limit(seen):
    seen.limits_cents["limited"] = 0


@breaks(history.entries_stand_in_the_order_of_time)
def the_later_one_stands_first(seen):
    everywhere(seen, A, completionId="b")
    everywhere(seen, B, completionId="a")


@breaks(history.entries_stand_in_the_order_of_time)
def what_was_asked_for_later_stands_before(seen):
    tell(seen, "1/0", called_at=8.0)  # but it stands before what was answered at 7


@breaks(history.books_show_what_was_acknowledged_and_nothing_of_the_future)
def an_acknowledged_entry_was_not_to_be_read(seen):
    del seen.books[1].entries[B]


@breaks(history.books_show_what_was_acknowledged_and_nothing_of_the_future)
def an_entry_was_read_before_it_was_asked_for(seen):
    seen.books[0].entries.append(deepcopy(seen.book[A]))


@breaks(history.balances_are_those_of_the_book)
def an_acknowledged_charge_was_not_in_the_balance(seen):
    seen.balances[1] = dataclasses.replace(seen.balances[1], cents=100)


@breaks(history.balances_are_those_of_the_book)
def a_balance_ran_ahead(seen):
    seen.balances[1] = dataclasses.replace(seen.balances[1], cents=97)


@pytest.mark.parametrize(("law", "doctor"), DOCTORS, ids=[doctor.__name__ for _, doctor in DOCTORS])
def test_a_planted_violation_is_found(law, doctor):
    seen = true_history()
    doctor(seen)
    assert law in [name for name, _ in history.violations(seen)]


def test_every_law_can_be_broken():
    assert {law for law, _ in DOCTORS} == {law.__name__ for law in history.LAWS}
