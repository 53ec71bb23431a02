"""The rules that map a name at a source to one of our models. Pure, and exact: a guess would put one model's score on another.

In this order: an alias that someone wrote (confidence 1.0); a link that the source declares (0.95); names equal after
``normalized``, of the same maker, with exactly one candidate (0.9). Every other name waits for a person.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from rankings.models import Alias, Standing

LINK_CONFIDENCE = 0.95
RULE_CONFIDENCE = 0.9

# Makers with several names: on the left what we write; on the right what sources write, after ``normalized``.
_NAMES_OF_MAKERS = {
    "deepseek": ["deepseek-ai"],
    "google": ["google-deepmind"],
    "meta": ["meta-llama"],
    "mistral": ["mistralai", "mistral-ai"],
    "moonshot-ai": ["kimi", "moonshot", "moonshotai"],
    "qwen": ["alibaba", "alibaba-cloud"],
    "xai": ["spacexai", "x-ai"],
    "z-ai": ["zai", "zai-org", "zhipu", "zhipu-ai", "zhipuai"],
}
_MAKERS = {name: maker for maker, names in _NAMES_OF_MAKERS.items() for name in names}
_EFFORTS = {"none", "minimal", "low", "medium", "high", "xhigh", "max", "thinking", "reasoning", "non", "adaptive", "no"}
_DATE = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8}|\d{4}|\d{2}-\d{4}|\d{2}-\d{2})$")


@dataclass(frozen=True)
class OwnModel:
    id: str
    name: str
    maker: str
    hf_repo: str = ""

    @property
    def names(self) -> set[str]:
        return {normalized(self.id), normalized(self.name)} - {""}

    @property
    def canonical_maker(self) -> str:
        return canonical_maker(self.maker)


def normalized(name: str) -> str:
    """Return the name in lower case, with single hyphens, without organization and variant.

    ``GPT 5.6 Sol (xHigh)`` and ``org/gpt-5.6-sol-xhigh:free`` become ``gpt-5-6-sol-xhigh``. Dates and efforts stay, because
    they tell models apart; so do the letters, marks and numbers of every script, and a plus, as in ``Command R+``. A name
    without any of them becomes empty, which is equal to no name.
    """
    plain = unicodedata.normalize("NFKC", name).casefold().rpartition("/")[2].partition(":")[0].replace("+", "-plus-")
    kept = "".join(each if unicodedata.category(each)[0] in "LMN" else "-" for each in unicodedata.normalize("NFKC", plain))
    return re.sub(r"-+", "-", kept).strip("-")


def canonical_maker(name: str) -> str:
    """Return one name for a maker that has several."""
    plain = normalized(name)
    return _MAKERS.get(plain, plain)


def match(standing: Standing, own_models: Iterable[OwnModel]) -> Alias | None:
    """Return an alias for a name without one, by a link or by equal names; None unless exactly one model fits."""
    candidates = list(own_models)
    hf_repo = standing.facts.get("hf_repo") or (standing.external_key if standing.key_kind == "hf_repo" else "")
    if hf_repo:
        linked = [model.id for model in candidates if model.hf_repo and model.hf_repo.casefold() == hf_repo.casefold()]
        if len(linked) == 1:
            return Alias(model_id=linked[0], method=Alias.Method.LINK, confidence=LINK_CONFIDENCE)
    names, maker = _names(standing), _maker(standing)
    equal = [model.id for model in candidates if maker and maker == model.canonical_maker and names & model.names]
    return Alias(model_id=equal[0], method=Alias.Method.RULE, confidence=RULE_CONFIDENCE) if len(equal) == 1 else None


def suggestions(standing: Standing, own_models: Iterable[OwnModel]) -> list[str]:
    """Return the ids of models that differ only in maker, date or effort, the likeliest first. Only a person may choose one."""
    names, maker = _names(standing), _maker(standing)
    bare = set(map(_without_date_and_effort, names))
    found = []
    for model in own_models:
        if names & model.names:
            found.append((0, model.id))
        elif maker and maker == model.canonical_maker and bare & set(map(_without_date_and_effort, model.names)):
            found.append((1, model.id))
    return [model_id for _, model_id in sorted(found)]


def _maker(standing: Standing) -> str:
    """Return the canonical name of the maker; an empty one if the source does not name the maker."""
    prefix = standing.external_key.partition("/")[0] if standing.key_kind in {"hf_repo", "canonical_slug"} else ""
    return canonical_maker(prefix or standing.organization)


def _names(standing: Standing) -> set[str]:
    """Return the normalised names to compare with ours. Not the slug if the name has an effort, which the slug may lack."""
    name, slug = normalized(standing.name), normalized(standing.facts.get("slug") or standing.facts.get("id") or "")
    if standing.key_kind != "aa_id":
        return {normalized(standing.external_key), slug} - {""}
    has_effort = "(" in standing.name or not _EFFORTS.isdisjoint(name.split("-"))
    return ({name} if has_effort else {name, slug}) - {""}


def _without_date_and_effort(name: str) -> str:
    """Return a normalised name without them."""
    words = name.split("-")
    while len(words) > 1 and (words[-1] in _EFFORTS or re.fullmatch(r"\d+k", words[-1])):
        words.pop()
    return _DATE.sub("", "-".join(words))
