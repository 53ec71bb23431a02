"""The mapping of names to our models: exact rules, in order, without guesses."""

import pytest
from django.core.management import call_command

from completions.models import Category, LanguageModel
from rankings.identity import mapping, rules
from rankings.identity.rules import OwnModel
from rankings.models import Alias, Profile, Source, Standing
from tests import factories
from tests.rankings import snapshots

ARENA, AA, HUB = Source.LMSYS_ARENA, Source.ARTIFICIAL_ANALYSIS, Source.HUGGINGFACE


def standing(key_kind, external_key, name, organization, **facts):
    return Standing(key_kind=key_kind, external_key=external_key, name=name, organization=organization, facts=facts)


def arena(name, maker="openai"):
    return standing("model_name", name, name, maker)


def aa(name, slug="", maker="OpenAI"):
    return standing("aa_id", "2dad8957-4c16-4e74-bf2d-8b21514e0ae9", name, maker, slug=slug)


def hub(name):
    return standing("hf_repo", name, name.rpartition("/")[2], name.partition("/")[0])


def ours(model_id, name="", maker="OpenAI", hf_repo=""):
    return OwnModel(model_id, name or model_id.rpartition("/")[2], maker, hf_repo)


# --- The rules, alone ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("GPT 5.6 Sol (xHigh)", "gpt-5-6-sol-xhigh"),
        ("openai/gpt-5.6-sol-xhigh:free", "gpt-5-6-sol-xhigh"),
        ("Qwen/Qwen3.6-27B", "qwen3-6-27b"),
        ("  Ｃlaude—Opus_4.5 ", "claude-opus-4-5"),
        ("claude-3.5-sonnet-20240620", "claude-3-5-sonnet-20240620"),
        ("模型", "模型"),
        ("工具 7", "工具-7"),
        ("acme/模型-7", "模型-7"),
        ("Модель Ё", "модель-ё"),
        ("मॉडल-२", "मॉडल-२"),
        ("Straße", "strasse"),
        ("Command R+", "command-r-plus"),
        ("☃ / ★", ""),
        ("\u200b", ""),
    ],
)
def test_normalized_name_ignores_case_and_punctuation_only(name, plain):
    assert rules.normalized(name) == plain


@pytest.mark.parametrize(
    ("theirs", "model"),
    [
        (arena("gpt-5-mini"), ours("openai/gpt-5")),
        (arena("gpt-5"), ours("openai/gpt-5-mini")),
        (arena("claude-3.5-sonnet-20240620", "anthropic"), ours("anthropic/claude-3.5-sonnet-20241022", maker="Anthropic")),
        (arena("gpt-5.5-xhigh"), ours("openai/gpt-5.5")),
        (aa("GPT-5.5 (xhigh)", slug="gpt-5-5"), ours("openai/gpt-5.5")),
        (aa("GPT-5.5 Thinking", slug="gpt-5-5"), ours("openai/gpt-5.5")),
        (arena("gpt-oss-120b", "fine tuners"), ours("openai/gpt-oss-120b")),
        (arena("gpt-oss-120b", ""), ours("openai/gpt-oss-120b")),
        (hub("somebody/gpt-oss-120b"), ours("openai/gpt-oss-120b")),
        (arena("模型"), ours("openai/другая", name="другая")),
    ],
)
def test_similar_name_has_no_match(theirs, model):
    assert rules.match(theirs, [model]) is None


@pytest.mark.parametrize(
    ("theirs", "model"),
    [
        (arena("gpt-5.6-sol-xhigh"), ours("openai/sol", name="GPT 5.6 Sol (xHigh)")),
        (aa("GPT-5.5", slug="gpt-5-5"), ours("openai/gpt-5.5")),
        (aa("GPT 5.5 Preview", slug="gpt-5-5"), ours("openai/gpt-5.5")),
        (arena("glm-5.2", "zhipu"), ours("zai/glm-5.2", maker="Z.ai")),
        (arena("kimi-k2.7-code", "moonshot"), ours("moonshotai/kimi-k2.7-code", maker="Moonshot AI")),
        (hub("mistralai/Mistral-Large-2512"), ours("mistral/mistral-large-2512", maker="Mistral")),
        (arena("qwen3.5-9b", "alibaba"), ours("qwen/qwen3.5-9b", maker="Qwen")),
        (
            standing("canonical_slug", "x-ai/grok-5-20260101", "", "x-ai", id="x-ai/grok-5"),
            ours("xai/grok-5", maker="xAI"),
        ),
    ],
)
def test_equal_name_of_the_same_maker_matches(theirs, model):
    found = rules.match(theirs, [model, ours("openai/unrelated")])
    assert (found.model_id, found.method, found.confidence) == (model.id, Alias.Method.RULE, 0.9)


@pytest.mark.parametrize(
    ("theirs", "model"),
    [
        (arena("工具 7", "acme"), ours("acme/模型-7", maker="Acme")),
        (arena("Command R+", "acme"), ours("acme/command-r", maker="Acme")),
        (arena("★", "acme"), OwnModel(id="acme/★", name="☃", maker="Acme")),
    ],
)
def test_names_that_differ_only_in_other_letters_or_have_none_do_not_match(theirs, model):
    assert rules.match(theirs, [model]) is None


def test_a_name_in_other_letters_matches_in_another_form_of_them():
    model = ours("acme/ﾓﾃﾞﾙ-7", maker="Acme")  # half width
    assert rules.match(arena("モデル 7", "acme"), [model]).model_id == model.id


def test_two_candidates_are_no_match():
    pair = [ours("openai/gpt-5"), ours("openai/five", name="GPT-5")]
    assert rules.match(arena("gpt-5"), pair) is None
    assert rules.suggestions(arena("gpt-5"), pair) == ["openai/five", "openai/gpt-5"]


def test_declared_link_precedes_the_rule_and_ignores_case():
    linked, equal = ours("a/linked", hf_repo="OpenAI/GPT-OSS-120B"), ours("openai/gpt-oss-120b")
    found = rules.match(hub("openai/gpt-oss-120b"), [equal, linked])
    assert (found.model_id, found.method, found.confidence) == ("a/linked", Alias.Method.LINK, 0.95)


def test_only_suggestions_ignore_dates_efforts_and_makers():
    models = [ours("anthropic/claude-haiku-4-5", maker="Anthropic"), ours("openai/gpt-5")]
    theirs = arena("claude-haiku-4-5-20251001-thinking-32k", "anthropic")
    assert rules.match(theirs, models) is None
    assert rules.suggestions(theirs, models) == ["anthropic/claude-haiku-4-5"]
    assert rules.suggestions(arena("gpt-5", "resellers"), models) == ["openai/gpt-5"]
    assert rules.suggestions(arena("gpt-5-mini"), models) == []


# --- The rows --------------------------------------------------------------------------------------------------------


@pytest.fixture
def gpt(db):
    return factories.make_model("openai/gpt-5", maker="OpenAI")


@pytest.fixture
def arena_snapshot(gpt):
    snapshot = snapshots.make_snapshot(ARENA, {"GENERAL": {"gpt-5": 1400.0, "gpt-5-high": 1450.0, "gpt-5-low": 1350.0}})
    snapshot.standings.update(organization="openai")
    return snapshot


def rows():
    return list(Alias.objects.order_by("external_key").values_list("external_key", "model", "method", "confidence"))


def test_match_by_rule_is_stored_once(arena_snapshot):
    assert mapping.map_by_rules(arena_snapshot) == 1
    assert rows() == [("gpt-5", "openai/gpt-5", "rule", 0.9)]
    assert mapping.map_by_rules(arena_snapshot) == 0


def test_alias_by_rule_is_deleted_when_the_rule_no_longer_holds(arena_snapshot):
    mapping.map_by_rules(arena_snapshot)
    factories.make_model("openai/five", name="GPT-5", maker="OpenAI")
    assert mapping.map_by_rules(arena_snapshot) == 1
    assert rows() == []
    assert [standing.external_key for standing in mapping.unmatched(arena_snapshot)][:1] == ["gpt-5-high"]


@pytest.mark.parametrize("says", ["openai/gpt-5", None])
def test_alias_by_staff_precedes_every_rule(arena_snapshot, says):
    snapshots.make_alias(ARENA, "gpt-5", says)
    mapping.map_by_rules(arena_snapshot)
    assert rows() == [("gpt-5", says, "staff", 1.0)]
    assert "gpt-5" not in {standing.external_key for standing in mapping.unmatched(arena_snapshot)}
    assert bool(mapping.chosen_standings(arena_snapshot)) == (says is not None)


def test_effort_with_an_explicit_alias_is_chosen(arena_snapshot):
    mapping.map_by_rules(arena_snapshot)
    snapshots.make_alias(ARENA, "gpt-5-high", "openai/gpt-5")
    chosen = mapping.chosen_standings(arena_snapshot)[Category.GENERAL]["openai/gpt-5"]
    assert (chosen.standing.value, chosen.confidence, chosen.method) == (1450.0, 1.0, "staff")


def test_worst_of_several_is_chosen_with_less_confidence(arena_snapshot):
    for name in ("gpt-5-high", "gpt-5-low"):
        snapshots.make_alias(ARENA, name, "openai/gpt-5")
    chosen = mapping.chosen_standings(arena_snapshot)[Category.GENERAL]["openai/gpt-5"]
    assert (chosen.standing.external_key, chosen.confidence) == ("gpt-5-low", 0.7)


def test_unmatched_names_are_listed_by_rank_and_never_chosen(arena_snapshot):
    mapping.map_by_rules(arena_snapshot)
    assert [standing.external_key for standing in mapping.unmatched(arena_snapshot)] == ["gpt-5-high", "gpt-5-low"]
    assert mapping.chosen_standings(arena_snapshot)[Category.GENERAL].keys() == {"openai/gpt-5"}


def test_name_of_the_hub_matches_in_any_case(gpt):
    snapshot = snapshots.make_snapshot(HUB, {"GENERAL": {"OpenAI/GPT-Five": 80.0}})
    snapshots.make_alias(HUB, "openai/gpt-five", gpt.pk)
    assert mapping.chosen_standings(snapshot)[Category.GENERAL][gpt.pk].confidence == 1.0


def test_alias_by_name_matches_a_source_that_has_ids(gpt, settings):
    settings.RANKINGS_AA_API_KEY = "key"
    snapshot = snapshots.make_snapshot(AA, {"GENERAL": {"2dad8957": 60.0}})
    snapshot.standings.update(name="Five (High)")
    Alias.objects.create(source=AA, key_kind="name", external_key="five-high", model=gpt, method="staff")
    assert mapping.chosen_standings(snapshot)[Category.GENERAL].keys() == {gpt.pk}


# --- The curated file ------------------------------------------------------------------------------------------------


@pytest.fixture
def curated(tmp_path, gpt):
    def load(text):
        path = tmp_path / "identities.toml"
        path.write_text(text)
        return mapping.load_curated(path)

    return load


FILE = """
[models."openai/gpt-5"]
open_weights = true
hf_repo = "openai/gpt-5-weights"
effort = "medium"
names = { "LMSYS_ARENA.model_name" = ["gpt-5-2026"] }

[models."openai/not-here"]
hf_repo = "openai/not-here"
"""


def test_file_is_loaded_for_models_in_the_catalog(curated):
    assert curated(FILE) == 2
    assert rows() == [
        ("gpt-5-2026", "openai/gpt-5", "curated", 1.0),
        ("openai/gpt-5-weights", "openai/gpt-5", "curated", 1.0),
    ]
    assert list(Profile.objects.values_list()) == [("openai/gpt-5", True, "openai/gpt-5-weights", "medium")]
    assert curated(FILE) == 0


def test_alias_is_deleted_when_the_file_no_longer_has_it(curated):
    curated(FILE)
    assert curated('[models."openai/gpt-5"]\n') == 2
    assert rows() == []
    assert Profile.objects.get().hf_repo == ""


def test_file_precedes_rules_and_follows_staff(curated, arena_snapshot):
    mapping.map_by_rules(arena_snapshot)
    snapshots.make_alias(ARENA, "gpt-5-high", None)
    curated('[models."openai/gpt-5"]\nnames = { "LMSYS_ARENA.model_name" = ["gpt-5", "gpt-5-high"] }')
    mapping.map_by_rules(arena_snapshot)
    assert rows() == [("gpt-5", "openai/gpt-5", "curated", 1.0), ("gpt-5-high", None, "staff", 1.0)]


@pytest.mark.django_db
def test_shipped_file_names_catalog_models_and_each_name_once():
    call_command("load_catalog", built_in=True)
    assert mapping.curated_ids() <= set(LanguageModel.objects.values_list("pk", flat=True))
    mapping.load_curated()
    curated = Alias.objects.filter(method="curated")
    assert set(curated.values_list("model", flat=True)) | {"anthropic/claude-haiku-4-5"} <= mapping.curated_ids()
    assert {(alias.source, alias.key_kind) for alias in curated} <= {
        ("LMSYS_ARENA", "model_name"),
        ("HUGGINGFACE", "hf_repo"),
        ("OPENROUTER", "canonical_slug"),
    }
    open_weights = LanguageModel.objects.filter(pk__in=Profile.objects.filter(open_weights=True))
    assert not open_weights.filter(license="Proprietary").exists()
    assert Alias.objects.count() == 16
