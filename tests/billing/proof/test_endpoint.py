"""GET /api/billing/ledger/proof, for the account of the API key."""

from datetime import timedelta

import pytest

from billing import views
from billing.models import LedgerRoot
from billing.proof import roots
from gateway_project.db import pool
from tests import factories
from tests.billing.proof.script import PROOF
from tests.conftest import client_for


@pytest.fixture
def signed(bob, entries):
    """Sign three roots over Bob's entries, of which the last two are newer than the roots."""
    for hours in range(3):
        roots.sign_hour(pool.database_time() + timedelta(hours=hours))
    factories.credit(bob, 5)
    factories.credit(bob, 5)


def test_an_account_without_entries_has_no_proof_yet(bob, bobs_client):
    nothing = {"head": None, "root": None, "inclusion": None, "entries": [], "roots": []}
    assert bobs_client.get(PROOF).json() == {"account": str(bob.pk), **nothing}
    assert bobs_client.get(PROOF, {"afterEntry": 0, "afterRoot": 0}).json() == {"account": str(bob.pk), **nothing}


def test_the_proof_has_the_head_the_latest_root_and_what_includes_the_account(bob, bobs_client, signed):
    proof = bobs_client.get(PROOF).json()
    assert proof["account"] == str(bob.pk)
    assert proof["head"] == {"entry": 38, "hash": bob.entries.get(seq=38).hash.hex()}
    assert proof["root"]["number"] == 3
    assert proof["root"]["statement"] == LedgerRoot.objects.get(pk=3).statement
    assert (proof["inclusion"]["entry"], proof["inclusion"]["hash"]) == (36, bob.entries.get(seq=36).hash.hex())
    assert (proof["entries"], proof["roots"]) == ([], [])


def test_the_head_is_never_before_the_entry_that_the_root_includes(bob, bobs_client, signed, monkeypatch):
    select = views.ProofView.select

    def book_meanwhile(view, selection):  # when the account is read already
        factories.credit(bob, 5)
        roots.sign_hour(pool.database_time() + timedelta(hours=3))
        return select(view, selection)

    monkeypatch.setattr(views.ProofView, "select", book_meanwhile)
    proof = bobs_client.get(PROOF).json()
    assert proof["head"]["entry"] == proof["inclusion"]["entry"] == 39


def test_a_root_is_named_by_its_number(bobs_client, signed):
    assert bobs_client.get(PROOF, {"root": 2}).json()["root"]["number"] == 2


def test_entries_and_roots_after_what_the_caller_has_come_in_pages(bob, bobs_client, signed):
    hashes = [hash.hex() for hash in bob.entries.order_by("seq").values_list("hash", flat=True)]
    first = bobs_client.get(PROOF, {"afterEntry": 5, "afterRoot": 1, "limit": 30}).json()
    assert [each["hash"] for each in first["entries"]] == hashes[5:35]
    assert [each["number"] for each in first["roots"]] == [2, 3]
    assert first["roots"][1] == first["root"]
    rest = bobs_client.get(PROOF, {"afterEntry": 35, "afterRoot": 3}).json()
    assert ([each["hash"] for each in rest["entries"]], rest["roots"]) == (hashes[35:], [])
    assert bobs_client.get(PROOF, {"afterEntry": 38}).json()["entries"] == []


def test_what_is_wrong_is_named(bobs_client, signed, subtests):
    for query, message in (
        ({"root": 4}, "root must be at most 3, the number of the last root."),
        ({"root": 0}, "root must be an integer between 1 and 9223372036854775807."),
        ({"root": "latest"}, "root must be an integer between 1 and 9223372036854775807."),
        ({"afterEntry": 39}, "afterEntry must be at most 38, the number of the last entry."),
        ({"afterEntry": -1}, "afterEntry must be an integer between 0 and 9223372036854775807."),
        ({"afterRoot": 4}, "afterRoot must be at most 3, the number of the last root."),
        ({"afterRoot": ""}, "afterRoot must not be empty."),
        ({"limit": 1001}, "limit must be an integer between 1 and 1000."),
    ):
        with subtests.test(str(query)):
            reply = bobs_client.get(PROOF, query)
            assert (reply.status_code, reply.json()["error"]["message"]) == (400, message)
            assert reply.json()["error"]["param"] == next(iter(query))


def test_no_other_account_is_in_a_proof(bob, charlie, bobs_client, signed):
    factories.credit(charlie, 5)
    text = bobs_client.get(PROOF, {"afterEntry": 0, "afterRoot": 0}).content.decode()
    assert str(charlie.pk) not in text
    assert client_for(None).get(PROOF).status_code == 401


def test_a_root_from_before_the_account_does_not_include_it(alice, bob, bobs_client):
    roots.sign_hour(pool.database_time())
    factories.credit(bob, 5)
    proof = bobs_client.get(PROOF).json()
    assert (proof["root"]["number"], proof["inclusion"], proof["head"]["entry"]) == (1, None, 1)
