"""The dashboard's overview, statement and keys. Users of other accounts cannot open them."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from billing.ledger import writer
from billing.models import Account, Role
from keys import summaries
from keys.limits import spending
from keys.models import ApiKey
from tests import factories, outage, stepped_clock, usage
from tests.conftest import client_for
from tests.pages.conftest import owner_of, session_texts, signed_in
from tests.pages.dashboard_pages import text, use

SECRET = re.compile(r"mgw_live_[0-9A-Za-z]{22}_[0-9A-Za-z]{38}")


def queries_of(client, path):
    with CaptureQueriesContext(connection) as captured:
        assert client.get(path).status_code == 200
    return len(captured)


def test_without_the_database_a_page_replies_503_in_words(owner):
    reply = outage.with_the_database_unavailable(lambda: owner.get("/dashboard/", headers={"accept": "text/html"}))
    assert (reply.status_code, reply["retry-after"]) == (503, "2")
    assert "database is not available right now." in reply.content.decode()


# --- Overview ----------------------------------------------------------------------------------------------------


def test_the_balance_is_one_number_rounded_down_with_the_exact_one_at_hand(owner, key):
    use(key, cost_nanos=195_000)
    reply = owner.get("/dashboard/")
    assert "Balance $9.99 exactly $9.999805 Held by running requests $0.00 Available $9.99" in text(reply)
    assert "cents" not in text(reply)
    shown = '<data class="usd" value="9.999805" tabindex="0">$9.99<span class="usd-exact"> exactly $9.999805</span></data>'
    assert f'<p class="balance">{shown}</p>' in reply.content.decode()


def test_what_running_requests_hold_is_shown(owner, alice):
    usage.place(alice, 250_000_000, reference="running", expires_at=timezone.now())
    page = text(owner.get("/dashboard/"))
    assert "Held by running requests $0.25" in page
    assert "Available $9.75" in page


def test_what_is_held_and_available_adds_up_to_the_balance(owner, key):
    use(key, cost_nanos=13_820_000)
    usage.place(key.account, 4_533_000, reference="running", expires_at=timezone.now())
    page = text(owner.get("/dashboard/"))
    assert "Balance $9.986180 Held by running requests $0.004533 Available $9.981647" in page
    assert "-$0.01382 $9.98618" in page  # the entry, and the balance after it


def test_an_empty_account_explains_the_next_steps(bob):
    reply = signed_in(owner_of(bob)).get("/dashboard/", headers={"host": "localhost:8123"})
    page = text(reply)
    assert "No credit yet. Add credit : it appears here as soon as you have paid. Latest entries" in page
    assert "Get started in three steps Add credit Requests are paid" in page
    assert 'href="/dashboard/keys/new/"' in reply.content.decode()
    assert "curl http://localhost:8123/v1/chat/completions" in page
    assert "No entries yet" in page
    assert "No spending in the last 30 days" not in page


def test_the_first_steps_show_how_far_the_account_is_until_a_request_was_answered(owner, alice):
    page = text(owner.get("/dashboard/"))
    assert "Add credit done Send your first request One button creates a key" in page
    assert "Create a key for it, with a limit of its own" in page
    assert "Waiting for your first request" not in page
    key, _ = factories.make_key(alice, "laptop")
    page = text(owner.get("/dashboard/"))
    assert "With a key in GATEWAY_API_KEY:" in page
    assert "Waiting for your first request. Refresh" in page
    use(key, cost_nanos=1, day=timezone.now().date() - timedelta(days=90))
    assert "Get started in three steps" not in text(owner.get("/dashboard/"))


def test_the_first_steps_offer_only_what_the_role_may_do(db):
    viewer = factories.make_user("viewer@example.org")
    factories.add_member(account=factories.make_account("New"), user=viewer, role=Role.VIEWER)
    page = text(signed_in(viewer).get("/dashboard/"))
    assert "No credit yet. An owner or billing member can add it. Latest entries" in page
    assert "An owner or developer can create a key and send it." in page
    assert "Create a key and send a request" not in page


def test_the_example_request_uses_the_address_of_the_api(owner, settings):
    settings.GATEWAY_API_HOST = "api.example.org"
    assert "curl http://api.example.org/v1/chat/completions" in text(owner.get("/dashboard/"))


def test_the_chart_has_a_bar_for_each_of_thirty_days_and_those_before(owner, key):
    today = timezone.now().date()
    use(key, cost_nanos=40_000_000, number=1)
    use(key, cost_nanos=20_000_000, number=2, day=today - timedelta(days=29))
    use(key, cost_nanos=70_000_000, number=3, day=today - timedelta(days=30))
    page = owner.get("/dashboard/").content.decode()
    values = [int(value) for value in re.findall(r'data-value="(\d+)"', page)]
    assert (values[::2], values[1::2]) == ([40_000_000, *[0] * 28, 20_000_000], [70_000_000, *[0] * 29])
    assert ">$0.06</data></strong> in the last 30 days" in page


def test_each_key_has_a_line_of_what_it_spent_on_thirty_days(owner, key, alice):
    today = timezone.now().date()
    for number, (nanos, ago) in enumerate([(40_000_000, 0), (20_000_000, 29), (70_000_000, 30)]):
        use(key, cost_nanos=nanos, number=number, day=today - timedelta(days=ago))
    factories.make_key(alice, "idle")
    for path in ("/dashboard/", "/dashboard/keys/"):
        page = owner.get(path).content.decode()
        [points] = re.findall(r'points="([^"]+)"', page)
        assert points.split()[1::2] == ["50", *["98"] * 28, "2"]
        assert f'aria-label="Spending per day: $0.04 on {today:%-d %b %Y}, the highest of 30 days"' in page
        assert f"No limit Set limit of laptop $0.06 {today:%-d %b %Y}" in text(owner.get(path))
        assert "No limit Set limit of idle - Never" in text(owner.get(path))


def test_the_chart_shows_no_other_accounts_spending(owner, key, charlie):
    use(key, cost_nanos=40_000_000, day=timezone.now().date() - timedelta(days=90))
    use(factories.make_key(charlie)[0], cost_nanos=40_000_000)
    assert "No spending in the last 30 days" in text(owner.get("/dashboard/"))


@pytest.mark.one_cell
def test_the_overview_takes_as_many_queries_for_many_keys_and_entries_as_for_one(owner, alice, key):
    use(key, cost_nanos=1)
    few = queries_of(owner, "/dashboard/")
    for number in range(30):
        use(factories.make_key(alice, f"key {number}", limit_cents=5, type="FIXED")[0], cost_nanos=1)
    assert queries_of(owner, "/dashboard/") == few <= 10


# --- Statement ---------------------------------------------------------------------------------------------------


def test_the_statement_shows_each_entry_in_rounded_dollars_with_the_exact_ones_at_hand(owner, key):
    use(key, cost_nanos=195_000, number=1)
    use(key, cost_nanos=195_000_250, number=2)
    reply = owner.get("/dashboard/ledger/").content.decode()
    page = " ".join(re.sub(r"<[^>]+>", " ", re.sub(r"<dl.*?</dl>", "", reply, flags=re.DOTALL)).split())
    assert "Usage demo/echo, 14 tokens -$0.195001 exactly -$0.19500025 $9.804804 exactly $9.80480475" in page
    assert "Usage demo/echo, 14 tokens -$0.000195 $9.999805" in page
    assert "Support credit test +$10.000000 $10.000000" in page


@pytest.mark.one_cell
def test_the_statement_takes_as_many_queries_for_many_entries_as_for_one(owner, alice, key):
    few = queries_of(owner, "/dashboard/ledger/")
    for number in range(30):
        use(key, cost_nanos=1, number=number)
    assert queries_of(owner, "/dashboard/ledger/") == few <= 8


def test_a_reason_is_shown_as_text(owner, alice):
    writer.grant_support_credit(alice.pk, amount_cents=1, reason="<script>alert(1)</script>", reference="x")
    assert "&lt;script&gt;alert(1)" in owner.get("/dashboard/ledger/").content.decode()


# --- Keys --------------------------------------------------------------------------------------------------------


def form_for(account, **fields):
    return {
        "account": str(account.pk),
        "name": "laptop",
        "last_day": "",
        "spending_type": "NONE",
        "spending_limit": "",
        "spending_period": "",
        **fields,
    }


def test_a_key_is_made_and_works(owner, alice):
    reply = owner.post("/dashboard/keys/new/", form_for(alice))
    secret = SECRET.search(text(reply))[0]
    key = ApiKey.objects.get()
    assert (key.account, key.name, key.created_by, key.expires_at) == (alice, "laptop", owner_of(alice), None)
    assert (key.spending_limit_cents, key.spending_type, key.spending_period) == (None, None, None)
    assert client_for(secret).get("/api/billing/balance").json()["balanceInCents"] == 1000


@pytest.mark.parametrize(
    ("type", "amount", "period", "kept"),
    [
        ("FIXED", "12.50", "", (1250, "FIXED", None)),
        ("FIXED", "$1,200", "", (120_000, "FIXED", None)),
        ("FIXED", "25,50", "", (2_550, "FIXED", None)),
        ("FIXED", "1.200,50", "", (120_050, "FIXED", None)),
        ("FIXED", "0", "", (0, "FIXED", None)),
        ("FIXED", "5", "DAILY", (500, "FIXED", None)),
        ("NONE", "", "DAILY", (None, None, None)),
        ("RECURRING", "5", "DAILY", (500, "RECURRING", "DAILY")),
        ("RECURRING", "0.01", "WEEKLY", (1, "RECURRING", "WEEKLY")),
        ("RECURRING", "9,223,372,036.85", "MONTHLY", (922_337_203_685, "RECURRING", "MONTHLY")),
    ],
)
def test_a_key_is_made_with_a_limit(owner, alice, type, amount, period, kept):
    owner.post("/dashboard/keys/new/", form_for(alice, spending_type=type, spending_limit=amount, spending_period=period))
    key = ApiKey.objects.get()
    assert (key.spending_limit_cents, key.spending_type, key.spending_period) == kept


def test_a_key_expires_at_the_end_of_its_last_day(owner, alice):
    owner.post("/dashboard/keys/new/", form_for(alice, last_day="2099-12-31"))
    assert ApiKey.objects.get().expires_at == datetime(2100, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("fields", "at_fault"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": "a\x00b"}, "name"),
        ({"last_day": "2020-01-01"}, "last_day"),
        ({"last_day": "9999-12-31"}, "last_day"),
        ({"last_day": "soon"}, "last_day"),
        ({"last_day": "209\N{ARABIC-INDIC DIGIT THREE}-01-01"}, "last_day"),
        ({"spending_type": ""}, "spending_type"),
        ({"spending_type": "WHENEVER"}, "spending_type"),
        ({"spending_limit": "5"}, "spending_type"),
        ({"spending_type": "FIXED"}, "spending_limit"),
        ({"spending_type": "FIXED", "spending_limit": "-5"}, "spending_limit"),
        ({"spending_type": "FIXED", "spending_limit": "5.001"}, "spending_limit"),
        ({"spending_type": "FIXED", "spending_limit": "1e3"}, "spending_limit"),
        ({"spending_type": "FIXED", "spending_limit": "NaN"}, "spending_limit"),
        ({"spending_type": "FIXED", "spending_limit": "1,5"}, "spending_limit"),
        ({"spending_type": "FIXED", "spending_limit": "٥"}, "spending_limit"),
        ({"spending_type": "FIXED", "spending_limit": "9223372036.86"}, "spending_limit"),
        ({"spending_type": "FIXED", "spending_limit": "9" * 5000}, "spending_limit"),
        ({"spending_type": "RECURRING", "spending_limit": "5"}, "spending_period"),
        ({"spending_type": "RECURRING", "spending_limit": "5", "spending_period": "YEARLY"}, "spending_period"),
    ],
)
def test_errors_are_shown_beside_their_field_and_input_is_kept(owner, alice, fields, at_fault):
    typed = form_for(alice, **{"name": "my laptop", **fields})
    reply = owner.post("/dashboard/keys/new/", typed)
    assert reply.status_code == 200
    form = reply.context["form"]
    assert list(form.errors) == [at_fault]
    assert f'id="id_{at_fault}_error"' in reply.content.decode()
    assert {name: form[name].value() for name in typed} == typed
    assert not ApiKey.objects.exists()


def test_a_secret_is_shown_once_and_stored_nowhere(owner, alice):
    reply = owner.post("/dashboard/keys/new/", form_for(alice))
    [secret] = SECRET.findall(reply.content.decode())
    assert "no-store" in reply["Cache-Control"]
    assert secret not in str(reply.headers) + str(owner.cookies) + session_texts()
    for path in [
        "/dashboard/",
        "/dashboard/keys/",
        "/dashboard/keys/new/",
        f"/dashboard/keys/{ApiKey.objects.get().pk}/limit/",
    ]:
        assert not SECRET.search(owner.get(path).content.decode())


def test_the_same_form_sent_again_makes_no_second_key_and_shows_no_secret(owner, alice):
    owner.post("/dashboard/keys/new/", form_for(alice))
    again = owner.post("/dashboard/keys/new/", form_for(alice))
    assert ApiKey.objects.count() == 1
    assert not SECRET.search(again.content.decode())
    assert "its secret was shown then" in text(again)


def test_the_name_of_a_revoked_key_may_be_used_again(owner, alice, key):
    owner.post(f"/dashboard/keys/{key.pk}/revoke/")
    owner.post("/dashboard/keys/new/", form_for(alice, name="laptop"))
    assert ApiKey.objects.filter(name="laptop", revoked_at=None).count() == 1


def test_a_limit_is_changed_and_cleared(owner, key):
    path = f"/dashboard/keys/{key.pk}/limit/"
    limit = {"spending_type": "RECURRING", "spending_limit": "7.50", "spending_period": "WEEKLY"}
    assert owner.post(path, limit)["Location"] == "/dashboard/keys/"
    assert "The spending limit of laptop is now: $7.50 per week." in text(owner.get("/dashboard/keys/"))
    key.refresh_from_db()
    assert (key.spending_limit_cents, key.spending_type, key.spending_period) == (750, "RECURRING", "WEEKLY")
    assert 'value="7.50"' in owner.get(path).content.decode()
    cleared = owner.post(path, {"spending_type": "NONE", "spending_limit": "", "spending_period": ""}, follow=True)
    assert "The spending limit of laptop is now: no limit." in text(cleared)
    key.refresh_from_db()
    assert (key.spending_limit_cents, key.spending_type, key.spending_period) == (None, None, None)


def test_no_limit_clears_the_limit_that_the_form_still_shows(owner, alice):
    key, _ = factories.make_key(alice, limit_cents=500, type="RECURRING", period="DAILY")
    left_over = {"spending_type": "NONE", "spending_limit": "5.00", "spending_period": "DAILY"}
    assert owner.post(f"/dashboard/keys/{key.pk}/limit/", left_over).status_code == 302
    key.refresh_from_db()
    assert (key.spending_limit_cents, key.spending_type, key.spending_period) == (None, None, None)


def test_no_limit_beside_another_amount_is_a_contradiction(owner, alice):
    key, _ = factories.make_key(alice, limit_cents=500, type="FIXED")
    changed = {"spending_type": "NONE", "spending_limit": "6", "spending_period": ""}
    assert list(owner.post(f"/dashboard/keys/{key.pk}/limit/", changed).context["form"].errors) == ["spending_type"]
    key.refresh_from_db()
    assert key.spending_limit_cents == 500


def test_a_form_without_its_fields_clears_no_limit(owner, alice):
    key, _ = factories.make_key(alice, limit_cents=500, type="FIXED")
    assert list(owner.post(f"/dashboard/keys/{key.pk}/limit/", {}).context["form"].errors) == ["spending_type"]
    key.refresh_from_db()
    assert key.spending_limit_cents == 500


def test_viewing_pages_writes_nothing(owner, key, rows):
    before = rows()
    for path in ["", "ledger/", "keys/", "keys/new/", f"keys/{key.pk}/limit/", f"keys/{key.pk}/revoke/"]:
        assert owner.get(f"/dashboard/{path}").status_code == 200
    assert rows() == before


def test_a_revoked_key_is_refused_at_once(owner, alice):
    key, secret = factories.make_key(alice)
    assert client_for(secret).get("/api/billing/balance").status_code == 200
    assert "Revoke test?" in text(owner.get(f"/dashboard/keys/{key.pk}/revoke/"))
    assert owner.post(f"/dashboard/keys/{key.pk}/revoke/")["Location"] == "/dashboard/keys/"
    assert client_for(secret).get("/api/billing/balance").status_code == 401
    listed = text(owner.get("/dashboard/keys/"))
    assert "test is revoked. Requests with it are now refused." in listed
    assert "Revoked" in listed


def test_revoking_twice_keeps_the_first_time(owner, key):
    owner.post(f"/dashboard/keys/{key.pk}/revoke/")
    first = ApiKey.objects.get().revoked_at
    assert owner.post(f"/dashboard/keys/{key.pk}/revoke/").status_code == 302
    assert ApiKey.objects.get().revoked_at == first


def test_a_revoked_key_has_no_limit_to_change(owner, key, rows):
    owner.post(f"/dashboard/keys/{key.pk}/revoke/")
    before = rows()
    limit = {"spending_type": "FIXED", "spending_limit": "1"}
    assert owner.post(f"/dashboard/keys/{key.pk}/limit/", limit).status_code == 404
    assert rows() == before


@pytest.mark.parametrize(
    ("type", "period"), [("FIXED", None), ("RECURRING", "DAILY"), ("RECURRING", "WEEKLY"), ("RECURRING", "MONTHLY")]
)
def test_the_page_shows_the_same_window_as_admission(alice, type, period):
    key, _ = factories.make_key(alice, limit_cents=500, type=type, period=period)
    now = datetime(2026, 11, 19, 12, tzinfo=UTC)  # a Thursday
    stepped_clock.make()
    stepped_clock.step(now)
    for number, days_ago in enumerate([0, 2, 10, 40]):
        use(key, cost_nanos=10**number * 1_000_000, number=number, day=now.date() - timedelta(days=days_ago))
    usage.reserve(key, day=now.date(), amount_nanos=3)
    exact = spending.read_window(key)
    [summary] = summaries.summarize_keys([key], now)
    assert (summary.limit.spent_nanos, summary.limit.held_nanos) == (exact.spent_nanos, exact.held_nanos)
    assert (summary.limit.limit_nanos, summary.limit.available_nanos) == (5_000_000_000, exact.available_nanos)
    assert summary.limit.resets_at == exact.resets_at


def test_limits_per_minute_are_shown_whether_of_key_account_or_deployment(owner, alice, settings):
    key, _ = factories.make_key(alice, requests_per_minute=1)
    page = f"/dashboard/keys/{key.pk}/"
    assert "At most 1 request per minute" in text(owner.get(page))
    settings.KEY_TOKENS_PER_MINUTE = 50_000
    assert "At most 1 request and 50,000 tokens per minute" in text(owner.get(page))
    Account.objects.update(tokens_per_minute=100_000)
    assert "At most 1 request and 100,000 tokens per minute" in text(owner.get(page))
    assert "100,000 tokens per minute" in text(owner.get(f"/dashboard/keys/{alice.keys.get().pk}/limit/"))


def test_a_key_without_limits_per_minute_shows_how_many_requests_may_run_at_a_time(owner, alice):
    key, _ = factories.make_key(alice, requests_in_flight_max=7)
    page = text(owner.get(f"/dashboard/keys/{key.pk}/"))
    assert "At most 7 requests at a time" in page
    assert "per minute" not in page


def test_an_expired_key_is_shown_as_expired(owner, alice):
    factories.make_key(alice, expires_at=timezone.now() - timedelta(seconds=1))
    assert "Expired" in text(owner.get("/dashboard/keys/"))


@pytest.mark.one_cell
def test_the_list_of_keys_takes_as_many_queries_for_many_as_for_one(owner, alice, key):
    few = queries_of(owner, "/dashboard/keys/")
    for number in range(30):
        use(factories.make_key(alice, f"key {number}", limit_cents=5, type="FIXED")[0], cost_nanos=1)
    assert queries_of(owner, "/dashboard/keys/") == few <= 9  # one reads the database's time, one counts those that need an act


def test_the_list_of_keys_pages(owner, alice):
    for number in range(51):
        factories.make_key(alice, f"key {number}")
    assert [key.name for key in owner.get("/dashboard/keys/?page=2").context["keys"]] == ["key 0"]


# --- Others ------------------------------------------------------------------------------------------------------

KEY_PAGES = ["limit/", "revoke/"]
LIMIT = {"spending_type": "FIXED", "spending_limit": "1", "spending_period": ""}


@pytest.mark.parametrize("page", KEY_PAGES)
def test_an_anonymous_user_cannot_open_a_keys_pages(stranger, key, rows, page):
    before = rows()
    for reply in (stranger.get(f"/dashboard/keys/{key.pk}/{page}"), stranger.post(f"/dashboard/keys/{key.pk}/{page}", LIMIT)):
        assert reply.status_code == 302
        assert reply["Location"].startswith("/accounts/login/")
        assert reply.content == b""
    assert rows() == before


def test_an_anonymous_user_cannot_make_a_key(stranger, alice, rows):
    before = rows()
    assert stranger.post("/dashboard/keys/new/", form_for(alice)).status_code == 302
    assert rows() == before


@pytest.mark.parametrize("page", KEY_PAGES)
def test_another_owner_cannot_open_a_keys_pages(other_owner, key, rows, page):
    before = rows()
    for reply in (
        other_owner.get(f"/dashboard/keys/{key.pk}/{page}"),
        other_owner.post(f"/dashboard/keys/{key.pk}/{page}", LIMIT),
    ):
        assert reply.status_code == 404
        assert "laptop" not in reply.content.decode()
    assert rows() == before


def test_another_owner_cannot_make_a_key_in_this_account(other_owner, alice, charlie, rows):
    before = rows()
    assert "The selected account is now Charlie" in text(other_owner.post("/dashboard/keys/new/", form_for(alice)))
    assert rows() == before


@pytest.mark.parametrize("path", ["/dashboard/", "/dashboard/ledger/", "/dashboard/keys/"])
def test_another_owner_sees_nothing_of_this_account(other_owner, alice, key, path):
    use(key, cost_nanos=123_456_789)
    page = text(other_owner.get(path))
    assert "laptop" not in page
    assert "0.123456789" not in page


def test_support_cannot_open_an_accounts_dashboard(support, alice, key, rows):
    before = rows()
    for path in ["", "ledger/", "keys/", "keys/new/", f"keys/{key.pk}/limit/", f"keys/{key.pk}/revoke/"]:
        assert support.get(f"/dashboard/{path}").status_code == 403
    assert support.post(f"/dashboard/keys/{key.pk}/revoke/").status_code == 403
    assert rows() == before


@pytest.mark.parametrize("key_id", ["0" * 22, "nope", "%00", "a%00b"])
def test_a_key_that_does_not_exist_is_not_found(owner, key_id):
    assert owner.get(f"/dashboard/keys/{key_id}/limit/").status_code == 404
    assert owner.post(f"/dashboard/keys/{key_id}/revoke/").status_code == 404


def test_concurrent_clicks_make_one_key(transactional_db, alice):
    from concurrent.futures import ThreadPoolExecutor

    clients = [signed_in(owner_of(alice)) for _ in range(4)]

    def click(client):
        try:
            return len(SECRET.findall(client.post("/dashboard/keys/new/", form_for(alice)).content.decode()))
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        assert sorted(threads.map(click, clients)) == [0, 0, 0, 1]
    assert ApiKey.objects.count() == 1
