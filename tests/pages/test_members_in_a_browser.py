"""An owner invites somebody, who joins, and gets another role, in a real Chromium."""

import re

import pytest
from django.core import mail
from playwright.sync_api import expect

from billing.models import Membership, Role
from tests import factories
from tests.browser import PHONE, fits, look, sign_in

NEW = "a wholly new sentence"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        pytest.param("desk", {}, marks=pytest.mark.long),
        ("dark-phone-without-scripts", {**PHONE, "color_scheme": "dark", "java_script_enabled": False}),
    ],
)
def test_an_owner_invites_somebody_who_joins(transactional_db, bob, open_page, name, options):
    factories.make_key(bob, "laptop")
    factories.make_account("Second", owner=bob.members.get())
    page = open_page(**options)
    sign_in(page, "bob@example.org", "/dashboard/members/")
    expect(page.get_by_text("No pending invitations.")).to_be_visible()
    page.get_by_role("link", name="Invite member").click()
    page.get_by_label("Email address").fill("bob@example.org")
    page.get_by_label("Viewer:").check()
    page.get_by_role("button", name="Send invitation").click()
    expect(page.get_by_text("bob@example.org is already a member.")).to_be_visible()
    look(page, f"members-{name}-error")
    assert fits(page)
    page.get_by_label("Email address").fill("new@example.org")
    page.get_by_role("button", name="Send invitation").click()
    expect(page.get_by_text("new@example.org was sent an invitation.")).to_be_visible()
    look(page, f"members-{name}-waiting")
    assert fits(page)

    [link] = re.findall(r"^http://\S+(/dashboard/members/join/\S+)$", str(mail.outbox[-1].body), re.M)
    guest = open_page(**options)
    guest.goto(link)
    look(guest, f"members-{name}-password")
    guest.get_by_label("New password", exact=True).fill(NEW)
    guest.get_by_label("New password confirmation").fill(NEW)
    guest.get_by_role("button", name="Join account").click()
    expect(guest.get_by_text("You are a member of Bob.")).to_be_visible()
    guest.get_by_label("mail").fill("new@example.org")
    guest.get_by_label("Password").fill(NEW)
    guest.get_by_role("button", name="Sign in", exact=True).click()
    guest.wait_for_url("/dashboard/")
    guest.goto("/dashboard/keys/")
    expect(guest.get_by_role("link", name="laptop", exact=True)).to_be_visible()
    expect(guest.get_by_role("link", name="New key")).to_have_count(0)
    look(guest, f"members-{name}-viewer")

    page.goto("/dashboard/members/")
    page.get_by_role("link", name="Role of new@example.org").click()
    page.get_by_label("Owner:").check()
    look(page, f"members-{name}-role")
    page.get_by_role("button", name="Save role").click()
    expect(page.get_by_text("new@example.org is now Owner.")).to_be_visible()
    look(page, f"members-{name}")
    assert fits(page)
    page.get_by_role("link", name="Leave").click()
    look(page, f"members-{name}-leave")
    page.get_by_role("button", name="Leave account").click()
    expect(page.get_by_text("You are no longer a member of Bob.")).to_be_visible()
    assert [(member.user.email, member.role) for member in Membership.objects.filter(account=bob)] == [
        ("new@example.org", Role.OWNER)
    ]
