"""Which model a name on a provider's bills stands for: what staff said, or the one model with the same words.

The words are those of the model's ID, or of its name at the provider, in any order, without dates, makers and regions: clouds
write "Claude4.6Opus" for ``us.anthropic.claude-opus-4-6-v1``. Words that two models share name neither: nothing is guessed.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable

from completions.models import BilledModel, Route

_VERSION_OR_DATE = re.compile(r"-v\d+(?::\d+)?$|[-@]?(?:20\d{6}|20\d\d-\d\d-\d\d)\b", re.ASCII)
_WORD = re.compile(r"[a-z]+|[0-9]+")
_BESIDE = {"anthropic", "openai", "google", "amazon", "us", "eu", "apac", "jp", "au", "global"}


def resolver(provider_id: str, used: Iterable[str]) -> Callable[[str], str]:
    """Return a function of a name to the ID of its model, or "". ``used``: models of completions there."""
    told = dict(BilledModel.objects.filter(provider=provider_id).values_list("name", "model_id"))
    by_words: dict[tuple[str, ...], set[str]] = defaultdict(set)
    routes = Route.objects.filter(provider=provider_id).values_list("model_id", "upstream_model")
    for model_id, name in [*routes, *((each, each) for each in used)]:
        by_words[_words(name)].add(model_id)
        by_words[_words(model_id.rpartition("/")[2])].add(model_id)

    def resolve(name: str) -> str:
        same = by_words.get(_words(name), set())
        return told.get(name) or (next(iter(same)) if len(same) == 1 else "")

    return resolve


def _words(name: str) -> tuple[str, ...]:
    words = _WORD.findall(_VERSION_OR_DATE.sub("", name.lower()))
    return tuple(sorted(word for word in words if word not in _BESIDE))
