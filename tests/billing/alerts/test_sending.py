"""Alerts reach webhook endpoints, signed and in spite of failures, and members by mail, once."""

import base64
import hashlib
import hmac
import json
import threading
import time
from datetime import timedelta
from ipaddress import ip_network

import pytest
from django.conf import settings
from django.core import mail
from django.db import connection
from django.utils import timezone

from billing import tasks
from billing.alerts import deliveries, endpoints, pages
from billing.alerts.endpoints import EndpointRefused
from billing.models import AccountAlert, AlertDelivery, Role, WebhookEndpoint
from billing.sign_in import mails
from gateway_project.activity.models import Activity
from tests import factories, usage
from tests.billing.alerts.deliveries import receiver, receiving, request_of_owner, sends_here
from tests.pages.conftest import signed_in

__all__ = ["receiver", "request_of_owner", "sends_here"]

pytestmark = pytest.mark.django_db(transaction=True)

CENT = 10_000_000


@pytest.fixture(autouse=True)
def _sends(sends_here):
    pass


@pytest.fixture
def endpoint(request_of_owner, alice, receiver):
    return endpoints.make(request_of_owner, alice, receiver.url)


def cross(account):
    """Take the balance of $10 below the threshold, $5."""
    usage.spend(account, account.balance_nanos - 499 * CENT)


def verified(received, secret):
    """Return the body, if the signature is by this secret: computed as the specification of Standard Webhooks says."""
    _, headers, body = received
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{body.decode()}"
    key = base64.b64decode(secret.split("_", 1)[1])
    digest = base64.b64encode(hmac.new(key, signed.encode(), hashlib.sha256).digest()).decode()
    assert f"v1,{digest}" in headers["webhook-signature"].split(" ")
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60
    return json.loads(body)


def later():
    """Let the time of every delivery's next attempt come."""
    AlertDelivery.objects.exclude(next_try_at=None).update(next_try_at=timezone.now() - timedelta(seconds=1))


def run_and_close(task):
    """Run a task in a thread of a test, whose database goes with the test."""
    try:
        task()
    finally:
        connection.close()


def states():
    return sorted(AlertDelivery.objects.exclude(endpoint=None).values_list("state", "tries"))


# --- Webhooks -----------------------------------------------------------------------------------------------------


def test_the_signature_is_that_of_the_specification():
    """The example of https://github.com/standard-webhooks/standard-webhooks."""
    headers = endpoints.build_headers(
        ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
        message_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        timestamp=1614265330,
        body=b'{"test": 2432232314}',
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_crossing_arrives_once_signed_with_the_secret_that_was_shown(alice, endpoint, receiver):
    cross(alice)
    assert [tasks.send_webhooks() for _ in range(3)] == [1, 0, 0]
    [received] = receiver.received
    alert = AccountAlert.objects.get()
    assert verified(received, endpoint[1]) == {
        "type": "balance.low",
        "timestamp": alert.created_at.isoformat().replace("+00:00", "Z"),
        "data": {"accountId": str(alice.pk), "balanceInDollars": "4.99", "thresholdInDollars": "5.00"},
    }
    path, headers, _ = received
    assert (path, headers["content-type"], headers["webhook-id"]) == (
        "/hook?of=ours",
        "application/json",
        f"warn_{alert.pk.hex}",
    )
    [delivery] = AlertDelivery.objects.exclude(endpoint=None)
    [attempt] = delivery.attempts
    assert (delivery.state, attempt["status"], attempt["reason"]) == ("DELIVERED", 204, "")
    assert endpoint[1] not in endpoint[0].sealed_secret


def test_after_a_rotation_both_secrets_verify_for_a_day(alice, endpoint, receiver, request_of_owner):
    made, old = endpoint
    new = endpoints.rotate(request_of_owner, made)
    cross(alice)
    tasks.send_webhooks()
    assert verified(receiver.received[0], old) == verified(receiver.received[0], new)
    WebhookEndpoint.objects.update(previous_until=timezone.now() - timedelta(seconds=1))
    made.refresh_from_db()
    assert endpoints.read_secrets(made) == [new]


@pytest.mark.parametrize(("status", "reason"), [(500, "it answered 500"), (302, "it answered 302"), (404, "it answered 404")])
def test_what_fails_is_tried_again_with_the_same_id_and_body(alice, endpoint, receiver, status, reason):
    receiver.statuses = [status, 200]
    cross(alice)
    tasks.send_webhooks()
    delivery = AlertDelivery.objects.exclude(endpoint=None).get()
    assert (delivery.state, delivery.attempts[0]["reason"], len(receiver.received)) == ("WAITING", reason, 1)
    assert delivery.next_try_at - timezone.now() < deliveries.PAUSES[0]
    assert tasks.send_webhooks() == 0  # not yet
    later()
    tasks.send_webhooks()
    first, second = receiver.received
    assert (first[1]["webhook-id"], first[2]) == (second[1]["webhook-id"], second[2])
    assert states() == [("DELIVERED", 2)]
    assert WebhookEndpoint.objects.get().failing_since is None


def test_after_the_last_attempt_it_is_given_up_and_may_be_sent_again(alice, endpoint, receiver, request_of_owner):
    receiver.statuses = [503]
    cross(alice)
    for _ in range(len(deliveries.PAUSES) + 3):
        tasks.send_webhooks()
        later()
    tries = len(deliveries.PAUSES) + 1
    assert (states(), len(receiver.received)) == ([("DEAD", tries)], tries)
    receiver.statuses = [200]
    alerts = [AlertDelivery.objects.get(endpoint=endpoint[0]).alert]
    assert [endpoints.send_again(request_of_owner, endpoint[0], alerts) for _ in range(2)] == [1, 0]
    tasks.send_webhooks()
    assert states() == [("DELIVERED", 1)]
    assert len({headers["webhook-id"] for _, headers, _ in receiver.received}) == 1


def test_an_endpoint_that_got_nothing_for_a_day_is_paused_and_its_managers_are_told(alice, endpoint, receiver):
    receiver.statuses = [500]
    for role, email in ((Role.DEVELOPER, "dev@example.org"), (Role.VIEWER, "view@example.org")):
        factories.add_member(account=alice, user=factories.make_user(email), role=role)
    cross(alice)
    tasks.send_webhooks()
    WebhookEndpoint.objects.update(failing_since=timezone.now() - deliveries.DISABLED_AFTER)
    for _ in deliveries.PAUSES:
        later()
        tasks.send_webhooks()
    paused = WebhookEndpoint.objects.get()
    assert (paused.is_paused, paused.disabled_at is None) == (True, False)
    told = [message.to[0] for message in mail.outbox if "webhook was paused" in message.subject]
    assert sorted(told) == sorted(["dev@example.org", alice.members.get(memberships__role="OWNER").email])
    assert Activity.objects.filter(act="ENDPOINT_CHANGED", actor=None, account_id=alice.pk).count() == 1


def test_an_endpoint_that_is_gone_is_paused_at_once(alice, endpoint, receiver):
    receiver.statuses = [410]
    cross(alice)
    tasks.send_webhooks()
    assert (states(), WebhookEndpoint.objects.get().is_paused) == ([("DEAD", 1)], True)


def test_a_paused_endpoint_gets_what_waited_when_it_goes_on_and_nothing_of_the_time_between(
    alice, endpoint, receiver, request_of_owner
):
    receiver.statuses = [500, 200]
    cross(alice)
    tasks.send_webhooks()
    endpoints.set_paused(request_of_owner, endpoint[0], is_paused=True)
    factories.credit(alice, 600)
    cross(alice)
    later()
    assert (tasks.send_webhooks(), len(receiver.received)) == (0, 1)
    endpoints.set_paused(request_of_owner, endpoint[0], is_paused=False)
    tasks.send_webhooks()
    assert len({headers["webhook-id"] for _, headers, _ in receiver.received}) == 1


def test_a_test_goes_to_its_endpoint_alone(alice, endpoint, receiver, request_of_owner):
    with receiving() as other:
        endpoints.make(request_of_owner, alice, other.url)
        endpoints.send_test(request_of_owner, endpoint[0])
        tasks.send_webhooks()
        tasks.mail_warnings()
        assert ([body["type"] for body in receiver.bodies], other.received, mail.outbox) == (["test"], [], [])


def test_tests_are_limited(endpoint, request_of_owner):
    for _ in range(endpoints.TESTS_MAX):
        endpoints.send_test(request_of_owner, endpoint[0])
    with pytest.raises(EndpointRefused):
        endpoints.send_test(request_of_owner, endpoint[0])


def test_an_endpoint_that_does_not_answer_delays_no_other_account(alice, charlie, endpoint, receiver, request_of_owner):
    """The other account's delivery arrives while the first one's server has not answered yet."""
    receiver.answers.clear()
    with receiving() as quick:
        endpoints.make(request_of_owner, charlie, quick.url)
        cross(alice)
        cross(charlie)
        run = threading.Thread(target=run_and_close, args=[tasks.send_webhooks])
        run.start()
        while not (quick.received and receiver.received):
            assert run.is_alive()
            time.sleep(0.01)
        receiver.answers.set()
        run.join()
    assert states() == [("DELIVERED", 1), ("DELIVERED", 1)]


def test_an_account_with_many_deliveries_leaves_others_their_turn(alice, charlie, endpoint, receiver, request_of_owner):
    with receiving() as other:
        endpoints.make(request_of_owner, charlie, other.url)
        for _ in range(10):
            AccountAlert.objects.create(account=alice, kind="PAYMENT_TAKEN_BACK", data={"reason": "x", "amount_nanos": 1})
        AccountAlert.objects.create(account=charlie, kind="PAYMENT_TAKEN_BACK", data={"reason": "x", "amount_nanos": 1})
        deliveries.prepare()
        claimed = deliveries.claim_webhooks(3)
        assert {each.alert.account_id for each in claimed} == {alice.pk, charlie.pk}


def test_a_claimed_delivery_is_claimed_by_no_other_run(alice, endpoint, receiver):
    cross(alice)
    deliveries.prepare()
    assert (len(deliveries.claim_webhooks(10)), len(deliveries.claim_webhooks(10))) == (1, 0)
    AlertDelivery.objects.update(next_try_at=timezone.now() - timedelta(seconds=1))  # its process died
    assert len(deliveries.claim_webhooks(10)) == 1


# --- Where webhooks may go ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        *("http://example.org/", "ftp://example.org/", "https://", "https://user:word@example.org/", "https://example.org/#a"),
        *("https://127.0.0.1/", "https://localhost/", "https://169.254.169.254/latest", "https://[::1]/", "https://10.0.0.1/"),
        *("https://2130706433/", "https://example.org/a b", "https://exämple.org/", "https://example.org:99999/"),
    ],
)
def test_addresses_that_nothing_is_sent_to_are_refused(alice, request_of_owner, settings, url):
    settings.GATEWAY_DEVELOPMENT, settings.PRIVATE_WEBHOOKS = False, []
    settings.PRIVATE_UPSTREAMS = [ip_network("127.0.0.0/8"), ip_network("10.0.0.0/8")]  # for providers, not for webhooks
    with pytest.raises(EndpointRefused):
        endpoints.make(request_of_owner, alice, url)
    assert not WebhookEndpoint.objects.exists()


def test_a_name_that_leads_to_a_private_address_is_not_connected_to(alice, endpoint, receiver, settings):
    WebhookEndpoint.objects.update(url=receiver.url.replace("127.0.0.1", "localhost"))
    settings.PRIVATE_WEBHOOKS = []
    settings.PRIVATE_UPSTREAMS = [ip_network("127.0.0.0/8"), ip_network("::1/128")]
    cross(alice)
    tasks.send_webhooks()
    delivery = AlertDelivery.objects.exclude(endpoint=None).get()
    assert (delivery.state, receiver.received) == ("WAITING", [])
    assert delivery.attempts[0]["reason"] == "its host name resolves to a private address, and we do not send there"


def test_outside_of_development_nothing_is_sent_without_tls(alice, endpoint, receiver, settings):
    settings.GATEWAY_DEVELOPMENT = False
    cross(alice)
    tasks.send_webhooks()
    assert (states(), receiver.received) == ([("WAITING", 1)], [])


def test_an_account_has_a_bounded_number_of_endpoints(alice, request_of_owner, receiver, settings):
    for _ in range(settings.ACCOUNT_WEBHOOKS_MAX):
        endpoints.make(request_of_owner, alice, receiver.url)
    with pytest.raises(EndpointRefused):
        endpoints.make(request_of_owner, alice, receiver.url)


# --- Mails --------------------------------------------------------------------------------------------------------


def test_owners_and_members_of_billing_get_one_mail_each(alice, settings):
    settings.GATEWAY_DEVELOPMENT = False  # no host is known
    for role in (Role.BILLING, Role.DEVELOPER, Role.VIEWER):
        factories.add_member(account=alice, user=factories.make_user(f"{role.lower()}@example.org"), role=role)
    cross(alice)
    assert [tasks.mail_warnings() for _ in range(2)] == [2, 0]
    owner = alice.members.get(memberships__role="OWNER").email
    assert sorted(message.to[0] for message in mail.outbox) == sorted([owner, "billing@example.org"])
    message = mail.outbox[0]
    assert message.subject == "Alice: The balance fell below $5.00"
    assert "It was $4.99 then." in message.body
    assert "Add credit:\n\nthe page Billing of the dashboard" in message.body
    assert len({each.extra_headers["Message-ID"] for each in mail.outbox}) == 2


def test_who_left_before_the_mail_was_sent_gets_none(alice):
    left = factories.add_member(account=alice, user=factories.make_user("left@example.org"), role=Role.BILLING)
    cross(alice)
    deliveries.prepare()
    left.delete()
    tasks.mail_warnings()
    assert [message.to[0] for message in mail.outbox] == [alice.members.get().email]
    assert AlertDelivery.objects.get(email="left@example.org").state == "DEAD"


def test_a_mail_that_the_server_does_not_take_is_tried_again(alice, settings):
    settings.EMAIL_BACKEND = "gateway_project.mail.NoBackend"
    cross(alice)
    tasks.mail_warnings()
    assert list(AlertDelivery.objects.values_list("state", "tries")) == [("WAITING", 1)]
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    later()
    tasks.mail_warnings()
    assert len(mail.outbox) == 1


def test_a_mail_beyond_the_limits_of_mails_says_so_and_is_tried_again(alice, settings):
    settings.MAILBOX_MAILS_PER_DAY = 2  # one at once
    mails.send(alice.members.get().email, "code_used_again", link="")
    cross(alice)
    tasks.mail_warnings()
    waiting = AlertDelivery.objects.get()
    assert (waiting.state, waiting.attempts[0]["reason"]) == ("WAITING", "the limit of mails of the mailbox is reached")


def test_an_account_gets_a_bounded_number_of_mails_a_day(alice):
    data = {"reason": "x", "amount_nanos": 1}
    for _ in range(deliveries.MAILS_A_DAY_MAX + 5):
        AccountAlert.objects.create(account=alice, kind="PAYMENT_TAKEN_BACK", data=data)
    deliveries.prepare()
    assert AlertDelivery.objects.count() == deliveries.MAILS_A_DAY_MAX


def test_two_runs_at_once_prepare_and_send_each_once(alice, endpoint, receiver):
    cross(alice)
    runs = [
        threading.Thread(target=run_and_close, args=[task])
        for task in (tasks.send_webhooks, tasks.mail_warnings)
        for _ in range(3)
    ]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    tasks.send_webhooks()
    tasks.mail_warnings()
    assert (len(receiver.received), len(mail.outbox)) == (1, 1)


def test_old_alerts_are_deleted_with_their_deliveries(alice, endpoint):
    cross(alice)
    deliveries.prepare()
    assert tasks.forget_old_warnings() == 0
    AccountAlert.objects.update(created_at=timezone.now() - timedelta(days=settings.RETENTION_WARNING_DAYS))
    assert tasks.forget_old_warnings() == 1
    assert not AlertDelivery.objects.exists()


# --- Sent again ---------------------------------------------------------------------------------------------------

PAGE = "/dashboard/alerts/webhooks/"


@pytest.fixture
def owner(alice):
    return signed_in(alice.members.get())


def happen(alice, number: int) -> list[AccountAlert]:
    """Let events happen, a day apart, the last one now."""
    data = {"threshold_nanos": 5_000_000_000, "balance_nanos": 4_982_310_000}
    days = [timezone.now() - timedelta(days=day) for day in reversed(range(number))]
    return [AccountAlert.objects.create(account=alice, kind="BALANCE_LOW", data=data, created_at=day) for day in days]


def ids(receiver) -> list[str]:
    return [headers["webhook-id"] for _, headers, _ in receiver.received]


def send_all() -> None:
    AlertDelivery.objects.filter(state="WAITING").update(next_try_at=timezone.now())
    tasks.send_webhooks()


def told(alert: AccountAlert) -> str:
    return f"warn_{alert.pk.hex}"


def test_a_delivery_is_sent_again_with_its_id_and_body_and_a_fresh_signature(alice, endpoint, receiver, owner, monkeypatch):
    happen(alice, 1)
    tasks.send_webhooks()
    delivery = AlertDelivery.objects.get(endpoint=endpoint[0])
    later_by_an_hour = time.time() + 3_600
    monkeypatch.setattr(time, "time", lambda: later_by_an_hour)
    assert owner.post(f"/dashboard/alerts/deliveries/{delivery.pk}/again/").status_code == 302
    tasks.send_webhooks()
    (_, first, body), (_, second, repeated) = receiver.received
    assert (first["webhook-id"], body) == (second["webhook-id"], repeated)
    assert int(second["webhook-timestamp"]) >= int(first["webhook-timestamp"]) + 3_600
    signed = f"{second['webhook-id']}.{second['webhook-timestamp']}.".encode() + repeated
    key = base64.b64decode(endpoint[1].removeprefix("whsec_"))
    assert second["webhook-signature"] == "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    delivery.refresh_from_db()
    assert (delivery.state, len(delivery.attempts)) == ("DELIVERED", 2)
    [act] = Activity.objects.filter(act="WARNING_REPEATED")
    assert (act.object_id, act.actor) == (str(endpoint[0].pk), alice.members.get())


def test_what_happened_after_an_event_is_sent_again_the_oldest_first_and_one_a_second(alice, endpoint, receiver, owner):
    alerts = happen(alice, 4)
    send_all()
    receiver.received.clear()
    reply = owner.post(f"{PAGE}{endpoint[0].pk}/again/", {"event": told(alerts[1])}, follow=True)
    assert "We are sending 2 of them again, one a second." in reply.content.decode()
    third, fourth = AlertDelivery.objects.filter(state="WAITING", endpoint=endpoint[0]).order_by("next_try_at")
    assert (third.alert_id, fourth.alert_id) == (alerts[2].pk, alerts[3].pk)
    assert fourth.next_try_at - third.next_try_at == timedelta(seconds=1)
    send_all()
    assert sorted(ids(receiver)) == sorted(map(told, alerts[2:]))
    assert AlertDelivery.objects.filter(endpoint=endpoint[0]).count() == 4  # each still once
    assert "Sent 2 alerts to the webhook" in Activity.objects.get(act="WARNING_REPEATED").summary


def test_what_is_sent_again_twice_at_once_waits_in_one_line(alice, endpoint, receiver, owner):
    alerts = happen(alice, 3)
    send_all()
    for day in (alerts[0], alerts[1], alerts[2]):
        given = {"since": day.created_at.date(), "until": day.created_at.date()}
        assert owner.post(f"{PAGE}{endpoint[0].pk}/again/", given).status_code == 302
    waiting = AlertDelivery.objects.filter(state="WAITING", endpoint=endpoint[0]).order_by("next_try_at")
    first, second, third = (each.next_try_at for each in waiting)
    assert (second - first, third - second) == (timedelta(seconds=1), timedelta(seconds=1))


def test_what_happened_on_some_days_is_sent_again(alice, endpoint, receiver, owner):
    alerts = happen(alice, 4)
    send_all()
    receiver.received.clear()
    days = {"since": alerts[1].created_at.date(), "until": alerts[2].created_at.date()}
    assert owner.post(f"{PAGE}{endpoint[0].pk}/again/", days).status_code == 302
    send_all()
    assert sorted(ids(receiver)) == sorted(map(told, alerts[1:3]))


def test_what_happened_during_a_pause_is_sent_afterwards(alice, endpoint, receiver, owner):
    WebhookEndpoint.objects.update(is_paused=True)
    [missed] = happen(alice, 1)
    tasks.send_webhooks()
    again = {"since": missed.created_at.date()}
    assert owner.post(f"{PAGE}{endpoint[0].pk}/again/", again).status_code == 302
    send_all()
    assert ids(receiver) == []  # it is paused still
    WebhookEndpoint.objects.update(is_paused=False)
    send_all()
    assert ids(receiver) == [told(missed)]


def test_an_event_that_is_waiting_or_not_prepared_is_not_sent_twice(alice, endpoint, receiver, owner):
    [alert] = happen(alice, 1)
    again = {"since": alert.created_at.date()}
    for _ in range(2):  # before and after its deliveries are written
        reply = owner.post(f"{PAGE}{endpoint[0].pk}/again/", again)
        assert (reply.status_code, "There is nothing to send" in reply.content.decode()) == (200, True)
        deliveries.prepare()
    send_all()
    assert ids(receiver) == [told(alert)]
    assert not Activity.objects.filter(act="WARNING_REPEATED").exists()


def test_so_many_events_are_sent_at_once_and_the_page_says_where_to_continue(alice, endpoint, receiver, owner, monkeypatch):
    monkeypatch.setattr(pages, "REPEATED_MAX", 2)
    alerts = happen(alice, 3)
    send_all()
    reply = owner.post(f"{PAGE}{endpoint[0].pk}/again/", {"since": alerts[0].created_at.date()}, follow=True)
    assert f"We are sending 2 of them again, one a second. There are more: continue after {told(alerts[1])}." in (
        reply.content.decode()
    )
    assert AlertDelivery.objects.filter(endpoint=endpoint[0], state="WAITING").count() == 2


def test_a_webhook_is_not_flooded(alice, endpoint, receiver, owner, request_of_owner, monkeypatch):
    monkeypatch.setattr(endpoints, "REPEATS_MAX", 1)
    [alert] = happen(alice, 1)
    send_all()
    again = {"since": alert.created_at.date()}
    assert owner.post(f"{PAGE}{endpoint[0].pk}/again/", again).status_code == 302
    send_all()
    assert "at most 1 times in an hour" in owner.post(f"{PAGE}{endpoint[0].pk}/again/", again).content.decode()
    delivery = AlertDelivery.objects.get(endpoint=endpoint[0])
    page = owner.post(f"/dashboard/alerts/deliveries/{delivery.pk}/again/", follow=True).content.decode()
    assert "at most 1 times in an hour" in page
    endpoints.delete(request_of_owner, endpoint[0])
    anew, _ = endpoints.make(request_of_owner, alice, receiver.url)
    assert "at most 1 times in an hour" in owner.post(f"{PAGE}{anew.pk}/again/", again).content.decode()
    send_all()
    assert len(receiver.received) == 2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "Enter a day or an event."),
        ({"event": "warn_" + 32 * "0"}, "No event has this ID."),
        ({"event": "hello"}, "No event has this ID."),
        ({"since": "2026-11-02", "until": "2026-11-01"}, "The last day must not be before the first."),
    ],
)
def test_what_names_no_event_is_refused_and_stays_typed(endpoint, receiver, owner, given, words):
    page = owner.post(f"{PAGE}{endpoint[0].pk}/again/", given).content.decode()
    assert words in page
    assert all(f'value="{value}"' in page for value in given.values())
    assert not AlertDelivery.objects.exists()


def test_events_and_webhooks_of_others_and_deleted_ones_are_not_found(alice, bob, endpoint, receiver, owner):
    [alert] = happen(bob, 1)
    assert "No event has this ID." in owner.post(f"{PAGE}{endpoint[0].pk}/again/", {"event": told(alert)}).content.decode()
    stranger = signed_in(bob.members.get())
    assert stranger.post(f"{PAGE}{endpoint[0].pk}/again/", {"since": "2026-11-01"}).status_code == 404
    endpoint[0].delete()
    assert owner.post(f"{PAGE}{endpoint[0].pk}/again/", {"since": "2026-11-01"}).status_code == 404
