"""/dashboard/ledger/: the statement with filters, at any depth, its CSV file, and the statements of months."""

import csv
import html
import io
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from billing import locks
from billing.ledger import movements, reading, writer
from billing.models import BillingDetails, LedgerEntry, Role, User
from gateway_project import identifiers
from gateway_project.db import pipelined_transaction
from gateway_project.text import dollars
from tests import chat, factories, usage
from tests.billing import guards
from tests.pages.conftest import make_staff, other_owner, owner, owner_of, signed_in  # noqa: F401  fixtures

LEDGER, CSV = "/dashboard/ledger/", "/dashboard/ledger.csv"


def text(reply):
    """Return the page's text without markup."""
    assert reply.status_code == 200, reply.content
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", reply.content.decode())).split())


def shown(client, **filters):
    reply = client.get(LEDGER, filters)
    assert reply.status_code == 200, reply.content
    return [str(row["entry"].pk) for row in reply.context["rows"]]


def downloaded(client, **filters):
    reply = client.get(CSV, filters)
    assert reply.status_code == 200
    return [line["id"] for line in csv.DictReader(io.StringIO(b"".join(reply).decode()))]


def spend(account, model, nanos=1_000_000, spender=None, tokens=(3, 4)):
    with transaction.atomic():
        entry = writer.debit_usage(
            locks.lock_account(account.pk),
            cost_nanos=nanos,
            reference=identifiers.short_uuid7(),
            model=model,
            prompt_tokens=tokens[0],
            completion_tokens=tokens[1],
            settlement="reported",
            spender=spender,
        )
        pipelined_transaction.execute(movements.write_statement(entries=[entry]))
    return LedgerEntry.objects.get(pk=entry.id)


def test_one_token_is_said_in_the_singular(owner, alice):  # noqa: F811
    spend(alice, "acme/small", tokens=(1, 0))
    spend(alice, "acme/large")
    page = text(owner.get(LEDGER))
    assert "acme/small, 1 token " in page
    assert "acme/large, 7 tokens " in page


@pytest.fixture
def bobs(bob):
    """Bob, signed in."""
    return signed_in(owner_of(bob))


def test_every_filter_selects_the_same_on_the_page_and_in_the_file(bobs, bob, entries, monkeypatch):
    monkeypatch.setattr("billing.statement_pages.ENTRIES_PER_PAGE", 100)
    key = factories.make_key(bob, "laptop")[0]
    entries = [spend(bob, "acme/large", spender=key.pk), *entries]
    day = entries[0].created_at.date()
    for filters, wanted in (
        ({}, entries),
        *(({"type": kind}, [each for each in entries if each.type == kind]) for kind in LedgerEntry.Type.values),
        ({"key": key.pk}, entries[:1]),
        ({"key": key.pk, "type": "REFUND_DEBIT"}, []),
        ({"model": "acme/large"}, entries[:1]),
        (
            {"model": "demo/echo", "type": "USAGE_DEBIT"},
            [each for each in entries if each.metadata.get("model") == "demo/echo"],
        ),
        ({"model": "acme/none"}, []),
        ({"since": day, "until": day}, entries),
        ({"until": day - timedelta(days=1)}, []),
        ({"since": day + timedelta(days=1)}, []),
    ):
        ids = [str(entry.pk) for entry in wanted]
        assert shown(bobs, **filters) == downloaded(bobs, **filters) == ids, filters


@pytest.mark.parametrize("filters", [{}, {"type": "USAGE_DEBIT"}, {"type": "SUPPORT_CREDIT"}, {"model": "demo/echo"}])
def test_pages_lead_to_the_end_and_back(bobs, entries, monkeypatch, filters):
    monkeypatch.setattr("billing.statement_pages.ENTRIES_PER_PAGE", 5)
    wanted = downloaded(bobs, **filters)
    reply = bobs.get(LEDGER, filters)
    assert (reply.context["first"], reply.context["newer"]) == (None, None)
    forward = [str(row["entry"].pk) for row in reply.context["rows"]]
    while reply.context["older"]:
        reply = bobs.get(LEDGER + reply.context["older"])
        forward += [str(row["entry"].pk) for row in reply.context["rows"]]
    assert forward == wanted
    reply = bobs.get(LEDGER + bobs.get(LEDGER, filters).context["last"])
    assert reply.context["older"] is None
    backward = [str(row["entry"].pk) for row in reply.context["rows"]]
    while reply.context["newer"]:
        reply = bobs.get(LEDGER + reply.context["newer"])
        backward = [str(row["entry"].pk) for row in reply.context["rows"]] + backward
    assert backward == wanted


@pytest.mark.parametrize("direction", ["older", "newer"])
def test_a_search_for_a_model_is_bounded_and_says_how_far_it_came(bobs, bob, monkeypatch, direction):
    monkeypatch.setattr(reading, "SEARCHED_MAX", 2)
    rare = [spend(bob, "rare" if number in (0, 4) else "demo/echo") for number in range(5)]
    reply = bobs.get(LEDGER, {"model": "rare", **({"newer": 0} if direction == "newer" else {})})
    pages = [[str(row["entry"].pk) for row in reply.context["rows"]]]
    while reply.context[direction]:
        assert "Searched 2 entries, back to" in text(reply)
        reply = bobs.get(LEDGER + reply.context[direction])
        pages.append([str(row["entry"].pk) for row in reply.context["rows"]])
    found = [str(rare[4].pk), str(rare[0].pk)]
    assert pages == [[each] if each else [] for each in (found[0], None, found[1])][:: 1 if direction == "older" else -1]
    assert downloaded(bobs, model="rare") == found


@pytest.mark.one_cell
def test_the_statement_reads_as_many_rows_and_queries_at_any_depth(bobs, bob, entries):
    def queries(**filters):
        with CaptureQueriesContext(connection) as captured:
            assert bobs.get(LEDGER, filters).status_code == 200
        return len(captured)

    few = queries()
    assert queries(newer=0) == few <= 8
    assert queries(older=2) == queries(type="REFUND_DEBIT") == few - 1  # no entry has a key whose name is asked for
    for number in range(20):
        factories.make_key(bob, f"key {number}")
    assert queries() == few


@pytest.mark.parametrize(
    ("filters", "at_fault"),
    [
        ({"type": "GIFT"}, "type"),
        ({"key": "nobody"}, "key"),
        ({"model": "x" * 201}, "model"),
        ({"since": "soon"}, "since"),
        ({"since": "2026-11-0\N{ARABIC-INDIC DIGIT THREE}"}, "since"),
        ({"since": "2026-11-22", "until": "2026-11-21"}, "until"),
        ({"older": "0"}, "older"),
        ({"older": str(2**63)}, "older"),
        ({"newer": "-1"}, "newer"),
    ],
)
def test_a_wrong_filter_is_marked_and_downloads_nothing(bobs, filters, at_fault):
    reply = bobs.get(LEDGER, filters)
    assert (reply.status_code, list(reply.context["form"].errors)) == (400, [at_fault])
    assert bobs.get(CSV, filters).status_code == 400


def test_a_row_opens_to_everything_the_entry_says_and_leads_to_its_request(api, alice, owner, echo_model):  # noqa: F811
    completion_id = chat.ask(api).json()["id"]
    entry = LedgerEntry.objects.get(reference=completion_id)
    page = text(owner.get(LEDGER))
    exact = f"Exact amount {dollars.format_usd(entry.amount_nanos)} Exact balance after"
    assert f"{exact} {dollars.format_usd(entry.balance_after_nanos)} Input tokens" in page
    assert f"Charged by the provider's token counts Key test Model demo/echo Request {completion_id} Entry 2 {entry.pk}" in page
    markup = owner.get(LEDGER).content.decode()
    assert f'href="/dashboard/requests/{completion_id}/"' in markup
    assert owner.get(f"/dashboard/requests/{completion_id}/").status_code == 200
    assert f'href="{LEDGER}?key={entry.spender}"' in markup
    assert "open>" not in markup


def test_an_entry_is_opened_by_its_id_where_it_is(bobs, entries, other_owner):  # noqa: F811
    reply = bobs.get(LEDGER, {"entry": str(entries[30].pk)})
    assert [str(row["entry"].pk) for row in reply.context["rows"]] == [str(entry.pk) for entry in entries[30:]]
    assert f'<details id="entry-{entries[30].pk}" open>' in reply.content.decode()
    assert reply.context["newer"] is not None
    assert bobs.get(LEDGER, {"entry": str(entries[0].pk)}).context["newer"] is None
    for client, wanted in ((other_owner, entries[30].pk), (bobs, "nothing"), (bobs, entries[30].account_id)):
        assert client.get(LEDGER, {"entry": str(wanted)}).status_code == 404


# --- Months ----------------------------------------------------------------------------------------------------------


def test_a_month_adds_up_from_its_opening_to_its_closing_balance_by_type_and_by_model(bob, bobs):
    september, october, november = (datetime(2025, month, 1, tzinfo=UTC) for month in (9, 10, 11))
    booked = [
        (september, factories.credit(bob, 1_000)),
        (october, spend(bob, "acme/large", 1_500_000_000)),
        (october, spend(bob, "acme/large", 250_000_001)),
        (october, spend(bob, "acme/small", 3)),
        (november - timedelta(microseconds=1), factories.credit(bob, 500)),
        (november, spend(bob, "acme/small", 7_000_000)),
    ]
    guards.remove("billing_ledgerentry")
    for seq, (at, _) in enumerate(booked, 1):
        LedgerEntry.objects.filter(account=bob, seq=seq).update(created_at=at)
    shown = text(bobs.get(f"{LEDGER}2025/10/"))
    in_october = "Support credit (1) $5.000000000 Usage (3) -$1.750000004"
    assert f"Opening balance, 1 Oct 2025, 00:00 UTC $10.000000000 {in_october}" in shown
    assert "Closing balance, 1 Nov 2025, 00:00 UTC $13.249999996" in shown
    assert "acme/large 2 14 $1.750000001 acme/small 1 7 $0.000000003 Total 3 21 $1.750000004" in shown
    assert "This month is not over" not in shown
    shown = text(bobs.get(f"{LEDGER}2025/11/"))
    assert "Opening balance, 1 Nov 2025, 00:00 UTC $13.249999996 Usage (1) -$0.007000000 Closing balance" in shown
    shown = text(bobs.get(f"{LEDGER}2025/9/"))
    assert "Opening balance, 1 Sep 2025, 00:00 UTC $0.00 Support credit (1) $10.00 Closing balance" in shown
    assert "Usage by model" not in shown


def test_money_that_came_back_is_no_payment_of_the_month(bob, bobs):
    paid = usage.pay(bob, 2_000, "pi_1")
    usage.refund(bob, 2_000, "dispute")
    with transaction.atomic():
        writer.return_refund(
            locks.lock_account(bob.pk),
            paid,
            amount_cents=2_000,
            reference="pi_1:2",
            reason="Disputed payment reinstated by the bank",
        )
    now = paid.credit.created_at
    shown = text(bobs.get(f"{LEDGER}{now:%Y/%-m}/"))
    assert "Payment (1) $20.00 Refund returned (1) $20.00 Refund (1) -$20.00 Balance now $20.00" in shown
    listed = text(bobs.get(LEDGER))
    assert "Refund returned Disputed payment reinstated by the bank Exact amount $20.00" in listed
    root = signed_in(User.objects.create_superuser("root@example.org", factories.PASSWORD))
    assert "Payment (1) $20.00 Refund returned (1) $20.00 Refund (1) -$20.00" in text(root.get("/admin/"))


def test_the_running_month_is_linked_and_says_that_it_is_not_over(bobs, entries):
    links = re.findall(rf'href="({LEDGER}\d+/\d+/)"', bobs.get(LEDGER).content.decode())
    [link] = {each for each in links if each == f"{LEDGER}{entries[0].created_at:%Y/%-m}/"}
    shown = text(bobs.get(link))
    assert "This month is not over: figures may still change." in shown
    assert f"Balance now {dollars.format_usd(entries[0].balance_after_nanos)}" in shown


@pytest.mark.parametrize("month", ["0/1", "2026/0", "2026/13", "9999/12", "99999999999999999999/1", "2100/1"])
def test_a_month_that_has_not_begun_or_is_none_is_not_found(bobs, month):
    assert bobs.get(f"{LEDGER}{month}/").status_code == 404


def test_a_month_names_the_address_to_those_who_may_pay(bob, bobs):
    BillingDetails.objects.create(account=bob, name="Bob Ltd", address="1 High Street", tax_id="GB 1")
    viewer = factories.make_user("viewer@example.org")
    factories.add_member(account=bob, user=viewer, role=Role.VIEWER)
    path = f"{LEDGER}2026/1/"
    assert "Bob Bob Ltd 1 High Street Tax ID GB 1" in text(bobs.get(path))
    assert "High Street" not in text(signed_in(viewer).get(path))


def test_staff_find_a_month_by_its_number_with_the_figures_of_its_account(bob, bobs, entries, charlie):
    month = entries[0].created_at
    shown = text(bobs.get(f"{LEDGER}{month:%Y/%-m}/"))
    number = f"{bob.pk.hex[-8:].upper()}-{month:%Y-%m}"
    assert f"Number {number}" in shown
    desk = signed_in(make_staff("desk@example.org", ["billing.view_account", "billing.view_ledgerentry"]))
    page = f"/admin/billing/account/{bob.pk}/months/{month:%Y/%-m}/"
    for written in (number, number.lower(), f"Statement {number}"):
        assert desk.get("/admin/search/", {"q": written})["Location"] == page
    assert f"Balance now {dollars.format_usd(entries[0].balance_after_nanos)}" in text(desk.get(page))
    assert page in desk.get(f"/admin/billing/account/{bob.pk}/change/").content.decode()
    for other in (f"{charlie.pk.hex[-8:]}-{month:%Y-%m}", f"{number[:8]}-2026-13", f"{number[:8]}-0000-01"):
        assert desk.get("/admin/search/", {"q": other}).get("Location") != page
    viewer = signed_in(make_staff("viewer@example.org", ["billing.view_account"]))
    assert viewer.get(page).status_code == 403
    assert desk.get(f"/admin/billing/account/{bob.pk}/months/2100/1/").status_code == 404


def test_the_statement_has_the_last_entry_with_its_hash_for_the_program_that_verifies_it(owner, alice):  # noqa: F811
    for account, nanos in ((alice, 1), (alice, 2)):
        spend(account, "demo/echo", nanos)
    last = LedgerEntry.objects.filter(account=alice).latest("seq")
    witness = f"{last.seq}:{last.hash.hex()}"
    assert f"Last entry and SHA-256: {witness} . Keep them" in text(owner.get(LEDGER))
    assert "verify_statement.py" in text(owner.get(LEDGER))
    assert witness not in text(owner.get(LEDGER, {"type": "SUPPORT_CREDIT"}))
    assert f"Last entry and SHA-256 {witness}" in text(owner.get(f"{LEDGER}{last.created_at:%Y/%m}/"))
    assert last.hash.hex() in text(owner.get(LEDGER, {"entry": str(last.pk)}))
