"""The cost of requests with a model, and with two others beside it, as the parameters of its page describe them."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.http import QueryDict

from completions.pricing.meters import BY_NAME, TIERS
from completions.pricing.usage import Usage
from completions.public.facts import ListedModel
from gateway_project.text import dollars, number_fields

DAYS = 30  # of a month
_PROMPT_TOKENS, _REPLY_TOKENS, _REQUESTS = 1_000, 500, 1_000  # until the reader changes them
_REQUESTS_MAX = 1_000_000_000


class RequestForm(forms.Form):
    """The requests of a reader, and two of the ``others`` to compare with. Of these the nearest in price come first."""

    def __init__(self, listed: ListedModel, others: Sequence[ListedModel], given: QueryDict) -> None:
        self.listed, self.others = listed, {each.model.pk: each for each in others}
        super().__init__({**self._typical(), **given.dict()}, auto_id="%s", label_suffix="")
        window, tiers = listed.model.context_window, listed.price.sheet.tiers
        self.fields["prompt_tokens"] = number_fields.IntegerField(min_value=1, max_value=window)
        if not listed.is_embedding:
            self.fields["cached_tokens"] = number_fields.IntegerField(label="Of these, cached", min_value=0, max_value=window)
            self.fields["reply_tokens"] = number_fields.IntegerField(min_value=1, max_value=listed.model.max_output_tokens)
        self.fields["requests"] = number_fields.IntegerField(label="Requests per day", min_value=1, max_value=_REQUESTS_MAX)
        if tiers:
            offered = [("", "Standard"), *((tier, TIERS[tier]) for tier in tiers)]
            self.fields["tier"] = forms.ChoiceField(label="Service tier", required=False, choices=offered)
        models = sorted((each.model for each in others), key=lambda model: model.name.casefold())
        for name, label in (("first", "Compare with"), ("second", "And with")) if others else ():
            choices = [("none", "No other"), *((model.pk, model.name) for model in models)]
            self.fields[name] = forms.ChoiceField(label=label, required=False, choices=choices)

    def _typical(self) -> dict[str, Any]:
        """Return a request that the model can answer, and the two models that are nearest in price."""
        model = self.listed.model
        reply_tokens = min(_REPLY_TOKENS, model.max_output_tokens)
        prompt_tokens = min(_PROMPT_TOKENS, max(model.context_window - reply_tokens, 1))
        tokens = {"prompt_tokens": prompt_tokens, "cached_tokens": 0, "reply_tokens": reply_tokens}
        return {**tokens, "requests": _REQUESTS, **dict(zip(("first", "second"), self.others, strict=False))}

    def clean(self) -> dict[str, Any]:
        asked = self.cleaned_data
        prompt_tokens = asked.get("prompt_tokens", 0)
        if prompt_tokens and asked.get("cached_tokens", 0) > prompt_tokens:
            self.add_error("cached_tokens", f"The prompt has {prompt_tokens:,} tokens. Enter no more.")
        room = self.listed.model.context_window - prompt_tokens
        if asked.get("reply_tokens", 0) > room:
            self.add_error("reply_tokens", f"After this prompt the context window has room for {room:,} tokens.")
        return asked


def compare(form: RequestForm) -> dict[str, Any]:
    """Return what a valid form's requests cost with each of its models, at which rates, and the parts of its own one's cost."""
    asked = form.cleaned_data
    prompt_tokens, reply_tokens, cached_tokens = (asked.get(f"{name}_tokens", 0) for name in ("prompt", "reply", "cached"))
    usage = Usage(prompt_tokens, reply_tokens, cached_tokens, tier=asked.get("tier", ""))
    counts = [("input", prompt_tokens), ("cached_input", cached_tokens), ("output", reply_tokens)]
    chosen = [form.others[asked[name]] for name in ("first", "second") if asked.get(name) in form.others]
    columns = [form.listed, *dict.fromkeys(chosen)]
    nanos = [each.price.sheet.cost_nanos(usage) if _fits(usage, each) else None for each in columns]
    spans = {"One request": 1, "A day": asked["requests"], f"{DAYS} days": DAYS * asked["requests"]}
    return {
        "columns": columns,
        "costs": [(title, _show(nanos, times)) for title, times in spans.items()],
        "rates": [(BY_NAME[meter].title, [_rate(each, meter, usage) for each in columns]) for meter, count in counts if count],
        "parts": form.listed.price.sheet.parts(usage),
        "tier": usage.tier,
    }


def _rate(listed: ListedModel, meter: str, usage: Usage) -> str:
    """Return the price that holds for this usage: of its tier, and of a prompt of its length."""
    return dollars.format_usd(listed.price.sheet.rate(meter, usage.tier, usage.prompt_tokens))


def _fits(usage: Usage, listed: ListedModel) -> bool:
    model = listed.model
    is_short = listed.is_embedding or usage.completion_tokens <= model.max_output_tokens
    return is_short and usage.prompt_tokens + usage.completion_tokens <= model.context_window


def _show(nanos: Sequence[int | None], times: int) -> list[dollars.Amount | None]:
    shown = iter(dollars.show_column([each * times for each in nanos if each is not None]))
    return [None if each is None else next(shown) for each in nanos]
