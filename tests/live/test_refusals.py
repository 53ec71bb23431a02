"""What a process has collected of refusals is written every few seconds. ``test_slow_clients_and_shutdown`` ends one."""

from keys.models import RefusalCount, RefusedRequest
from tests import factories
from tests.live.gateway import eventually


def test_refusals_of_a_running_process_are_written_meanwhile(gateway, alice):
    _, secret = factories.make_key(alice)
    refused = [gateway.ask(secret, model="demo/nobody") for _ in range(3)]
    eventually(lambda: RefusedRequest.objects.count() == 3)
    ids = {answer.headers["x-request-id"] for answer in refused}
    assert set(RefusedRequest.objects.values_list("request_id", flat=True)) == ids
    assert RefusalCount.objects.get().number == 3
