"""Mails that tell the owners of an account that staff closed or reopened it, and what becomes of what a closing promised."""

from billing.members import notices
from billing.models import Account, AccountClosing


def tell_of_closing(account: Account, closing: AccountClosing | None) -> None:
    if closing is None:
        then = "You can ask us to refund what is left and to erase personal data, in the Settings of your dashboard."
    else:
        refund = " What is left of payments is refunded." if closing.is_refunded else ""
        then = f"As an owner asked, personal data is erased on {closing.erase_at:%-d %b %Y}.{refund}"
    then = f"Its keys have stopped, and only our support can reopen it. {then}"
    notices.tell_owners_of_closing(account, "account_by_staff", act="closed", then=then)


def tell_of_reopening(account: Account) -> None:
    then = "Its keys work again, except those that are revoked or expired. No personal data is erased."
    notices.tell_owners_of_closing(account, "account_by_staff", act="reopened", then=then)
