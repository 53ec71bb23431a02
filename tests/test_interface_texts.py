"""The words of the interface: phrases that were replaced do not come back, and one thing keeps one term."""

import re
from pathlib import Path

from tests.interface_texts import ROOT, page_texts, remarks, texts

GONE = [  # what it is now is in the glossary and in CONTRIBUTING.md
    r"look into your mail",
    r"unwanted mail",
    r"\bgo(?:es)? on\b(?! (?:with|to) )",
    r"somebody",
    r"\bnobody\b",
    r"e-mail",
    r"telephone",
    r"\bmake (?:a|the|another|new) (?:new )?(?:key|secret|codes|management key|webhook)",
    r"keys? was made",
    r"not the e-?mail address and password of a user",
    r"what you just sent",
    r"a secret found",
    r"last day it works",
    r"most tokens of the reply",
    r"\ba million\b",
    r"spending a day",
    r"dearest",
    r"none before",
    r"invitations that wait",
    r"what you are warned of",
    r"there is nothing at this path",
    r"another provider, when",
    r"without the proof",
    r"waits? for a provider['’]s key",
    r"not callable",
    r"(?-i:Second factor)",
    r"second person",
    r"tick this",
    r"untick",
    r"\banew\b",
    r"\blicence\b(?!\s*}})",
    r"\bin all\b",
    r"\bany more\b",
    r"(?-i:\bId\b)",
]
DESCRIBED_ELSEWHERE = (  # read by operators or generated into the reference of the API, or not shown at all
    "billing/audit.py",
    "billing/ledger/audit.py",
    "billing/management/",
    "billing/models/",
    "billing/payments/booking.py",
    "billing/payments/configuration.py",
    "completions/audit.py",
    "completions/catalog/sync/",
    "completions/catalog/tables.py",
    "completions/charging/",
    "completions/management/",
    "completions/models/",
    "completions/providers/",
    "completions/relay/",
    "gateway_project/db/",
    "gateway_project/local/",
    "gateway_project/metrics.py",
    "gateway_project/monitoring/",
    "gateway_project/net/",
    "keys/audit.py",
    "keys/management/",
    "rankings/",
)

# Of pages for those who work with the gateway or on it: words that are not those of technical English.
ODD = [
    r"\bnobody\b",
    r"\bno one\b",
    r"\bsomebody\b",
    r"(?:^|(?<=[.:!?] ))(?-i:What) (?:[^.?]|\.\w)*\.(?=\s|$)",  # a sentence about a thing that has a noun
    r"\bany more\b",
    r"\bgo(?:es)? on\b",
    r"\bin all(?=[.,;:)]|$)",
    r"\b(?:once|twice|times|(?:\d[\d,.]*|two|three|ten)(?: (?!after|for|in|of|within)\w+)?)"
    r" an? (?:second(?! person)|minute|hour|day|week|month|year)\b",
    r"\bin vain\b",
    r"\b(?:is|are|was|were|be) away\b",
    r"\brest(?:s|ed|ing)\b",
    r"\bheed(?:s|ed|ing)?\b",
    r"\blet go\b",
    r"\bof late\b",
    r"\bthe most that\b",
]


def odd_phrases() -> dict[str, list[str]]:
    """Return each odd phrase with its place, by the kind of place."""
    pages = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "deploy/README.md")]
    pages += sorted((ROOT / "docs").rglob("*.md"))
    read = {
        "docs": [each for path in pages for each in page_texts(path)],
        "CHANGELOG": list(page_texts(ROOT / "CHANGELOG.md")),
        "code": list(remarks()),
    }
    odd = re.compile("|".join(ODD), re.IGNORECASE)
    return {kind: [f"{place}: {found[0]}" for place, text in all for found in odd.finditer(text)] for kind, all in read.items()}


def test_pages_and_remarks_have_no_odd_phrase():
    assert odd_phrases() == {"docs": [], "CHANGELOG": [], "code": []}


def test_no_phrase_that_was_replaced_comes_back():
    gone = re.compile("|".join(GONE), re.IGNORECASE)
    shown = [(place, text) for place, text in texts() if not place.startswith(DESCRIBED_ELSEWHERE)]
    assert len(shown) > 2_000
    assert [f"{place}: {text}" for place, text in shown if gone.search(text)] == []


def test_the_glossary_has_each_of_its_terms_once_and_in_order():
    rows = re.findall(r"^\| ([A-Z][^|]*?) \|", Path(ROOT / "docs/glossary.md").read_text(), re.MULTILINE)
    terms = [row for row in rows if row != "Term"]
    assert len(terms) == 29
    assert terms == sorted(set(terms))
