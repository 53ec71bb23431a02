"""Mails about who is a member, and to the owners of an account. They are sent once the transaction is committed."""

from typing import Any

from billing.accounts import lifecycle
from billing.models import Account, User
from billing.sign_in import mails
from gateway_project.web import hosts


def tell_owners(account: Account, change: str, *, but: User) -> None:
    """Tell the active owners, but the one whom the change is about."""
    tell(list(lifecycle.active_owners(account).exclude(pk=but.pk).values_list("email", flat=True)), account, change)


def tell(emails: list[str], account: Account, change: str) -> None:
    """Tell members, or former ones, such as "You are now Viewer."."""
    facts = {"account": account.name, "change": change, "link": hosts.mailed_page("members", "the Members of your dashboard")}
    for email in emails:
        mails.send_once_committed(email, "members_changed", **facts)


def tell_owners_of_closing(account: Account, template: str, **context: Any) -> None:
    facts = {"account": account.name, "link": hosts.mailed_page("settings", "the Settings of your dashboard"), **context}
    for email in lifecycle.active_owners(account).values_list("email", flat=True):
        mails.send_once_committed(email, template, cause=mails.Cause.SECURITY, **facts)
