"""Invitations of members, as their forms send them."""

import re

from django.core import mail

from billing.models import Role

EMAIL, NEW = "new@example.org", "a wholly new sentence"


def invite(client, account, email=EMAIL, role=Role.DEVELOPER):
    return client.post("/dashboard/members/invite/", {"email": email, "role": role, "account": account.pk})


def link():
    """Return the path and query of the link in the last mail."""
    [found] = re.findall(r"^http://testserver(/\S+)$", str(mail.outbox[-1].body), re.M)
    return found


def members(account):
    return {member.user.email: member.role for member in account.memberships.select_related("user")}
