"""The page that shows the mails of a developer's machine, which has no mail server."""

from email.message import EmailMessage

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.html import urlize
from django.utils.safestring import mark_safe
from django.views.decorators.cache import never_cache

from gateway_project import mail

_MESSAGES_MAX = 50


def _text(message: EmailMessage) -> str:
    """Return the text of a mail, which has an HTML part beside it."""
    part = message.get_body(("plain",))
    return str(part.get_content()) if part else ""


@never_cache
def show(request: HttpRequest) -> HttpResponse:
    """List the latest mails. Raises Http404 outside of a developer's machine."""
    if settings.MAIL_DIR is None:
        raise Http404
    messages = [
        {
            "to": message["to"],
            "subject": message["subject"],
            "at": message["date"].datetime,
            "text": mark_safe(urlize(_text(message), autoescape=True)),  # noqa: S308  urlize escapes
        }
        for message in mail.read_directory(_MESSAGES_MAX)
    ]
    return render(request, "mailbox.html", {"mails": messages})
