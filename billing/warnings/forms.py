"""HTML forms of the page of warnings."""

from django import forms

from billing import money
from billing.forms import DollarsField


class ThresholdForm(forms.Form):
    """Below which balance members are warned. Empty: they are not."""

    threshold = DollarsField(
        label="Alert when the balance falls below",
        min_cents=1,
        max_cents=money.CENTS_MAX,
        required=False,
        help_text="In US dollars. Leave empty for no alert.",
    )


class EndpointForm(forms.Form):
    """Where warnings are posted to."""

    url = forms.CharField(
        label="Address",
        max_length=500,
        widget=forms.URLInput(attrs={"placeholder": "https://example.org/hooks/gateway", "autocomplete": "off"}),
        help_text="It receives a signed POST for each alert and must answer with a status of 200 to 299 within 10 seconds.",
    )
