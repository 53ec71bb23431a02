"""Acts by forms (``desk.forms``): each once, in the transaction in which the form was validated."""

import re
from collections.abc import Callable

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest

from gateway_project.activity import sent_forms
from gateway_project.desk.forms import SHORT_ID, ActForm


def act_once(request: HttpRequest, form: ActForm, act: Callable[[], str]) -> bool:
    """Act by the form, if it is valid and was not acted on before, and tell the user what ``act`` returns.

    Must run in a transaction that holds the locks of what is decided. Return False if the form has errors: then the transaction
    is rolled back, and the same form may be mended and sent again. ``act`` raises ValidationError for what only it finds out.
    """
    if re.fullmatch(SHORT_ID, request.POST.get("token", "")) and not sent_forms.use(request.POST["token"]):
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
