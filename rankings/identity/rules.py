"""Pure: which of our models a source's name means. Exact rules only: a guess would put one model's score on another.

In this order: an alias somebody wrote (1.0); a link that the source declares (0.95); equality after ``norm`` within one maker,
with exactly one candidate (0.9). Everything else waits for a person.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from rankings.models import Alias, Source

LINK_CONFIDENCE = 0.95
RULE_CONFIDENCE = 0.9

# One maker under several names: what sources write on the left, after ``norm``, ours on the right.
_MAKERS = {
    "alibaba": "qwen",
    "alibaba-cloud": "qwen",
    "deepseek-ai": "deepseek",
    "google-deepmind": "google",
    "kimi": "moonshot-ai",
    "meta-llama": "meta",
    "mistralai": "mistral",
    "mistral-ai": "mistral",
    "moonshot": "moonshot-ai",
    "moonshotai": "moonshot-ai",
    "spacexai": "xai",
    "x-ai": "xai",
    "zai": "z-ai",
    "zai-org": "z-ai",
    "zhipu": "z-ai",
    "zhipu-ai": "z-ai",
    "zhipuai": "z-ai",
}
_EFFORTS = {"none", "minimal", "low", "medium", "high", "xhigh", "max", "thinking", "reasoning", "non", "adaptive", "no"}
_DATE = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8}|\d{4}|\d{2}-\d{4}|\d{2}-\d{2})$")


@dataclass(frozen=True)
class Ours:
    """One of our models, as far as its identity goes."""

    id: str
    name: str
    maker: str
    hf_repo: str = ""

    @property
    def names(self) -> set[str]:
        return {norm(self.id), norm(self.name)}


@dataclass(frozen=True)
class Theirs:
    """A source's model: what it is called there."""

    source: Source
    key_kind: str
    external_key: str
    name: str
    organization: str
    slug: str = ""
    hf_repo: str = ""

    @property
    def maker(self) -> str:
        """Empty where the source does not say who made it."""
        prefix = self.external_key.partition("/")[0] if self.key_kind in {"hf_repo", "canonical_slug"} else ""
        return maker(prefix or self.organization)

    @property
    def names(self) -> set[str]:
        """What it may be equal to ours by. A slug that hides the effort its name tells is not among them."""
        if self.key_kind != "aa_id":
            return {norm(self.external_key), norm(self.slug)} - {""}
        has_effort = "(" in self.name or not _EFFORTS.isdisjoint(norm(self.name).split("-"))
        return {norm(self.name)} if has_effort else {norm(self.name), norm(self.slug)} - {""}


@dataclass(frozen=True)
class Meaning:
    """Which of our models a name means, how we know, and how sure that is."""

    model_id: str
    method: Alias.Method
    confidence: float


def norm(name: str) -> str:
    """``GPT 5.6 Sol (xHigh)`` and ``org/gpt-5.6-sol-xhigh:free`` are ``gpt-5-6-sol-xhigh``.

    Dates and efforts stay: they tell models apart.
    """
    plain = unicodedata.normalize("NFKC", name).casefold().rpartition("/")[2].partition(":")[0]
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")


def maker(name: str) -> str:
    """The maker by one name of several."""
    plain = norm(name)
    return _MAKERS.get(plain, plain)


def meaning(theirs: Theirs, ours: Iterable[Ours]) -> Meaning | None:
    """What a name that nobody wrote an alias for means, by a declared link or by the rule."""
    candidates = list(ours)
    if theirs.hf_repo:
        linked = [model.id for model in candidates if model.hf_repo and model.hf_repo.casefold() == theirs.hf_repo.casefold()]
        if len(linked) == 1:
            return Meaning(linked[0], Alias.Method.LINK, LINK_CONFIDENCE)
    equal = [model.id for model in candidates if _is_of_its_maker(theirs, model) and theirs.names & model.names]
    return Meaning(equal[0], Alias.Method.RULE, RULE_CONFIDENCE) if len(equal) == 1 else None


def suggestions(theirs: Theirs, ours: Iterable[Ours]) -> list[str]:
    """What a person may have in mind: equal but for the maker, a date or an effort. Never used without one."""
    names = theirs.names
    bare = set(map(_without_marks, names))
    found = []
    for model in ours:
        if names & model.names:
            found.append((0, model.id))
        elif _is_of_its_maker(theirs, model) and bare & set(map(_without_marks, model.names)):
            found.append((1, model.id))
    return [model_id for _, model_id in sorted(found)]


def _is_of_its_maker(theirs: Theirs, ours: Ours) -> bool:
    return bool(theirs.maker) and theirs.maker == maker(ours.maker)


def _without_marks(name: str) -> str:
    """The name without its date and its effort."""
    words = name.split("-")
    while len(words) > 1 and (words[-1] in _EFFORTS or re.fullmatch(r"\d+k", words[-1])):
        words.pop()
    return _DATE.sub("", "-".join(words))
