"""Staff upload a bill, see how it compares, and say what a name stands for."""

import json
import re
import time
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils.html import strip_tags

from billing.models import Account
from completions.bills import admin
from completions.facts import FACTS
from completions.models import Bill, BillComparison, BilledModel, LanguageModel
from gateway_project.activity.models import Activity
from gateway_project.db import cell
from tests import factories, sessions
from tests.completions.bills import written
from tests.completions.bills.written import HEAD, line

IMPORT = "/admin/completions/bill/import/"
LIST = "/admin/completions/billcomparison/"


@pytest.fixture
def root(db: None) -> Client:
    client = Client()
    sessions.sign_in(client, factories.User.objects.create_superuser("root@example.org", factories.PASSWORD))
    return client


def upload(client: Client, content: bytes, **fields: str) -> Any:
    file = SimpleUploadedFile("costs.csv", content, "text/csv")
    return client.post(IMPORT, {"provider": "echo", "file": file, **fields}, follow=True)


def test_an_upload_is_imported_once_and_recorded(root: Client, echo_model: LanguageModel) -> None:
    text = (HEAD + line("1.5", "nova-9, input")).encode()
    assert "Imported 1 lines." in upload(root, text).content.decode()
    assert "Nothing changed." in upload(root, text).content.decode()
    assert [(act.act, act.summary) for act in Activity.objects.all()] == [("ADDED", "Imported costs.csv of echo.")]


def test_what_is_refused_says_why_beside_the_field(root: Client, echo_model: LanguageModel) -> None:
    page = upload(root, b"a,b\n1,2\n").content.decode()
    assert "The file is of no known format." in page
    assert 'value="echo" selected' in page
    assert not Bill.objects.exists()


def _of_names(number: int) -> str:
    return HEAD + "".join(line("0.25", f"m{each}, input") for each in range(number))


def _of_hours(number: int) -> str:
    row = "{}T{:02}:00:00Z,1,USD,,,M{} Input,Vertex AI,proj_a,regular\n"
    return written.GOOGLE + "".join(row.format(written.DAY, each % 24, each // 24) for each in range(number))


def _of_results(number: int) -> str:
    cost = {"amount": {"value": 1, "currency": "usd"}, "line_item": "echo, input"}
    return json.dumps({"data": [{"start_time": f"{written.DAY}", "results": [cost] * number}]})


@pytest.mark.parametrize("content", [_of_names(4_000), _of_hours(6_000), _of_results(20_000)], ids=["names", "hours", "JSON"])
def test_other_requests_have_their_turn_while_an_upload_is_read(
    root: Client, echo_model: LanguageModel, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    upload(root, (HEAD + line("1")).encode())  # a process imports modules and compiles templates once
    worked, since = list[float](), time.thread_time()

    def sleep(seconds: float) -> None:
        nonlocal since
        worked.append(time.thread_time() - since)
        since = time.thread_time()

    monkeypatch.setattr(time, "sleep", sleep)
    assert "Imported " in upload(root, content.encode()).content.decode()
    worked.append(time.thread_time() - since)
    assert max(worked) < sum(worked) / 4


def test_an_upload_is_bounded_when_it_is_unpacked(root: Client, echo_model: LanguageModel, monkeypatch: Any) -> None:
    monkeypatch.setattr(admin, "UPLOADED_BYTES_MAX", 50)
    assert "larger than 50 bytes" in upload(root, (HEAD + line("1")).encode()).content.decode()


@pytest.mark.parametrize("codename", ["view_bill", ""])
def test_who_may_not_import_sends_nothing(db: None, echo_model: LanguageModel, codename: str) -> None:
    client = Client()
    staff = factories.make_user("staff@example.org", is_staff=True)
    staff.user_permissions.set(Permission.objects.filter(codename=codename))
    sessions.sign_in(client, staff)
    assert upload(client, (HEAD + line("1")).encode()).status_code == 403
    assert not Bill.objects.exists()


def test_the_list_has_the_largest_difference_first(root: Client, echo_model: LanguageModel) -> None:
    written.bill(line("1", "a, input"), line("-3", "b, input"), line("2", "<script>c, input"))
    page = root.get(LIST).content.decode()
    assert page.index(">b<") < page.index("&lt;script&gt;c") < page.index(">a<")
    assert "<script>c" not in page


def test_hours_that_do_not_agree_are_shown_with_samples(root: Client, echo_model: LanguageModel, alice: Account) -> None:
    factories.make_provider("other")
    billed = {9: "1.000000", 10: "1.500000", 11: "0.500000"}
    written.make_hours(alice, echo_model, [*billed])
    written.by_hour(billed)
    written.bill(line("0.01", "other, input"), provider="other")
    row = BillComparison.objects.get(finding="hours")
    listed = root.get(LIST).content.decode()
    assert "$0.00, $1.00 by hour" in strip_tags(listed)
    assert listed.index("demo/echo") < listed.index(">other<")
    page = root.get(f"{LIST}{row.pk}/change/").content.decode()
    assert page.count(" 10:00</td>") == page.count(" 11:00</td>") == 2  # the hour, and its line
    assert "09:00" not in page
    assert re.findall(r" (\d\d:\d\d:\d\d)</td>", page) == ["11:00:01", "10:00:01"]  # completions
    assert "$1.50" in page
    assert "-$0.50" in page


def test_a_name_is_said_from_the_page_of_its_comparison(root: Client, echo_model: LanguageModel) -> None:
    written.price(echo_model)
    written.use(echo_model)
    written.bill(line("1.0000000001", "nova-9, input"))
    unknown = BillComparison.objects.get(name="nova-9")
    page = root.get(f"{LIST}{unknown.pk}/change/").content.decode()
    assert "$1.0000000001" in page
    assert "/admin/completions/billedmodel/add/?provider=echo&amp;name=nova-9" in page
    said = {"provider": "echo", "name": "nova-9", "model": echo_model.pk}
    assert root.post("/admin/completions/billedmodel/add/", said).status_code == 302
    assert (written.only().name, written.only().unexplained_usd) == (echo_model.pk, 0)
    root.post(f"/admin/completions/billedmodel/{BilledModel.objects.get().pk}/delete/", {"post": "yes"})
    assert BillComparison.objects.filter(finding="unknown_model").exists()


def test_names_that_are_deleted_together_are_unknown_at_once(root: Client, echo_model: LanguageModel) -> None:
    said = BilledModel.objects.create(provider_id="echo", name="nova-9", model=echo_model)
    written.bill(line("1", "nova-9, input"))
    assert written.only().name == echo_model.pk
    changed = {"provider": "echo", "name": "nova-8", "model": echo_model.pk}
    root.post(f"/admin/completions/billedmodel/{said.pk}/change/", changed)
    assert BilledModel.objects.get().name == "nova-9"
    selected = {"action": "delete_selected", "_selected_action": [said.pk], "post": "yes"}
    assert root.post("/admin/completions/billedmodel/", selected).status_code == 302
    assert (written.only().name, written.only().finding) == ("nova-9", "unknown_model")


def test_a_bill_that_is_deleted_gives_its_days_back(root: Client, echo_model: LanguageModel) -> None:
    written.bill(line("1"))
    newer = written.bill(line("5"))
    selected = {"action": "delete_selected", "_selected_action": [newer.pk], "post": "yes"}
    assert root.post("/admin/completions/bill/", selected).status_code == 302
    assert (written.only().billed_usd, Bill.objects.count()) == (1, 1)
    assert Activity.objects.get().act == "DELETED"


def test_the_command_prints_what_the_page_has(echo_model: LanguageModel, tmp_path: Any, capsys: Any) -> None:
    path = tmp_path / "costs.csv"
    path.write_text(HEAD + line("1.25", "nova-9\x1b[31m, input") + line("1.2500", "nova-9, input") + line("9", "storage"))
    call_command("import_bill", "echo", str(path))
    said = capsys.readouterr().out
    assert "1 lines charge $1.25 for models. Left out: 1 unreadable" in said
    assert "2026-08-04  nova-9  charged $0.00, expected not known, billed $1.25; unexplained $1.25; unknown model" in said
    assert "\x1b" not in said
    call_command("import_bill", "echo", str(path), "--json")
    told = json.loads(capsys.readouterr().out)
    [row] = told["comparisons"]
    assert (told["isNew"], row["unexplained"], row["sampleLines"][0]["line"]) == (False, "1.25", 3)
    assert Activity.objects.get().actor is None


def test_the_command_compares_a_known_bill_again(echo_model: LanguageModel, tmp_path: Any, capsys: Any) -> None:
    path = tmp_path / "costs.csv"
    path.write_text(HEAD + line("1.0000000000"))
    written.use(echo_model)
    call_command("import_bill", "echo", str(path))
    written.price(echo_model)
    call_command("import_bill", "echo", str(path))
    assert "It was imported before, and is compared again." in capsys.readouterr().out
    assert (written.only().finding, Bill.objects.count(), Activity.objects.count()) == ("", 1, 1)


@pytest.mark.parametrize(("arguments", "said"), [(["nobody", "x"], "PROVIDER: there is no"), (["echo", "/nowhere"], "FILE: ")])
def test_wrong_arguments_are_named(echo_model: LanguageModel, arguments: list[str], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        call_command("import_bill", *arguments)


def test_the_metrics_tell_what_is_unmatched_and_unexplained(echo_model: LanguageModel) -> None:
    sql = {fact.name: fact.sql for fact in FACTS}
    today = cell.execute("SELECT (now() AT TIME ZONE 'UTC')::date")[0][0]
    written.price(echo_model)
    old = today.replace(year=today.year - 1)
    day = today.fromordinal(today.toordinal() - 5)
    written.use(echo_model, day=day)
    written.bill(
        line("1.0000000000", day=day), line("1.0000000000", "nova-9, input", day=day), line("7", "nova-9, input", day=old)
    )
    assert cell.execute(sql["gateway_bill_unmatched_lines"]) in (
        [("echo", "a week", 1), ("echo", "more", 1)],
        [("echo", "more", 1), ("echo", "a week", 1)],
    )
    assert cell.execute(sql["gateway_bill_reconciled_ratio"]) == [("echo", 0.5)]
    assert cell.execute(sql["gateway_bill_difference_dollars"]) == [("echo", 1)]
