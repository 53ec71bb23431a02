"""``manage.py sync_catalog`` and the daily task."""

import pytest
from django.core.management import CommandError, call_command

from completions import tasks
from completions.models import Provider, UpstreamList
from tests import factories
from tests.completions.catalog.sync.lists import entry, make_model, make_provider, priced, proposed

pytestmark = pytest.mark.django_db


def test_the_task_syncs_every_followed_provider_although_one_fails(lists):
    make_provider(lists, "a-broken", base_url="http://127.0.0.1:9")
    make_model(make_provider(lists, "b-applies", sync="apply"))
    make_model(make_provider(lists, "c-proposes"), "acme/small")
    make_provider(lists, "d-off", sync="off")
    make_provider(lists, "e-disabled", is_enabled=False)
    factories.make_provider("f-other", kind="echo", base_url="", sync="apply")
    lists.lists(priced(prompt="0.0000029"), priced("acme/small", prompt="0.0000029"))

    assert tasks.sync_catalog() == 2

    assert len(lists.received) == 2
    assert [model for _, model, *_ in proposed("applied")] == ["acme/large"]
    assert [model for _, model, *_ in proposed()] == ["acme/small"]
    assert dict(UpstreamList.objects.values_list("provider", "failure")) == {
        "a-broken": "cannot be reached: the connection failed",
        "b-applies": "",
        "c-proposes": "",
    }


def test_a_named_provider_is_synced_although_its_sync_is_off(large, lists, sync):
    Provider.objects.update(sync="off")
    lists.lists(priced(prompt="0.0000029"))

    assert [change["kind"] for change in sync("barn")["proposed"]] == ["price"]


def test_the_command_prints_what_it_found(large, lists, capsys):
    lists.lists(
        priced(prompt="0.0000025", completion="0.00006") | {"expiration_date": "2027-01-31", "supported_parameters": ["tools"]},
        entry("acme/small"),
    )

    call_command("sync_catalog", "--apply")

    printed = capsys.readouterr()
    assert printed.err == f"Asking barn at {lists.url} ...\n"
    assert printed.out.splitlines() == [
        "barn lists 2 models: 1 applied, 2 proposed, 0 outdated; 2 wait for approval.",
        "  applied   acme/large: functions no -> yes",
        "  proposed  acme/large: input $3.00 -> $2.50, output $15.00 -> $60.00",
        "  proposed  acme/small: new: input $3.00, output $15.00, cached input $0.30, context window 128000,"
        " output at most 4096, images no, functions no",
        "  note      acme/large is listed to end on 2027-01-31",
    ]


def test_without_providers_the_command_says_that_it_read_nothing(db, capsys):
    call_command("sync_catalog")

    assert capsys.readouterr().out == "No list was read.\n"


@pytest.mark.parametrize(
    ("slug", "reason"),
    [
        ("nobody", r"PROVIDER: there is no provider 'nobody'\."),
        ("echo", r"PROVIDER: echo is the built-in echo, which has no list\."),
    ],
)
def test_a_provider_without_a_readable_list_is_reported(echo_model, slug, reason):
    with pytest.raises(CommandError, match=reason):
        call_command("sync_catalog", slug)
