"""Forms of acts. Sent twice, a form acts once. Opened before a change, it says what changed."""

import json
import re
from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest

from gateway_project import identifiers
from gateway_project.activity.models import SentForm

SHORT_ID = r"^[0-9A-Za-z]{22}$"


class SeenField(forms.JSONField):
    """The facts of a page when it was opened: nothing that the user changes."""

    widget = forms.HiddenInput

    def has_changed(self, initial: Any, data: Any) -> bool:
        return False


class SeenForm(forms.Form):
    """An act on ``subject``. If the facts of its page have changed when it is sent, it is refused, and says why.

    It acts once: ``token`` is stored with the act. Validate it with the rows locked that it decides about.
    """

    seen = SeenField(required=False)
    token = forms.RegexField(SHORT_ID, initial=identifiers.short_uuid7, widget=forms.HiddenInput)

    def facts(self) -> dict[str, str]:
        """Return the facts of the rows on the page, in words, by name. One with a field's name is its present value."""
        return {}

    def __init__(self, subject: Any, *args: Any, **kwargs: Any) -> None:
        self.subject = subject
        super().__init__(*args, **kwargs)
        self.fields["seen"].initial = self.facts()

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        seen, now = cleaned.get("seen") or {}, self.fields["seen"].initial
        if not isinstance(seen, dict) or set(seen) != set(now):
            self.add_error(None, "This form is damaged. Open it again.")
            return cleaned
        for name in now:
            if seen[name] != now[name]:
                words = f"Changed since you opened this page: it was {seen[name]}, and is {now[name]}."
                self.add_error(name if name in self.fields else None, f"{words} Check again and resend the form.")
        # The page is shown again with what is true now, so that it can be sent on purpose.
        self.data = {**self.data.dict(), "seen": json.dumps(now)}  # type: ignore[attr-defined]
        return cleaned


class ReasonForm(SeenForm):
    """An act with a reason and a ticket, for the activity log."""

    reason = forms.CharField(
        max_length=500, widget=forms.Textarea(attrs={"rows": 3, "cols": 60}), help_text="Reason, for the activity log."
    )
    ticket = forms.CharField(max_length=100, required=False, help_text="The number of the ticket, if there is one.")

    @property
    def notes(self) -> dict[str, Any]:
        """The reason and the ticket, as arguments of ``activity.log.record``."""
        return {name: self.cleaned_data[name] for name in ("reason", "ticket")}


def act_once(request: HttpRequest, form: SeenForm, act: Callable[[], str]) -> bool:
    """Act by the form, if it is valid and was not acted on before, and tell the user what ``act`` returns.

    Must run in a transaction that holds the locks of what is decided. Return False if the form has errors: then the transaction
    is rolled back, and the same form may be mended and sent again. ``act`` raises ValidationError for what only it finds out.
    """
    if re.fullmatch(SHORT_ID, request.POST.get("token", "")) and not SentForm.use(request.POST["token"]):
        messages.warning(request, "This form was already sent. Nothing was done again.")
        return True
    try:
        if form.is_valid():
            messages.success(request, act())
            return True
    except ValidationError as refusal:
        form.add_error(None, refusal)
    transaction.set_rollback(True)
    return False
