"""The page that shows the mails of a developer's machine, which has no mail server."""

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.html import urlize
from django.utils.safestring import mark_safe
from django.views.decorators.cache import never_cache

from gateway_project import mail

_MESSAGES_MAX = 50


@never_cache
def show(request: HttpRequest) -> HttpResponse:
    """List the latest mails. Raises Http404 outside of a developer's machine."""
    if settings.MAIL_DIR is None:
        raise Http404
    mails = []
    for message in mail.read_directory(_MESSAGES_MAX):
        part = message.get_body(("plain",))  # beside which there is one in HTML
        text = mark_safe(urlize(part.get_content() if part else "", autoescape=True))  # noqa: S308  urlize escapes
        mails.append({"to": message["to"], "subject": message["subject"], "at": message["date"].datetime, "text": text})
    return render(request, "mailbox.html", {"mails": mails})
