"""The export of all data of an account: asked for by an owner, made by a task, downloaded for some days."""

import csv
import io
import json
import zipfile
from datetime import timedelta

from django.core import mail
from django.db.models import F

from billing import tasks
from billing.account_settings import exports, own_tables
from billing.models import AccountExport, ExportPart, Role
from gateway_project.activity.models import Activity
from tests import factories, sessions, usage
from tests.pages.conftest import other_owner, owner, signed_in  # noqa: F401  fixtures

PAGE = "/dashboard/settings/export/"


def ask(client):
    return client.post(PAGE, follow=True).content.decode()


def address():
    return f"{PAGE}{AccountExport.objects.latest('pk').pk}.zip"


def download(client):
    reply = client.get(address())
    assert (reply.status_code, reply["Content-Type"]) == (200, "application/zip")
    return zipfile.ZipFile(io.BytesIO(b"".join(reply)))


def read(file, name):
    """Return the rows of a table, from both of its files."""
    text = file.read(f"{name}.csv").decode()
    return json.loads(file.read(f"{name}.json")), list(csv.DictReader(io.StringIO(text)))


def test_an_owner_asks_and_downloads_all_data_as_json_and_csv(owner, alice, bob):  # noqa: F811
    key, secret = factories.make_key(alice, "=laptop", tags=["web"])
    factories.make_key(bob, "of bob")
    usage.spend(alice, 1_234_567)
    assert "We are preparing the export" in ask(owner)
    assert owner.get(address()).status_code == 404
    assert tasks.make_exports() == 1
    file = download(owner)
    assert file.testzip() is None
    assert file.namelist() == [f"{name}.{kind}" for name in own_tables.readers() for kind in ("json", "csv")]
    [account], [line] = read(file, "account")
    assert (account["id"], line["name"]) == (str(alice.pk), "Alice")
    ledger, lines = read(file, "ledger")
    assert [each["amountInDollars"] for each in ledger] == [each["amountInDollars"] for each in lines]
    assert ledger[0]["amountInDollars"] == "-0.001234567"
    [exported], [line] = read(file, "keys")
    assert (exported["name"], line["name"], exported["tags"]) == ("=laptop", "'=laptop", ["web"])
    assert read(file, "members")[0] == [{**read(file, "members")[0][0], "email": "alice@example.org", "role": "OWNER"}]
    assert read(file, "activity")[0][0]["act"] == "DATA_EXPORTED"
    assert read(file, "requests") == ([], [])
    everything = b"".join(file.read(name) for name in file.namelist())
    assert secret.encode() not in everything
    assert b"of bob" not in everything
    [message] = mail.outbox
    assert (message.to, message.subject) == (["alice@example.org"], "The export of Alice is ready")
    assert "Ready" in owner.get(PAGE).content.decode()
    assert [act.act for act in Activity.objects.all()] == ["DATA_EXPORTED"]


def test_a_file_of_many_parts_is_one_file(owner, alice, monkeypatch):  # noqa: F811
    monkeypatch.setattr(exports, "PART_BYTES", 100)
    ask(owner)
    tasks.make_exports()
    assert ExportPart.objects.count() > 10
    assert max(len(part.content) for part in ExportPart.objects.all()) == 100
    assert download(owner).testzip() is None


def test_a_file_beyond_the_maximum_is_given_up_and_leaves_nothing(owner, alice, settings):  # noqa: F811
    settings.EXPORT_BYTES_MAX = 1_000
    ask(owner)
    assert tasks.make_exports() == 0
    export = AccountExport.objects.get()
    assert (export.state, ExportPart.objects.count(), mail.outbox) == ("FAILED", 0, [])
    assert owner.get(address()).status_code == 404
    assert "Too large" in owner.get(PAGE).content.decode()


def test_one_is_made_at_a_time_and_three_a_day(owner, alice):  # noqa: F811
    for _ in range(2):
        ask(owner)
    assert AccountExport.objects.count() == 1
    for _ in range(2):
        tasks.make_exports()
        ask(owner)
    tasks.make_exports()
    assert "An account is exported 3 times a day at most." in ask(owner)
    assert AccountExport.objects.count() == 3


def test_what_a_worker_left_unfinished_is_made_again(owner, alice):  # noqa: F811
    ask(owner)
    export = exports._claim()
    ExportPart.objects.create(export=export, number=0, content=b"half")
    assert tasks.make_exports() == 0  # somebody makes it
    AccountExport.objects.update(claimed_until=F("claimed_until") - timedelta(hours=2))
    assert tasks.make_exports() == 1
    assert download(owner).testzip() is None


def test_an_export_ends_after_some_days(owner, alice):  # noqa: F811
    ask(owner)
    tasks.make_exports()
    assert tasks.forget_exports() == 0
    AccountExport.objects.update(expires_at=F("expires_at") - timedelta(days=8))
    assert tasks.forget_exports() == 1
    assert (AccountExport.objects.count(), ExportPart.objects.count()) == (0, 0)


def test_only_owners_of_the_account_get_it_and_asking_needs_the_password(owner, other_owner, alice):  # noqa: F811
    developer = factories.make_user("developer@example.org")
    factories.add_member(account=alice, user=developer, role=Role.DEVELOPER)
    sessions.update(owner, password_given_at=0)
    assert "Please re-enter your password to continue." in owner.post(PAGE).content.decode()
    assert AccountExport.objects.count() == 0
    assert "We are preparing" in owner.post(PAGE, {"current_password": factories.PASSWORD}, follow=True).content.decode()
    tasks.make_exports()
    assert other_owner.get(address()).status_code == 404
    assert signed_in(developer).get(address()).status_code == 403
    assert signed_in(developer).post(PAGE).status_code == 403
