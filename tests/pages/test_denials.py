"""Staff who lack a permission are told which one, and who has it."""

import html

from django.contrib.auth.models import Group, Permission

from tests import factories
from tests.pages.conftest import make_staff, signed_in


def denial(client, page):
    reply = client.get(page)
    assert reply.status_code == 403
    return html.unescape(reply.content.decode())


def test_an_act_names_its_permission_the_groups_and_the_colleagues_who_have_it(alice):
    Group.objects.all().delete()  # the ready groups, which an earlier test may have deleted
    lead = make_staff("lead@example.org", ["billing.view_account"])
    group = Group.objects.create(name="Money")
    group.permissions.add(Permission.objects.get(codename="refund_purchase"))
    lead.groups.add(group)
    client = signed_in(make_staff("new@example.org", ["billing.view_account"]))
    page = denial(client, f"/admin/billing/account/{alice.pk}/closing-refund/")
    assert "You need the permission “Can book refunds, and close an account with a refund”." in page
    assert "It belongs to the group Money. Ask lead@example.org." in page


def test_a_list_names_the_permission_to_view_it(alice):
    client = signed_in(make_staff("new@example.org", ["billing.view_account"]))
    assert "You need the permission “Can view ledger entry”." in denial(client, "/admin/billing/ledgerentry/")


def test_a_member_of_the_account_needs_a_colleague(alice):
    staff = make_staff("both@example.org", ["billing.view_account", "billing.issue_support_credit"])
    factories.add_member(account=alice, user=staff)
    page = denial(signed_in(staff), f"/admin/billing/account/{alice.pk}/credit/")
    assert "You are a member of this account, so a colleague must do this." in page
