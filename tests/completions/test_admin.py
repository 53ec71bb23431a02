"""A completion in the admin, as a story: asked, held, tried, answered, charged, given back."""

import re
from decimal import Decimal

import pytest

from billing.models import Hold, LedgerEntry
from completions.models import Completion
from gateway_project.activity import list_values
from keys.models import RefusedRequest
from keys.refusal_history import collector
from tests import usage
from tests.completions.routes import add
from tests.completions.rows import ask, ask_streamed, begin, events
from tests.pages.conftest import make_staff, signed_in, superuser  # noqa: F401  fixtures
from tests.pages.desk_pages import words
from tests.upstream import CLOSE, ROLE, refusal, stream, streamed
from tests.upstream import words as said


@pytest.fixture
def told(superuser):  # noqa: F811
    """Return the words of the only completion's page."""

    def read():
        return words(page_of(superuser))

    return read


def page_of(client):
    reply = client.get(f"/admin/completions/completion/{Completion.objects.get().pk}/change/")
    assert reply.status_code == 200
    return reply.content.decode().partition('<details class="support-edit"')[0]


def test_a_completion_is_told_from_its_request_to_the_rest_of_its_hold(api, alice, large, told):
    reply = ask(api, user="u-1", metadata={"team": "search"})
    page, done, hold = told(), Completion.objects.get(), Hold.objects.get()
    steps = re.findall(r"Asked|Held|Tried|Answered|Charged|Given back", page.partition(" Took ")[2])
    assert steps == ["Asked", "Held", "Tried", "Answered", "Charged", "Given back"]
    assert (
        f"asked for a whole reply of acme/large with the key {done.key} . Input, estimated {done.prompt_estimate} tokens"
        in page
    )
    assert f"End user u-1 Tag team search Request ID {reply['x-request-id']}" in page
    assert "1 attempt scripted answered" in page
    assert "own token counts. After " in page
    assert "Input tokens 9 $3.00 $0.000027 Output tokens 2 $15.00 $0.00003 " in page.replace("$0.000030", "$0.00003")
    amounts = [Decimal(each) for each in re.search(r"Held \$([\d.]+) Charged \$([\d.]+) Given back \$([\d.]+)", page).groups()]
    assert amounts[0] == amounts[1] + amounts[2] == Decimal(hold.amount_nanos) / 10**9
    assert amounts[1] == Decimal(done.cost_nanos) / 10**9


def test_it_leads_to_its_account_key_hold_and_entry(api, alice, large, superuser):  # noqa: F811
    ask(api)
    done, page = Completion.objects.get(), page_of(superuser)
    for row in (alice, done.key, Hold.objects.get(), LedgerEntry.objects.get(reference=done.pk)):
        assert f'href="{list_values.page_of(row)}"' in page


def test_a_running_completion_says_what_is_yet_to_come(api, alice, large, upstream, told):
    upstream.will(streamed())
    _, rest = begin(ask_streamed(api), "Hello you")
    page = told()
    assert "acme/large running" in page
    assert "Answered not yet It still runs. Charged not yet Given back not yet" in page
    assert b"".join(rest)
    assert "acme/large succeeded" in told()


def test_attempts_that_failed_have_the_providers_words(api, alice, large, upstream, spare, told):
    add(large, spare)
    upstream.will(refusal(500, "their disk is full"))
    ask(api)
    assert re.search(r"2 attempts scripted failed \(status 500\): [^.]*their disk is full.* spare answered", told())


def test_one_that_failed_cost_nothing_and_says_what_its_caller_read(api, alice, large, upstream, told):
    upstream.will(refusal(500), refusal(500))
    ask(api)
    collector.write()
    page = told()
    assert "acme/large failed" in page
    assert "The provider failed." in page
    assert "Nothing was charged." in page
    held, back = re.search(r"Held (\$[\d.]+) Charged \$0\.0+ Given back (\$[\d.]+)", page).groups()
    assert held == back


def test_one_that_broke_off_is_cut_short(api, alice, large, upstream, told):
    upstream.will(stream(ROLE, said("Hello ", "you"), CLOSE))
    assert "error" in events(ask_streamed(api))[-1]
    page = told()
    assert "acme/large cut short" in page
    assert "Cut short: the input and what was relayed." in page


def test_no_provider_was_asked_while_all_routes_were_paused(api, alice, large, told):
    ask(api)
    Completion.objects.update(failed_attempts=[], attempts=0)
    assert "No provider was asked: all routes were paused after failures." in told()


def test_staff_are_led_only_to_what_they_may_view(api, alice, large):
    ask(api)
    reader = signed_in(make_staff("reader@example.org", ["completions.view_completion"]))
    page = page_of(reader)
    for hidden in ("/admin/billing/account/", "/admin/keys/apikey/", "/admin/billing/hold/", "/admin/billing/ledgerentry/"):
        assert f'href="{hidden}' not in page
    assert "asked for a whole reply of acme/large with the key test" in words(page)


def test_the_page_takes_no_more_queries_than_it_tells(api, alice, large, superuser, django_assert_max_num_queries):  # noqa: F811
    ask(api)
    with django_assert_max_num_queries(20):
        page_of(superuser)


def test_what_stays_of_an_archived_completion_is_told_by_its_entry(api, alice, large, superuser):  # noqa: F811
    ask(api)
    entry = LedgerEntry.objects.get(type="USAGE_DEBIT")
    page = words(superuser.get(f"/admin/billing/ledgerentry/{entry.pk}/change/").content.decode())
    assert "Asked for acme/large With the key" in page
    assert "Answered 9 tokens in, 2 out Charged -$0.000057" in page


def test_a_refused_request_is_told_too(api, alice, large, superuser):  # noqa: F811
    ask(api, model="acme/none")
    collector.write()
    refused = RefusedRequest.objects.get()
    page = words(superuser.get(f"/admin/keys/refusedrequest/{refused.pk}/change/").content.decode())
    assert re.search(r"Asked .* For acme/none, with the key test .* Refused 404 model_not_found .* Charged nothing", page)


def test_a_correction_and_what_it_corrects_lead_to_each_other(api, alice, large, superuser):  # noqa: F811
    ask(api)
    first = Completion.objects.get()
    fixed = {
        name: getattr(first, name) for name in ("account", "key", "model", "price", "provider", "spending_day", "is_stream")
    }
    ended = {"settlement": "corrected", "finished_at": first.finished_at, "prompt_tokens": 9, "completion_tokens": 4}
    usage.place(alice, 40_000, reference="chatcmpl-correction")
    Completion.objects.create(
        **(fixed | ended),
        id="chatcmpl-correction",
        counted_tokens=1,
        cost_nanos=30_000,
        repeats=first.pk,
        charged_before_nanos=first.cost_nanos,
    )
    of_first, of_second = [
        superuser.get(f"/admin/completions/completion/{each}/change/").content.decode()
        for each in (first.pk, "chatcmpl-correction")
    ]
    assert '/admin/completions/completion/chatcmpl-correction/change/">the correction</a>' in of_first
    assert f'/admin/completions/completion/{first.pk}/change/">the earlier run</a>' in of_second
    assert "Held $0.00004 Charged $0.00003 Given back $0.00001" in words(of_second)
