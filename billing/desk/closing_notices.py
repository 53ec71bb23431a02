"""Mails that tell the owners of an account that staff closed or reopened it, and what becomes of what a closing promised."""

from functools import partial

from django.conf import settings
from django.db import transaction

from billing.accounts import lifecycle
from billing.models import Account, AccountClosing
from billing.sign_in import mails
from gateway_project.web import hosts


def tell_of_closing(account: Account, closing: AccountClosing | None) -> None:
    if closing is None:
        then = "You can ask us to refund what is left and to erase personal data, in the Settings of your dashboard."
    else:
        refund = " What is left of payments is refunded." if closing.is_refunded else ""
        then = f"As an owner asked, personal data is erased on {closing.erase_at:%-d %b %Y}.{refund}"
    _tell(account, "closed", f"Its keys have stopped, and only our support can reopen it. {then}")


def tell_of_reopening(account: Account) -> None:
    _tell(account, "reopened", "Its keys work again, except those that are revoked or expired. No personal data is erased.")


def _tell(account: Account, act: str, then: str) -> None:
    if not settings.SENDS_MAIL:
        return
    link = hosts.mailed_page("settings", "the Settings of your dashboard")
    facts = {"account": account.name, "act": act, "then": then, "link": link}
    for email in lifecycle.active_owners(account).values_list("email", flat=True):
        transaction.on_commit(partial(mails.send, email, "account_by_staff", cause=mails.Cause.SECURITY, **facts))
