"""The settings of an account as a whole: its name."""

from gateway_project.activity.models import Activity
from tests.pages.conftest import owner, rows  # noqa: F401  fixtures

NAME = "/dashboard/settings/name/"


def test_an_owner_renames_the_account_and_that_is_recorded(owner, alice):  # noqa: F811
    assert 'value="Alice"' in owner.get(NAME).content.decode()
    page = owner.post(NAME, {"name": " Alice & Daughters "}, follow=True).content.decode()
    assert "The account is now Alice &amp; Daughters." in page
    alice.refresh_from_db()
    assert (alice.name, alice.balance_nanos) == ("Alice & Daughters", 10_000_000_000)
    act = Activity.objects.get()
    assert (act.act, act.account_id, act.before, act.after) == (
        "CHANGED",
        alice.pk,
        {"name": "Alice"},
        {"name": "Alice & Daughters"},
    )


def test_a_name_that_cannot_be_is_refused_and_changes_nothing(owner, rows):  # noqa: F811
    before = rows()
    for name in ("", " ", "x" * 201):
        assert 'id="id_name_error"' in owner.post(NAME, {"name": name}).content.decode()
    assert rows() == before
