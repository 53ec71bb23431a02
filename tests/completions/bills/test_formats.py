"""Each export is read as its provider says: what charges for models, to the last digit, and what is left out."""

import re
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from completions.bills import admin, importing, reading
from completions.bills.files import Refused
from completions.bills.formats import FORMATS
from completions.models import Bill, BillComparison, BillLine, Provider
from tests import factories
from tests.completions.bills import written
from tests.completions.bills.written import line

EXPORTS = Path(__file__).parent / "exports"
# By the file: its format, its lines as day, name, tokens and cost, and how many others of each kind.
READ: dict[str, tuple[str, list[tuple[str, str, int | None, str]], dict[str, int]]] = {
    "openai_costs.csv": (
        "OpenAI costs",
        [
            ("2026-09-28", "gpt-5.5-2026-04-23", 1_400, "0.503835980000000000000000000001"),
            ("2026-09-28", "gpt-5.6-sol", 600, "2.25"),
        ],
        {"empty": 1, "not models": 1, "EUR": 1},
    ),
    "openai_costs_2025.csv": (
        "OpenAI costs",
        [
            ("2025-10-05", "gpt-5-mini-2025-08-07", None, "0.895874"),
            ("2025-10-06", "gpt-5-mini-2025-08-07", None, "0.56177125"),
        ],
        {},
    ),
    "openai_costs.json": (
        "OpenAI costs",
        [("2026-09-28", "gpt-5.5-2026-04-23", None, "0.00000012"), ("2026-09-28", "gpt-audio-mini-2026-01-15", None, "0.06")],
        {},
    ),
    "anthropic_costs.csv": (
        "Anthropic costs, from the console",
        [("2026-08-04", "Claude Haiku 4.5", None, "0.07"), ("2026-08-05", "Claude Sonnet 4.5", None, "0.1")],
        {"not models": 1},
    ),
    "anthropic_cost_report.json": (
        "Anthropic cost report, from the API",
        [
            ("2026-08-04", "claude-sonnet-4-5-20250929", None, "1.2345"),
            ("2026-08-05", "claude-sonnet-4-5-20250929", None, "0.00000000000001"),
        ],
        {"not models": 1},
    ),
    "azure_ea.csv": (
        "Azure cost details",
        [("2026-08-31", "GPT 5", 2_000, "0.02"), ("2026-08-31", "gpt 4o 1120", 12_345, "0.01543125")],
        {"not models": 2},
    ),
    "azure_mca.csv": ("Azure cost details", [("2026-08-31", "o4-mini 0416", 3_000, "0.0132")], {"EUR": 1}),
    "aws_cur2.csv": (
        "AWS Cost and Usage Report",
        [
            ("2026-08-03", "Claude4.6Opus", 1_234, "0.000000617"),
            ("2026-08-04", "Claude Opus 4.6", None, "0.0165"),
            ("2026-08-04", "anthropic.claude-opus-4-6", 2_000, "0.05"),
        ],
        {"not models": 3},
    ),
    "aws_cur_legacy.csv": ("AWS Cost and Usage Report", [("2026-08-04", "Nova2.0Lite", 1_000_000, "0.3")], {}),
    "google.csv": (
        "Google Cloud billing export",
        [("2026-08-04", "Gemini 2.5 Flash", 1_000, "0.0025"), ("2026-08-05", "Gemini 2.5 Flash", 1_000, "0.0003")],
        {"not models": 2},
    ),
    "openrouter.csv": (
        "OpenRouter activity",
        [("2026-09-28", "acme/large-20260101", None, "0.00123456789"), ("2026-09-28", "acme/large-20260101", None, "0.5")],
        {},
    ),
}


def run(name: str) -> Bill:
    bill, is_new = importing.run_paths(factories.make_provider(), [EXPORTS / name])
    assert is_new
    bill.refresh_from_db()
    return bill


@pytest.mark.parametrize("name", READ)
def test_an_export_is_read_as_documented(db: None, name: str) -> None:
    form, wanted, left_out = READ[name]
    bill = run(name)
    lines = BillLine.objects.filter(bill=bill).order_by("day", "name", "cost_usd")
    found = [(str(each.day), each.name, each.tokens, each.cost_usd) for each in lines]
    assert found == [(day, of, tokens, Decimal(cost)) for day, of, tokens, cost in wanted]
    assert {kind: told["lines"] for kind, told in bill.left_out.items()} == left_out
    with localcontext(prec=100):
        assert (bill.format, bill.total_usd) == (form, sum(Decimal(cost) for *_, cost in wanted))
    assert bill.days == sorted({each.day for each in lines})


def test_every_format_has_a_sample_and_a_source() -> None:
    assert {form for form, *_ in READ.values()} == {form.title for form in FORMATS}
    assert set(READ) == {path.name for path in EXPORTS.iterdir()} - {"README.md"}
    assert all(source.startswith("https://") for form in FORMATS for source in form.sources)


# By the file: the hours of its lines, by which accounts they may be told, and how they are called where they are of others.
ACCOUNTS: dict[str, tuple[set[int | None], list[str], str]] = {
    "openai_costs.csv": ({None}, ["key_1", "proj_a"], "of key_1, proj_a"),
    "openai_costs_2025.csv": ({None}, ["proj_a"], "of proj_a"),
    "openai_costs.json": ({None}, ["key_1"], "of key_1"),
    "anthropic_costs.csv": ({None}, ["apikey_01AAA", "gateway", "Default"], "of apikey_01AAA, gateway, Default"),
    "anthropic_cost_report.json": ({None}, ["wrkspc_01"], "of wrkspc_01"),
    "azure_ea.csv": (
        {None},
        ["11111111-2222-3333-4444-555555555555"],
        "of 11111111-2222-3333-4444-555555555555",
    ),
    "azure_mca.csv": ({None}, ["S1"], "of s1"),
    "aws_cur2.csv": (
        {23, 0, 1},
        ["111122223333", "arn:aws:sts::111122223333:assumed-role/gateway"],
        "of 111122223333, arn:aws:sts::111122223333:assumed-role/gateway/i-0abc",
    ),
    "aws_cur_legacy.csv": ({0}, ["222"], "of 222"),
    "google.csv": ({22, 0}, ["proj"], "of proj"),
    "openrouter.csv": ({10}, ["gateway"], "of gateway"),
}


@pytest.mark.parametrize("name", READ)
def test_an_export_tells_hours_and_whose_lines_are(db: None, name: str) -> None:
    hours, accounts, of_others = ACCOUNTS[name]
    provider = factories.make_provider(bill_accounts=["somebody"])
    with pytest.raises(Refused, match=re.escape(of_others)) as refusal:
        importing.run_paths(provider, [EXPORTS / name])
    left_out = refusal.value.args[0].count(f"{of_others}, cost ")
    assert (left_out, Bill.objects.count()) == (1, 0)
    for account in accounts:
        Provider.objects.update(bill_accounts=[account])
        provider.refresh_from_db()
        bill, is_new = importing.run_paths(provider, [EXPORTS / name])
        lines = BillLine.objects.filter(bill=bill)
        assert is_new  # it is another bill for each
        assert len(lines) == len([each for each in READ[name][1] if name != "openai_costs.json" or "5.5" in each[1]])
        assert {each.hour for each in lines} == hours


def test_lines_of_others_are_left_out_by_name_with_their_sum(db: None, tmp_path: Path) -> None:
    head, *_ = (EXPORTS / "aws_cur_legacy.csv").read_text().splitlines()
    row = "{},111,{},Usage,2026-08-04T00:00:00Z,AmazonBedrock,USE1-Nova2.0Lite-input-tokens,1,USD,{},Amazon Bedrock,1K tokens"
    path = tmp_path / "cur.csv"
    told = [("222", "1.5"), ("2223", "0.25"), ("2223", "0.5"), ("", "4"), ("Evil\x1b", "8")]
    path.write_text("\n".join([head, *(row.format(number, *each) for number, each in enumerate(told))]))
    bill, _ = importing.run_paths(factories.make_provider(bill_accounts=["222"]), [path])
    assert (bill.lines, bill.total_usd) == (1, Decimal("1.5"))
    assert {kind: (of["lines"], of["cost"]) for kind, of in bill.left_out.items()} == {
        "of 2223": (2, "0.75"),
        "of none": (1, "4"),
        "of Evil?": (1, "8"),
    }
    assert "2 of 2223, cost 0.75 (line 3: Nova2.0Lite, line 4: Nova2.0Lite)" in importing.left_out_words(bill)
    bill, _ = importing.run_paths(factories.make_provider("second", bill_accounts=["none", "2223"]), [path])
    assert bill.total_usd == Decimal("4.75")


def test_the_names_of_others_are_bounded(db: None, tmp_path: Path) -> None:
    path = tmp_path / "costs.csv"
    others = "".join(line("0.5").replace("proj_a", f"proj_{number}") for number in range(200))
    path.write_text(written.HEAD + line("1") + others)
    bill, _ = importing.run_paths(factories.make_provider(bill_accounts=["proj_a"]), [path])
    assert len(bill.left_out) == 51
    assert bill.left_out["others"]["cost"] == "75.0"


def test_lines_that_are_left_out_are_told_by_their_numbers(db: None) -> None:
    told = importing.left_out_words(run("openai_costs.csv"))
    assert "1 EUR, cost 0.9 (line 7: a cost in EUR)" in told
    assert "1 not models, cost 0.05 (line 6: web search tool calls)" in told


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("day,euros\n1,2\n", "of no known format"),
        ("usage_date_utc,model_version,api_key,usage_input_tokens_no_cache\n", "Export Cost, not Usage"),
        ("start_time,amount_value,line_item\n", "lacks columns for currency (amount_currency or amount.currency)"),
        ("", "of no known format"),
    ],
)
def test_an_unknown_shape_is_refused_by_what_it_lacks(db: None, tmp_path: Any, head: str, said: str) -> None:
    path = tmp_path / "bill.csv"
    path.write_text(head)
    with pytest.raises(Refused) as refusal:
        importing.run_paths(factories.make_provider(), [path])
    assert said in str(refusal.value)
    assert not Bill.objects.exists()


def test_the_documentation_asks_for_what_is_read() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "operating" / "bills.md").read_text()
    told = set(re.findall(r"AS (\w+)", page)) | set(re.findall(r"\b(usage_start_time|cost|currency|cost_type)\b", page))
    assert reading.recognize([*told]).title == "Google Cloud billing export"
    makers = set(re.findall(r"^\| (\w+)(?: Cloud)? \| (?:[^|]+ \|)+$", page.partition("## Import")[0], re.MULTILINE)) - {
        "Provider"
    }
    assert makers == {form.title.split()[0] for form in FORMATS}
    assert "up to 2.4 MB" in page
    assert settings.DATA_UPLOAD_MAX_MEMORY_SIZE >= 2_400_000 + 1_000
    assert "up to 2.4 MB" in str(admin.UploadForm.base_fields["file"].help_text)


def test_each_finding_has_an_advice() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "operating" / "bills.md").read_text()
    advised = {
        "unknown model": "unknown_model",
        "no completion has these requests": "unknown_request",
        "no price of the provider": "no_price",
        "another price": "other_price",
        "other tokens": "other_tokens",
        "billed without a completion": "not_used",
        "not in the bill": "not_billed",
        "early": "early",
        "its hours do not": "hours",
    }
    assert all(words in page for words in advised)
    assert set(BillComparison.Finding.values) == set(advised.values())
