"""Writes the HTML part of a mail from its text, so that both say the same: paragraphs, and the link as one button."""

from collections.abc import Mapping

from django.template.loader import render_to_string

# What the button of a mail says, by the mail's template. A mail without a link of its own line has none.
BUTTONS: Mapping[str, str] = {
    "account_by_staff": "Open settings",
    "account_closed": "Open settings",
    "address_changed": "Undo the change",
    "change_asked": "Stop the change",
    "change_of_address": "Confirm this address",
    "handed_over": "Open the account",
    "export_ready": "Download the export",
    "invitation": "Choose a password",
    "member_invitation": "Join the account",
    "reset": "Choose a new password",
    "sign_up": "Confirm and choose a password",
    "sign_up_again": "Choose a new password",
    "signed_in": "Review your sessions",
    "alert": "See your alerts",
    "webhook_paused": "Open the webhook",
}


def write(text: str, *, subject: str, link: str, button: str) -> str:
    """Return the HTML. The paragraph that is ``link`` alone becomes a button, if it is an address."""
    parts = [part.strip() for part in text.split("\n\n")]
    is_address = link.startswith(("https://", "http://"))
    paragraphs = [{"text": part, "is_button": is_address and part == link} for part in parts if part]
    return render_to_string("mail/frame.html", {"subject": subject, "paragraphs": paragraphs, "button": button})
