"""The search of the support desk: what it finds by each kind of term, for whom, and by which index."""

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from billing.ledger import writer
from billing.models import Hold, Payment, User
from completions.models import Completion, Price
from gateway_project.desk import search, short_ids
from keys.models import RefusedRequest
from tests import factories
from tests.pages.conftest import make_staff, owner_of, signed_in
from tests.pages.desk_pages import page_of

SEARCH = "/admin/search/"


def make_completion(key, **fields):
    model = factories.make_model()
    given = {
        "id": "chatcmpl-019aaf3e2bc470008000000000c41d9a"[:41],
        "account": key.account,
        "key": key,
        "model": model,
        "price": Price.objects.get(model=model),
        "provider": model.routes.get().provider,
        "is_stream": False,
        "spending_day": "2026-11-22",
        "counted_tokens": 1,
        "request_id": "req_019aaf3e2bc47000800000000000beef",
        "provider_request_id": "req_011CSHoEeqs5C35K2UUqR7Fy",
    }
    return Completion.objects.create(**given | fields)


@pytest.fixture
def desk(db):
    """A superuser, who may view everything."""
    return signed_in(User.objects.create_superuser("root@example.org", factories.PASSWORD))


@pytest.fixture
def secret(alice):
    """A key's secret, with its key."""
    return factories.make_key(alice, "laptop")


# --- One object -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("term", ["alice@example.org", "ALICE@Example", "alice@", "alice", " Alice ", "id", "half an id"])
def test_an_account_is_found_by_e_mail_name_and_id(desk, alice, charlie, term):
    term = {"id": str(alice.pk), "half an id": alice.pk.hex[:20]}.get(term, term)
    reply = desk.get(SEARCH, {"q": term})
    assert (reply.status_code, reply["Location"]) == (302, page_of(alice))


@pytest.mark.parametrize("term", ["north wind", "Trading Wind", "o'brien", "trad"])
def test_an_account_is_found_by_the_words_of_its_name(desk, alice, term):
    account = factories.make_account("North Wind Trading (O'Brien)")
    assert desk.get(SEARCH, {"q": term})["Location"] == page_of(account)


def test_a_term_of_many_words_asks_for_a_few_of_them_once_each(desk, alice):
    account = factories.make_account("North Wind Trading")
    with CaptureQueriesContext(connection) as captured:
        assert desk.get(SEARCH, {"q": "north " * 50})["Location"] == page_of(account)
        desk.get(SEARCH, {"q": " ".join(f"w{number}" for number in range(60))})
    asked = [query["sql"] for query in captured if "to_tsquery" in query["sql"]]
    assert asked
    assert max(sql.count(":*") for sql in asked) <= 10


@pytest.mark.parametrize("written", ["{secret}", "mgw_live_{id}", "{id}", "mgw_live_...{four}", "mgw_live_…{four}", "{four}"])
def test_a_key_is_found_by_its_secret_its_id_and_as_owners_see_it(desk, secret, written):
    key, text = secret
    term = written.format(secret=text, id=key.pk, four=key.last_four)
    assert desk.get(SEARCH, {"q": term})["Location"] == page_of(key)


@pytest.mark.parametrize("characters", [6, 10, 21])
def test_a_key_is_found_by_the_beginning_of_its_id(desk, secret, characters):
    key, _ = secret
    assert desk.get(SEARCH, {"q": key.pk[:characters]})["Location"] == page_of(key)
    assert desk.get(SEARCH, {"q": f"mgw_live_{key.pk[:characters]}"})["Location"] == page_of(key)


def test_a_completion_is_found_by_each_of_its_ids(desk, key):
    completion = make_completion(key)
    terms = [completion.pk, completion.request_id, completion.provider_request_id, short_ids.shorten(completion.pk)]
    assert {desk.get(SEARCH, {"q": term})["Location"] for term in terms} == {page_of(completion)}


def test_a_completion_is_found_before_its_hold_and_its_entry(desk, key):
    completion = make_completion(key)
    Hold.objects.create(reference=completion.pk, account=key.account, amount_nanos=1, expires_at="2026-11-22T12:00Z")
    assert desk.get(SEARCH, {"q": completion.pk})["Location"] == page_of(completion)


def test_a_hold_without_its_completion_is_found(desk, alice):
    hold = Hold.objects.create(reference="chatcmpl-lost", account=alice, amount_nanos=1, expires_at="2026-11-22T12:00Z")
    assert desk.get(SEARCH, {"q": "chatcmpl-lost"})["Location"] == page_of(hold)


def test_a_ledger_entry_is_found_by_its_id_and_its_payment(desk, alice, charlie):
    writer.credit_purchase(charlie, amount_cents=100, processor="stripe", payment_id="pi_other")
    entry = writer.credit_purchase(alice, amount_cents=100, processor="stripe", payment_id='pi_3"\\x').entry
    terms = [str(entry.pk), 'pi_3"\\x', 'pay:stripe:pi_3"\\x', short_ids.shorten(str(entry.pk))]
    assert [desk.get(SEARCH, {"q": term})["Location"] for term in terms] == [page_of(entry)] * 4


def test_a_refused_request_is_found_by_its_id(desk, key):
    refused = RefusedRequest.objects.create(
        key=key, at="2026-11-22T12:00Z", request_id="req_refused", status=429, code="rate_limit_exceeded", error="E"
    )
    assert desk.get(SEARCH, {"q": "req_refused"})["Location"] == page_of(refused)


def test_somebody_without_an_account_is_found(desk, db):
    user = factories.make_user("nobody@example.org")
    assert desk.get(SEARCH, {"q": "nobody@example.org"})["Location"] == page_of(user)


# --- Several, and nothing -----------------------------------------------------------------------------------------


# The catalog: the term, and what it leads to or lists, by the ends of their addresses.
CATALOG = [
    ("acme/large", ["languagemodel/acme_2Flarge"]),
    ("ACME/Lar", ["languagemodel/acme_2Flarge"]),
    ("arge", ["languagemodel/acme_2Flarge"]),
    ("Great Name", ["languagemodel/acme_2Flarge"]),
    ("upstreamer", ["provider/upstreamer"]),
    ("upstr", ["provider/upstreamer"]),
    ("vendor-model-7", ["route"]),
    ("VENDOR-MODEL-7", ["route"]),
    ("acme/large at upstreamer", ["route"]),
    ("acme/large at nowhere", []),
    ("ac", []),
    ("%", []),
    ("ac_e/large", []),
]


@pytest.mark.parametrize(("term", "pages"), CATALOG)
def test_models_providers_and_routes_are_found(desk, term, pages):
    provider = factories.make_provider("upstreamer")
    model = factories.make_model("acme/large", provider=provider, upstream_model="vendor-model-7", name="A Great Name")
    factories.make_model("other/small")
    reply = desk.get(SEARCH, {"q": term})
    ends = [page.replace("route", f"route/{model.routes.get().pk}") for page in pages]
    if not pages:
        assert reply.context["found"] == []
    else:
        assert [reply["Location"]] == [f"/admin/completions/{end}/change/" for end in ends]


def test_what_is_switched_off_says_so(desk):
    model = factories.make_model("acme/large", is_enabled=False)
    factories.make_model("acme/larger")
    found = {each.name: each.description for each in desk.get(SEARCH, {"q": "acme/large"}).context["found"]}
    assert found == {"acme/large": f"{model.name}, switched off", "acme/larger": "acme/larger"}


def test_several_are_listed_with_what_each_is(desk, alice, key):
    factories.make_account("Alice and daughters", cents=250)
    reply = desk.get(SEARCH, {"q": "alice"})
    assert [(each.kind, each.name, each.description) for each in reply.context["found"]] == [
        ("Account", "Alice", "balance $10.00"),
        ("Account", "Alice and daughters", "balance $2.50"),
    ]
    assert page_of(alice) in reply.content.decode()


def test_twenty_are_listed_and_the_page_says_that_there_are_more(desk, db):
    for number in range(22):
        factories.make_account(f"Branch {number}")
    reply = desk.get(SEARCH, {"q": "branch"})
    assert len(reply.context["found"]) == 20
    assert "More than 20 results" in reply.content.decode()


@pytest.mark.parametrize("term", ["nothing at all", "%", "_______", "' OR 1=1 --", "\x00", "9" * 301, "", ":*", "a\\b@", "…"])
def test_nothing_found_says_what_can_be_searched_for(desk, alice, key, term):
    reply = desk.get(SEARCH, {"q": term})
    assert reply.status_code in (200, 400)
    if reply.status_code == 200:
        assert reply.context["found"] == []
        assert "a member&#x27;s email address" in reply.content.decode()


def test_every_page_has_the_box(desk, alice):
    for path in ("/admin/", "/admin/billing/account/", page_of(alice), SEARCH):
        assert '<input type="search" name="q"' in desk.get(path).content.decode(), path


# --- Secrets ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", ["whole", "its last letter missing", "its end", "unknown"])
def test_a_secret_is_taken_out_of_what_is_posted_and_of_addresses(desk, secret, caplog, cut):
    key, text = secret
    if cut == "unknown":
        text = f"{text[:9]}{'0' * 22}{text[31:]}"
    given = {"its last letter missing": text[:-1], "its end": text[-38:]}.get(cut, text)
    posted = desk.post(SEARCH, {"q": given})
    assert posted.status_code == 302
    replies = [posted, desk.get(posted["Location"]), desk.get(SEARCH, {"q": given})]
    replies.append(desk.get("/admin/keys/apikey/", {"q": given}))
    replies += [Client().get(SEARCH, {"q": given}), Client().get("/admin/billing/account/", {"q": given})]
    for reply in replies:
        assert text[-38:-4] not in f"{reply.headers} {reply.content.decode()}"
    assert replies[3].status_code == 302
    assert text[-38:-4] not in caplog.text
    if cut != "unknown":
        assert replies[1]["Location"] == replies[2]["Location"] == page_of(key)


def test_a_search_needs_no_recent_password_and_changes_nothing(support_user, alice, key, rows):
    client = signed_in(support_user)
    session = client.session
    session["password_given_at"] = 0
    session.save()
    before = rows()
    assert client.post(SEARCH, {"q": "alice"})["Location"] == f"{SEARCH}?q=alice"
    assert rows() == before


# --- Who finds what -----------------------------------------------------------------------------------------------

VIEWS = {
    "billing.view_account": "alice@example.org",
    "billing.view_ledgerentry": "pi_1",
    "billing.view_payment": "cs_1",
    "billing.view_hold": "chatcmpl-lost",
    "billing.view_user": "nobody@example.org",
    "keys.view_apikey": "key",
    "keys.view_refusedrequest": "req_refused",
    "completions.view_completion": "req_019aaf3e2bc47000800000000000beef",
    "completions.view_languagemodel": "demo/echo",
    "completions.view_route": "demo/echo at echo",
}


@pytest.fixture
def everything(alice, key):
    make_completion(key)
    writer.credit_purchase(alice, amount_cents=100, processor="stripe", payment_id="pi_1")
    Payment.objects.create(account=alice, amount_cents=100, processor="stripe", is_live=True, session_id="cs_1")
    Hold.objects.create(reference="chatcmpl-lost", account=alice, amount_nanos=1, expires_at="2026-11-22T12:00Z")
    factories.make_user("nobody@example.org")
    refused = {"status": 429, "code": "rate_limit_exceeded", "error": "E"}
    RefusedRequest.objects.create(key=key, at="2026-11-22T12:00Z", request_id="req_refused", **refused)


@pytest.mark.parametrize("permission", VIEWS)
def test_staff_find_only_what_they_may_view(everything, key, permission):
    reader = signed_in(make_staff("reader@example.org", [permission]))
    for needed, term in VIEWS.items():
        reply = reader.get(SEARCH, {"q": key.pk if term == "key" else term})
        if needed == permission:
            assert reply.status_code == 302, term
        elif (needed, permission) != ("billing.view_account", "billing.view_user"):  # whose addresses they are
            assert reply.context["found"] == [], term
        assert reply.status_code == 302 or len(reply.context["terms"]) < len(VIEWS)


def test_nobody_else_finds_anything(everything, stranger, owner, powerless, alice):
    assert stranger.get(SEARCH, {"q": "alice"})["Location"].startswith("/accounts/login/?next=")
    assert owner.get(SEARCH, {"q": "alice"}).status_code in (302, 403)
    assert str(alice.pk) not in owner.get(SEARCH, {"q": "alice"}, follow=True).content.decode()
    assert "Your groups cannot view anything searchable." in powerless.get(SEARCH, {"q": "alice"}).content.decode()
    assert owner_of(alice).is_staff is False


# --- Plans --------------------------------------------------------------------------------------------------------

FILL = """
SET LOCAL session_replication_role = replica;  -- triggers would check each row for a minute
INSERT INTO billing_user (password, is_superuser, first_name, last_name, is_staff, is_active, date_joined, email)
    SELECT '', false, '', '', false, true, now(), 'person' || n || '@example.org' FROM generate_series(1, 20000) n;
INSERT INTO billing_account (id, name, is_active, balance_nanos, held_nanos, last_seq)
    SELECT md5('account' || n)::uuid, 'Company ' || md5(n::text), true, 1, 0, 1 FROM generate_series(1, 20000) n;
INSERT INTO billing_membership (account_id, user_id)
    SELECT md5('account' || substr(split_part(email, '@', 1), 7))::uuid, id
    FROM billing_user WHERE email LIKE 'person%';
INSERT INTO keys_apikey (id, account_id, name, digest, last_four)
    SELECT left(md5('key' || n), 22), md5('account' || n)::uuid, 'key', md5(n::text), left(md5('four' || n), 4)
    FROM generate_series(1, 20000) n;
INSERT INTO keys_formersecret (key_id, digest, last_four, ends_at)
    SELECT left(md5('key' || n), 22), md5('former' || n), left(md5('former' || n), 4), now() FROM generate_series(1, 20000) n;
INSERT INTO billing_ledgerentry (id, account_id, seq, type, amount_nanos, balance_after_nanos, reference, metadata)
    SELECT md5('entry' || n)::uuid, md5('account' || n)::uuid, 1, 'CREDIT_PURCHASE', 1, 1, 'pay:stripe:pi_' || n,
        jsonb_build_object('stripePaymentId', 'pi_' || n) FROM generate_series(1, 20000) n;
INSERT INTO billing_payment (id, account_id, amount_cents, currency, processor, is_live, status, failure, session_id, intent_id,
        page_url, refunded_cents, disputed_cents, debited_cents, debits, revision, billed_to)
    SELECT md5('payment' || n)::uuid, md5('account' || n)::uuid, 1, 'usd', 'stripe', true, 'OPEN', '', 'cs_' || n, 'pi_' || n,
        '', 0, 0, 0, 0, 0, '{}' FROM generate_series(1, 20000) n;
INSERT INTO billing_hold (reference, account_id, amount_nanos, state, created_at, expires_at, resolved_at)
    SELECT 'chatcmpl-' || md5(n::text), md5('account' || n)::uuid, 1, 'RELEASED', now(), now(), now()
    FROM generate_series(1, 20000) n;
INSERT INTO keys_refusedrequest (key_id, at, request_id, status, code, error, message, model)
    SELECT left(md5('key' || n), 22), now(), 'req_' || md5('refused' || n), 429, 'c', 'E', '', ''
    FROM generate_series(1, 20000) n;
INSERT INTO completions_completion (id, account_id, key_id, model_id, price_id, provider_id, is_stream, spending_day,
        counted_tokens, prompt_estimate, images, request_id, provider_request_id)
    SELECT 'chatcmpl-' || md5(n::text), md5('account' || n % 20000 + 1)::uuid, left(md5('key' || n % 20000 + 1), 22),
        'demo/echo', (SELECT id FROM completions_price), 'echo', false, '2026-11-22', 1, 1, 0, 'req_' || md5('ours' || n),
        'req_' || md5('theirs' || n) FROM generate_series(1, 40000) n;
SET LOCAL session_replication_role = origin;
"""
TERMS = [
    *("person77@example.org", "person77", "company aa", "pi_77", "pay:stripe:pi_77", "ab12", "mgw_live_…ab12"),
    *("c4ca4238-a0b9-2382-0dcc-509a6f75849b", "c4ca4238a0b9", "c4ca4238a0b9…849b", "mgw_live_c4ca4238a0b92"),
    *("6F75849B-0001", "6F75849B-2026-11"),
    *("chatcmpl-c4ca4238a0b923820dcc509a6f75849b", "chatcmpl-lost", "req_c4ca4238a0b923820dcc509a6f75849b"),
]
_SMALL = {"completions_languagemodel", "completions_price", "completions_provider", "completions_route"}


def test_every_search_reads_indexes(db):
    factories.make_model()
    with connection.cursor() as cursor:
        cursor.execute(FILL)
        cursor.execute("SELECT brin_summarize_new_values('completions_by_provider_request')")  # as autovacuum does
        cursor.execute("ANALYZE")
        read_whole = {finder.terms for finder in search.finders() if any(map(_scanned, _plans(finder)))}
        assert read_whole <= {"a provider's own ID of a request"}  # the planner takes its BRIN index to exclude nothing
        cursor.execute(search.NO_SEQUENTIAL_SCANS)
        assert not [plan for finder in search.finders() for plan in _plans(finder) if _scanned(plan)]


def _plans(finder):
    return [finder.find(term)[: search.FOUND_MAX + 1].explain() for term in TERMS]


def _scanned(plan):
    """Return the large tables that a plan reads from end to end."""
    return set(re.findall(r"Seq Scan on (\w+)", plan)) - _SMALL
