"""The page that shows the mails of a developer's machine, which has no mail server."""

from email.parser import BytesParser
from email.policy import default
from pathlib import Path

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.html import urlize
from django.utils.safestring import mark_safe
from django.views.decorators.cache import never_cache

_MESSAGES_MAX = 50


@never_cache
def show(request: HttpRequest) -> HttpResponse:
    """List the latest mails. Raises Http404 outside of a developer's machine."""
    if settings.MAIL_DIR is None:
        raise Http404
    mails = []
    for path in sorted(Path(settings.MAIL_DIR).glob("*.eml"), reverse=True)[:_MESSAGES_MAX]:
        message = BytesParser(policy=default).parsebytes(path.read_bytes())
        part = message.get_body(("plain",))  # beside which there is one in HTML
        text = mark_safe(urlize(part.get_content() if part else "", autoescape=True))  # noqa: S308  urlize escapes
        mails.append({"to": message["to"], "subject": message["subject"], "at": message["date"].datetime, "text": text})
    return render(request, "mailbox.html", {"mails": mails})
