"""The status page and its feed: what works now and on each day, from completions, and incidents that staff write."""

import html
import re
from datetime import timedelta
from xml.etree import ElementTree

import pytest
from django.db import IntegrityError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from billing.models import User
from completions import tasks
from completions.models import Incident, IncidentUpdate, Provider, Route, UptimeSums
from completions.public import facts, status
from completions.statistics import measurements, uptime
from gateway_project.activity.models import Activity
from gateway_project.web import public_page
from tests import factories
from tests.outage import with_the_database_unavailable
from tests.pages.conftest import signed_in
from tests.rankings.streams import streamed

OVERLOADED = {"provider": "echo", "status": 503, "reason": "overloaded"}
REFUSED = {**OVERLOADED, "status": 400}


def forget():
    for cache in (facts, status, public_page):
        cache.forget()


@pytest.fixture(autouse=True)
def _empty_caches():
    forget()
    yield
    forget()


@pytest.fixture
def caller(db, alice, charlie):
    factories.make_model("acme/large", name="Acme Large", maker="Acme")
    factories.make_model("acme/small", name="Acme Small", maker="Acme")
    return [(each, factories.make_key(each)[0]) for each in (alice, charlie)]


def ask(caller, model_id, answered, failed, *, hours_ago=0, reason=OVERLOADED):
    for _ in range(answered):
        streamed(caller[0], model_id, 100, 1_000, 50, hours_ago=hours_ago)
    for number in range(failed):
        no = {"settlement": "released", "failed_attempts": [reason]}
        streamed(caller[number % len(caller)], model_id, None, None, 0, hours_ago=hours_ago, **no)


def source(path="/status"):
    reply = Client().get(path)
    assert reply.status_code == 200
    return reply.content.decode()


def page(path="/status"):
    return html.unescape(" ".join(re.sub(r"<[^>]+>", " ", source(path)).split()))


def lines():
    """Return the state of each line, and its uptime, by the name."""
    found = re.findall(
        r'class="name">(?:<a[^>]*>)?([^<]+).*?class="state[^"]*">([^<]+).*?class="percent">([^<]+)', source(), re.S
    )
    return {name: (state, percent) for name, state, percent in found}


def test_the_page_of_a_model_shows_its_days_once_enough_requests_say_something(caller):
    ask(caller, "acme/large", 19, 1)
    ask(caller, "acme/small", 19, 0)
    tasks.sum_up_hours()
    assert "Requests answered on each of the last 90 days Acme Large Works 95 %" in page("/models/acme/large")
    assert "90 days" not in page("/models/acme/small")


def test_models_and_providers_show_what_answered_in_the_last_hour_and_on_each_day(caller):
    ask(caller, "acme/large", 19, 1)
    ask(caller, "acme/small", 2, 8)
    ask(caller, "acme/small", 30, 0, hours_ago=49)
    ask(caller, "acme/large", 0, 9, reason=REFUSED)  # what the caller asked for
    tasks.sum_up_hours()
    shown = lines()
    assert shown == {
        "Acme Large": ("Works", "95 %"),
        "Acme Small": ("Down", "80 %"),
        "echo": ("Degraded", "86.44 %"),
    }
    assert "1 model does not answer as it should right now." in page()
    worst = re.search(r'aria-label="(Acme Small[^"]+)"', source())[1]
    assert re.fullmatch(r"Acme Small: the worst day was \d+ \w+ \d+, with 20 % of requests answered", worst)
    strip = re.search(r'aria-label="Acme Small[^"]+" data-days="([^"]+)"', source())[1].split()
    assert (len(strip), strip[-1], strip[-2], max(strip[-4:-2])) == (uptime.DAYS, "20", "-", "100")
    today = timezone.now().date()
    days = dict(next(each for each in status.current().models if each.name == "Acme Small").days)
    assert len(days) == uptime.DAYS
    assert (days[today], days[today - timedelta(days=1)]) == (status.Count(2, 8), status.Count())
    assert sum(each.requests for each in days.values()) == 40


def test_the_failures_of_one_account_count_no_more_than_those_of_all_others(caller):
    """As (answered, failed of the one account, failed of others together) and what is counted as failed."""
    cases = [(0, 120, 0, 1), (0, 120, 1, 2), (0, 120, 7, 14), (30, 120, 0, 1), (0, 4, 6, 8), (0, 5, 5, 10), (3, 0, 0, 0)]
    for place, (answered, failed, others, counted) in enumerate(cases):
        model = factories.make_model(f"acme/case-{place}").pk
        ask(caller[:1], model, answered, failed)
        ask(caller[1:], model, 0, others)
        measured = measurements.measure_models(timezone.now() - timedelta(hours=2))[model] if answered + failed else None
        assert measured is None or (measured.answered, measured.failed) == (answered, counted), place
    tasks.sum_up_hours()
    sums = dict(UptimeSums.objects.filter(is_day=True, kind="model").values_list("subject", "failed"))
    assert sums == {f"acme/case-{place}": counted for place, (*_, counted) in enumerate(cases)}


def test_sums_are_the_same_however_often_and_in_how_many_runs_they_are_made(caller):
    def sums():
        rows = UptimeSums.objects.order_by("is_day", "since", "kind", "subject")
        return list(rows.values_list("is_day", "since", "kind", "subject", "answered", "failed"))

    ask(caller, "acme/large", 3, 2, hours_ago=30)
    tasks.sum_up_hours()
    first = sums()
    assert [(row[0], *row[2:]) for row in first] == [
        (is_day, kind, subject, 3, 2)
        for is_day in (False, True)
        for kind, subject in (("model", "acme/large"), ("provider", "echo"))
    ]
    tasks.sum_up_hours()
    assert sums() == first
    ask(caller, "acme/large", 1, 0)
    tasks.sum_up_hours()
    whole = UptimeSums.objects.filter(is_day=True, kind="model").values_list("answered", "failed")
    assert sorted(whole) in ([(1, 0), (3, 2)], [(4, 2)])  # two days, or one
    old = timezone.now() - timedelta(days=uptime.DAYS + 2)
    UptimeSums.objects.create(is_day=True, since=old, kind="model", subject="acme/large", answered=1, failed=0)
    tasks.sum_up_hours()
    assert not UptimeSums.objects.filter(since=old).exists()


def test_what_few_have_called_is_available_and_what_nobody_could_call_is_not_there(caller):
    ask(caller, "acme/large", 2, 0)
    later = Provider.objects.create(slug="later", kind="openai", api_key_env="NO_SUCH_KEY")
    Route.objects.filter(model="acme/small").update(provider=later)
    tasks.sum_up_hours()
    assert lines() == {"Acme Large": ("Available", "too few requests"), "echo": ("Available", "too few requests")}
    assert "No problems are known." in page()


def test_a_gateway_without_models_says_so(db):
    assert "No model can be called yet." in page()
    assert "No incidents in the last 90 days." in page()


def test_models_in_trouble_and_the_most_used_come_first_and_the_others_behind_a_link(db, monkeypatch):
    monkeypatch.setattr(status, "SHOWN_FIRST", 2)
    hour = timezone.now().replace(minute=0, second=0, microsecond=0)
    for number in range(5):
        factories.make_model(f"acme/{number}", name=f"Model {number}")
        counts = {"answered": 0, "failed": 50} if number == 4 else {"answered": 100 + number, "failed": 0}
        for is_day, since in ((False, hour), (True, hour.replace(hour=0))):
            UptimeSums.objects.create(is_day=is_day, since=since, kind="model", subject=f"acme/{number}", **counts)
    names = [name for name in lines() if name.startswith("Model")]
    assert names == ["Model 4", "Model 3"]
    assert "Show 3 more" in page()
    whole = page("/status?all=1")
    assert "Model 0" in whole
    assert "more" not in whole.partition("Each bar is a day")[0].rpartition("Models")[2]


def test_incidents_are_shown_while_they_last_and_for_ninety_days_and_in_the_feed(db):
    now = timezone.now()
    lasts = Incident.objects.create(title="Slow <models>", impact="minor", began_at=now - timedelta(hours=2))
    IncidentUpdate.objects.create(incident=lasts, at=now - timedelta(hours=1), text="We ask others.\n\nIt helps.")
    times = {"began_at": now - timedelta(days=3), "ended_at": now - timedelta(days=2)}
    Incident.objects.create(title="No sign-in", impact="major", **times)
    Incident.objects.create(title="Upgrade", impact="maintenance", began_at=now + timedelta(days=1))
    old = {"began_at": now - timedelta(days=99), "ended_at": now - timedelta(days=98)}
    Incident.objects.create(title="Long ago", impact="major", **old)
    text = page()
    assert "An incident is in progress." in text
    sections = re.split(r"In progress|Planned(?! maintenance)|Past incidents", text)
    assert "Slow <models> Some requests are affected" in sections[1]
    assert "We ask others. It helps." in sections[1]
    assert "Upgrade Planned maintenance" in sections[2]
    assert "No sign-in Most requests are affected" in sections[3]
    assert "Long ago" not in text
    reply = Client().get("/status.rss")
    assert reply["Content-Type"] == "application/rss+xml; charset=utf-8"
    items = ElementTree.fromstring(reply.content).findall("channel/item")
    assert [each.findtext("title") for each in items] == ["Slow <models>", "Upgrade", "No sign-in"]
    assert items[0].findtext("link") == f"http://testserver/status#incident-{lasts.pk}"
    assert "We ask others." in items[0].findtext("description")
    assert f'id="incident-{lasts.pk}" data-from="{lasts.began_at:%Y-%m-%d}">' in " ".join(source().split())
    assert 'type="application/rss+xml"' in source()


def test_staff_write_incidents_in_the_admin_and_that_is_recorded(db):
    root = signed_in(User.objects.create_superuser("root@example.org", factories.PASSWORD))
    form = {"title": "Slow", "impact": "minor", "began_at_0": "2026-11-25", "began_at_1": "09:00:00"}
    form |= {"ended_at_0": "", "ended_at_1": "", "updates-TOTAL_FORMS": "1", "updates-INITIAL_FORMS": "0"}
    form |= {"updates-0-at_0": "2026-11-25", "updates-0-at_1": "09:10:00", "updates-0-text": "We know."}
    for name in ("began_at_0", "updates-0-at_1"):
        of_other_script = {name: form[name].translate({ord("0") + digit: 0x660 + digit for digit in range(10)})}
        assert root.post("/admin/completions/incident/add/", {**form, **of_other_script}).status_code == 200
    assert root.post("/admin/completions/incident/add/", form).status_code == 302
    [incident] = Incident.objects.all()
    page = root.get("/admin/completions/incident/add/").content.decode()
    now = {"updates-0-at_0": "2026-11-25", "updates-0-at_1": "09:10:00", "updates-0-text": ""}
    unchanged = {f"initial-{name}": value for name, value in now.items() if "at" in name}
    assert 'name="initial-updates-0-at_0"' in page  # an update without words is none
    assert root.post("/admin/completions/incident/add/", {**form, **now, **unchanged, "title": "Short"}).status_code == 302
    assert not Incident.objects.get(title="Short").updates.exists()
    Incident.objects.filter(title="Short").delete()
    assert (incident.title, [each.text for each in incident.updates.all()]) == ("Slow", ["We know."])
    act = Activity.objects.filter(object_type="completions.incident").earliest("pk")
    assert (act.act, act.object_id, act.after["title"]) == ("ADDED", str(incident.pk), "Slow")
    with pytest.raises(IntegrityError, match="an_incident_ends_after_it_began"):
        Incident.objects.update(ended_at=incident.began_at - timedelta(seconds=1))


def test_the_page_reads_no_completion_and_its_queries_do_not_grow(caller):
    def queries():
        forget()
        facts.current()
        with CaptureQueriesContext(connection) as captured:
            source()
        return [each["sql"] for each in captured if "completions_" in each["sql"]]

    few = queries()
    assert not any("completions_completion " in sql or '"completions_completion"' in sql for sql in few)
    for number in range(5):
        factories.make_model(f"more/{number}")
        Incident.objects.create(title="x", began_at=timezone.now())
    more = queries()
    assert len(few) <= len(more) <= len(few) + 1  # the updates of incidents, once there are any


def test_the_page_is_the_same_for_everybody_and_shown_while_the_database_is_unavailable(caller, alice):
    reply = Client().get("/status")
    assert (reply["Cache-Control"], reply["Vary"], bool(reply.cookies)) == ("public, max-age=60", "Accept-Encoding", False)
    assert signed_in(alice.members.get()).get("/status").content == reply.content
    status.current()
    assert with_the_database_unavailable(lambda: Client().get("/status")).status_code == 200
    assert with_the_database_unavailable(lambda: Client().get("/status.rss")).status_code == 200
