"""A completion as a form, with the conversation so far."""

import json
import re
from typing import Any

from django import forms

from billing.forms import SelectedAccountForm
from billing.models import Account
from completions.catalog.lookup import Listing
from gateway_project.text import number_fields

PROMPT_CHARACTERS_MAX = 100_000
EARLIER_CHARACTERS_MAX = 1_000_000  # of JSON
EARLIER_MESSAGES_MAX = 200
_MODEL_CHARACTERS_MAX = 200
_NO_TEXT = re.compile("[\ud800-\udfff\0]")


def _model_input() -> forms.TextInput:
    """Return a field that searches the models: the page has them in a list of this name."""
    return forms.TextInput(attrs={"list": "models", "autocomplete": "off", "spellcheck": "false"})


class PlaygroundForm(SelectedAccountForm):
    """The fields of a request. ``models``: those that can be called now."""

    model = forms.CharField(max_length=_MODEL_CHARACTERS_MAX, widget=_model_input(), help_text="Type to search by name or ID.")
    other_model = forms.CharField(
        label="Compare with",
        required=False,
        max_length=_MODEL_CHARACTERS_MAX,
        widget=_model_input(),
        help_text="Optional. Replies beside the first, and is charged, too.",
    )
    system = forms.CharField(
        label="System prompt",
        required=False,
        max_length=PROMPT_CHARACTERS_MAX,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="Optional. Tells the model how to behave.",
    )
    prompt = forms.CharField(max_length=PROMPT_CHARACTERS_MAX, widget=forms.Textarea(attrs={"rows": 3}))
    max_tokens = number_fields.IntegerField(
        label="Maximum output tokens", required=False, min_value=1, initial=500, help_text="A token is about four letters."
    )
    temperature = number_fields.FloatField(
        required=False,
        min_value=0,
        max_value=2,
        widget=forms.NumberInput(attrs={"step": "0.1"}),
        help_text="0 to 2. Higher is more varied. Empty: the model's default.",
    )
    earlier = forms.CharField(required=False, max_length=EARLIER_CHARACTERS_MAX, widget=forms.HiddenInput)
    makes_key = forms.BooleanField(label="Create a new Playground key", required=False)
    purpose = "charge the request"

    def __init__(self, for_account: Account, models: list[Listing], *args: Any, **kwargs: Any) -> None:
        super().__init__(for_account, *args, **kwargs)
        self.models = sorted(models, key=lambda each: bool(each.alias))  # the aliases last, with the models that they mean now

    def clean_model(self) -> str:
        model = str(self.cleaned_data["model"])
        if model not in {each.id for each in self.models}:
            raise forms.ValidationError("Choose a model from the list.")
        return model

    def clean_earlier(self) -> list[dict[str, str]]:
        """Return the messages of the conversation so far, which the page keeps: the gateway stores none."""
        try:
            messages = json.loads(self.cleaned_data["earlier"] or "[]")
        except (ValueError, RecursionError):
            messages = None
        if not (isinstance(messages, list) and len(messages) <= EARLIER_MESSAGES_MAX and all(map(_is_message, messages))):
            raise forms.ValidationError("The conversation cannot be read. Start a new one.")
        return [{"role": each["role"], "content": each["content"]} for each in messages]

    def fields_of_request(self, *, is_streamed: bool) -> dict[str, Any]:
        """Return the body of the completion."""
        given = self.cleaned_data
        system = [{"role": "system", "content": given["system"]}] if given["system"] else []
        options = {name: given[name] for name in ("max_tokens", "temperature") if given[name] is not None}
        stream = {"stream": True, "stream_options": {"include_usage": True}} if is_streamed else {}
        messages = [*system, *given["earlier"], {"role": "user", "content": given["prompt"]}]
        return {"model": given["model"], "messages": messages, **options, **stream}


def _is_message(message: Any) -> bool:
    """Return whether it is a message with a text. Half a surrogate pair, or a NUL, is no text."""
    if not (isinstance(message, dict) and message.get("role") in ("user", "assistant")):
        return False
    content = message.get("content")
    return isinstance(content, str) and not _NO_TEXT.search(content)
