"""Admin pages of proposals: old and new values side by side, approved or dismissed once, by staff with permission."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.utils import timezone

from billing.models import User
from completions.catalog import lookup
from completions.catalog.sync import proposals
from completions.models import CatalogProposal, LanguageModel, Price, Provider, Route, UpstreamList
from gateway_project import errors
from gateway_project.activity.models import Activity
from tests import factories, sessions
from tests.completions.catalog.sync.lists import OLD_PRICE

pytestmark = pytest.mark.django_db

PAGE = "/admin/completions/catalogproposal/"
OLD = OLD_PRICE
NEW = {**OLD, "input": "2.50"}
SMALL = {
    "id": "acme/small",
    "name": "Small",
    "maker": "Acme",
    "context_window": 64_000,
    "max_output_tokens": 8_000,
    "image_support": True,
    "function_calling": False,
    "price": NEW,
}


def make_staff(*permissions: str, email: str = "staff@example.org", **fields: Any) -> User:
    user = User.objects.create_user(email, is_staff=True, **fields)
    found = Permission.objects.filter(content_type__app_label="completions", codename__in=permissions)
    user.user_permissions.set(found)
    return user


def signed_in(user: User, **options: bool) -> Client:
    settings: dict[str, Any] = options
    client = Client(**settings)
    sessions.sign_in(client, user)
    return client


@pytest.fixture
def clerk(db: None) -> User:
    return make_staff("view_catalogproposal", "change_catalogproposal")


@pytest.fixture
def office(clerk: User) -> Client:
    return signed_in(clerk)


@pytest.fixture
def large(db: None) -> LanguageModel:
    barn = factories.make_provider("barn", kind="openai", base_url="http://127.0.0.1:9/v1", sync="propose")
    return factories.make_model(
        "acme/large", provider=barn, input="3.00", output="15.00", cached_input="0.30", upstream_model="acme/large"
    )


def propose(kind: str = "price", old: Any = None, new: Any = None, **fields: Any) -> CatalogProposal:
    model_id = None if kind == "new_model" else "acme/large"
    defaults = {"upstream_model": "acme/large", "model_id": model_id, "provider_id": "barn"}
    values = {"old": OLD if old is None else old, "new": NEW if new is None else new}
    return CatalogProposal.objects.create(kind=kind, **values, **{**defaults, **fields})


def messages_shown(reply: Any) -> list[str]:
    return [str(message) for message in reply.context["messages"]]


def press(client: Client, verb: str, proposal: CatalogProposal, **options: Any) -> Any:
    return client.post(f"{PAGE}{proposal.pk}/{verb}/", follow=True, **options)


def state(proposal: CatalogProposal) -> tuple[str, Any]:
    proposal.refresh_from_db()
    return proposal.state, proposal.decided_by and proposal.decided_by.email


def catalog() -> list[list[tuple[Any, ...]]]:
    return [list(table.objects.order_by("pk").values_list()) for table in (LanguageModel, Price, Route)]


# --- Viewing --------------------------------------------------------------------------------------------------------


def test_old_and_new_values_are_shown_with_a_button_for_each_decision(large, office):
    proposal = propose()

    html = office.get(PAGE).content.decode().replace("\N{NO-BREAK SPACE}", " ")

    assert "input $3.00<br>output $15.00<br>cached input $0.30" in html
    assert "input $2.50<br>output $15.00<br>cached input $0.30" in html
    assert f'formaction="{PAGE}{proposal.pk}/approve/"' in html
    assert f'formaction="{PAGE}{proposal.pk}/dismiss/"' in html


def test_listed_text_is_escaped(large, office):
    propose("new_model", {}, {**SMALL, "id": "<script>alert(1)</script>"}, upstream_model="<script>alert(1)</script>")

    assert "<script>alert(1)" not in office.get(PAGE).content.decode()


def test_pending_proposals_come_first_and_the_list_can_be_filtered(large, office):
    waiting = propose()
    propose("gone", {"upstream_model": "acme/large"}, {}, state="superseded", decided_at=timezone.now())
    propose("new_model", {}, SMALL)

    def shown(**query: str) -> list[int]:
        return [proposal.pk for proposal in office.get(PAGE, query).context["cl"].result_list]

    assert [CatalogProposal.objects.get(pk=pk).state for pk in shown()] == ["pending", "pending", "superseded"]
    assert shown(kind__exact="price") == shown(q="acme/large", state__exact="pending", kind__exact="price") == [waiting.pk]


def test_staff_with_view_permission_see_no_buttons_and_cannot_decide(large):
    client = signed_in(make_staff("view_catalogproposal"))
    proposal = propose()
    before = catalog()

    for page in (PAGE, f"{PAGE}{proposal.pk}/change/"):
        html = client.get(page).content.decode()
        assert "$2.50" in html
        assert "formaction" not in html
    for verb in ("approve", "dismiss"):
        assert press(client, verb, proposal).status_code == 403
    client.post(PAGE, {"action": "approve_selected", "_selected_action": proposal.pk})

    assert (state(proposal), catalog()) == (("pending", None), before)


def test_others_are_denied(large, alice):
    proposal = propose()
    assert signed_in(make_staff()).get(PAGE).status_code == 403
    assert signed_in(make_staff(email="other@example.org")).post(f"{PAGE}{proposal.pk}/approve/").status_code == 403
    assert signed_in(alice.members.get()).post(f"{PAGE}{proposal.pk}/approve/").status_code == 302
    assert Client().post(f"{PAGE}{proposal.pk}/approve/").status_code == 302

    assert state(proposal) == ("pending", None)


def test_a_link_or_a_forged_form_decides_nothing(large, clerk, office):
    proposal = propose()

    assert office.get(f"{PAGE}{proposal.pk}/approve/").status_code == 405
    assert signed_in(clerk, enforce_csrf_checks=True).post(f"{PAGE}{proposal.pk}/approve/").status_code == 403

    assert state(proposal) == ("pending", None)


def test_proposals_cannot_be_added_changed_or_deleted(large):
    root = signed_in(make_staff(is_superuser=True))
    proposal = propose()

    assert root.get(f"{PAGE}add/").status_code == 403
    assert root.post(f"{PAGE}{proposal.pk}/change/", {"new": "{}"}).status_code == 403
    assert root.post(f"{PAGE}{proposal.pk}/delete/", {"post": "yes"}).status_code == 403

    assert CatalogProposal.objects.get().new == NEW


# --- Approving ------------------------------------------------------------------------------------------------------


def test_an_approved_price_is_in_force_at_once_and_logged_and_the_old_one_stays(large, office):
    proposal = propose()
    old = Price.objects.values().get()

    reply = press(office, "approve", proposal)

    sentence = "Approved what barn lists of acme/large: input $3.00 -> $2.50."
    assert messages_shown(reply) == [sentence]
    assert state(proposal) == ("applied", "staff@example.org")
    assert Price.objects.values().get(pk=old["id"]) == old
    offered = lookup.find_offer("acme/large").price
    assert offered.values == {**OLD_PRICE, "input": "2.50"}
    assert [(entry.object_type, entry.object_id, entry.summary) for entry in Activity.objects.order_by("pk")] == [
        ("completions.catalogproposal", str(proposal.pk), sentence),
        ("completions.languagemodel", "acme/large", sentence),
    ]


def test_a_second_click_shows_that_the_proposal_is_decided(large, office):
    proposal = propose()
    press(office, "approve", proposal)

    assert messages_shown(press(office, "approve", proposal)) == [f"Proposal {proposal.pk} is applied already."]
    assert messages_shown(press(office, "dismiss", proposal)) == [f"Proposal {proposal.pk} is applied already."]
    assert Price.objects.count() == 2
    assert state(proposal) == ("applied", "staff@example.org")
    assert "formaction" not in office.get(f"{PAGE}{proposal.pk}/change/").content.decode()


@pytest.mark.django_db(transaction=True)
def test_of_two_concurrent_approvals_one_succeeds(large, clerk):
    proposal = propose()

    def approve(_: int) -> str:
        try:
            return proposals.approve(proposal.pk, by=clerk).state
        except proposals.DecisionRefused as refusal:
            return str(refusal)
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(approve, range(2))) == ["applied", "is applied already"]
    assert Price.objects.count() == 2


def test_a_proposal_is_not_applied_if_the_catalog_has_changed_since(large, office):
    proposal = propose()
    Price.objects.create(model=large, rates=factories.rates_of(input_nanos=1, output_nanos=1))
    before = catalog()

    reply = press(office, "approve", proposal)

    outdated = "is outdated: the catalog has changed since, and the next sync compares again"
    assert messages_shown(reply) == [f"Proposal {proposal.pk} {outdated}."]
    assert (state(proposal), catalog()) == (("pending", None), before)
    assert not Activity.objects.exists()


def test_limits_and_capabilities_are_written_to_the_model(large, office):
    limits = propose(
        "limits", {"context_window": 128_000, "max_output_tokens": 4_096}, {"context_window": 2_000, "max_output_tokens": 2_000}
    )
    capabilities = propose(
        "capabilities", {"image_support": False, "function_calling": False}, {"image_support": True, "function_calling": False}
    )

    press(office, "approve", limits)
    press(office, "approve", capabilities)

    large.refresh_from_db()
    assert (large.context_window, large.max_output_tokens) == (2_000, 2_000)
    assert (large.image_support, large.function_calling, large.is_enabled) == (True, False, True)
    assert Price.objects.count() == 1


def test_approving_a_model_as_gone_disables_its_route_only(large, office):
    other = Route.objects.create(model=large, provider=factories.make_provider(), upstream_model="echo", priority=2)
    proposal = propose("gone", {"upstream_model": "acme/large"}, {})

    press(office, "approve", proposal)

    assert dict(Route.objects.values_list("provider", "is_enabled")) == {"barn": False, "echo": True}
    assert [route.id for route in lookup.find_offer("acme/large").routes] == [other.pk]
    again = propose("gone", {"upstream_model": "acme/large"}, {})
    assert messages_shown(press(office, "approve", again)) == [
        f"Proposal {again.pk} is outdated: the route is disabled, or does not exist."
    ]


def test_a_proposal_of_an_earlier_release_names_what_no_price_has_and_can_be_decided(large, office):
    unknown = dict.fromkeys(["cache_write", "cache_write_1h", "flex_input", "flex_cached_input", "image", "web_search"])
    proposal = propose("price", {**OLD_PRICE, **unknown}, {**OLD_PRICE, **unknown, "input": "2.50", "cache_write": "2.75"})

    html = office.get(PAGE).content.decode().replace("\N{NO-BREAK SPACE}", " ")
    assert "input $2.50<br>output $15.00<br>cached input $0.30<br>cache write $2.75" in html
    press(office, "approve", proposal)

    assert state(proposal) == ("applied", "staff@example.org")
    assert lookup.find_offer("acme/large").price.values == {**OLD_PRICE, "input": "2.50", "cache_write": "2.75"}


def test_an_approved_new_model_is_created_disabled(large, office):
    proposal = propose("new_model", {}, SMALL, upstream_model="small-1")

    html = press(office, "approve", proposal).content.decode()

    assert 'href="/admin/completions/languagemodel/acme_2Fsmall/change/"' in html
    made = LanguageModel.objects.get(pk="acme/small")
    assert (made.name, made.maker, made.context_window, made.max_output_tokens) == ("Small", "Acme", 64_000, 8_000)
    assert (made.image_support, made.function_calling, made.commercial_use, made.is_enabled) == (True, False, False, False)
    assert list(made.routes.values_list("provider", "upstream_model", "is_enabled")) == [("barn", "small-1", True)]
    assert [price.sheet.values for price in made.prices.all()] == [SMALL["price"]]
    assert CatalogProposal.objects.get().model == made
    with pytest.raises(errors.ModelNotFound):
        lookup.find_offer("acme/small")

    LanguageModel.objects.update(is_enabled=True)
    assert lookup.find_offer("acme/small").price.rate("input") == 2_500_000_000


def test_a_new_model_without_a_listed_price_is_created_without_one(large, office):
    press(office, "approve", propose("new_model", {}, {**SMALL, "price": None}, upstream_model="small-1"))

    assert not LanguageModel.objects.get(pk="acme/small").prices.exists()


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        (
            {**SMALL, "context_window": None, "max_output_tokens": None},
            "cannot be approved: the list does not say its context window. Add the model by hand",
        ),
        ({**SMALL, "id": "acme/large"}, "is outdated: there is a model acme/large"),
    ],
)
def test_a_new_model_that_cannot_be_created_is_refused(large, office, new, reason):
    proposal = propose("new_model", {}, new, upstream_model="small-1")
    before = catalog()

    assert messages_shown(press(office, "approve", proposal)) == [f"Proposal {proposal.pk} {reason}."]
    assert (state(proposal), catalog()) == (("pending", None), before)


# --- Dismissing, and several at a time ------------------------------------------------------------------------------


def test_dismissing_changes_only_the_proposal(large, office):
    proposal = propose()
    before = catalog()

    reply = press(office, "dismiss", proposal)

    assert messages_shown(reply) == ["Dismissed what barn lists of acme/large: input $3.00 -> $2.50."]
    assert (state(proposal), catalog()) == (("dismissed", "staff@example.org"), before)
    assert [entry.object_type for entry in Activity.objects.all()] == ["completions.catalogproposal"]


@pytest.mark.parametrize("verb", ["approve", "dismiss"])
def test_a_proposal_that_cannot_be_decided_does_not_stop_the_others(large, office, verb):
    decided = propose("gone", {"upstream_model": "acme/large"}, {}, state="dismissed", decided_at=timezone.now())
    chosen = [decided, propose(), propose("new_model", {}, SMALL, upstream_model="small-1")]

    reply = office.post(PAGE, {"action": f"{verb}_selected", "_selected_action": [each.pk for each in chosen]}, follow=True)

    assert messages_shown(reply)[0] == f"Proposal {decided.pk} is dismissed already."
    now = "applied" if verb == "approve" else "dismissed"
    assert [state(each)[0] for each in chosen] == ["dismissed", now, now]
    assert LanguageModel.objects.count() == (2 if verb == "approve" else 1)


def test_the_list_keeps_its_filters_when_a_button_is_pressed(large, office):
    here = f"http://testserver{PAGE}?kind__exact=price"
    reply = press(office, "dismiss", propose(), headers={"referer": here})
    assert reply.redirect_chain == [(f"{PAGE}?kind__exact=price", 302)]

    elsewhere = "http://evil.example/?kind__exact=price"
    assert press(office, "dismiss", propose(new=OLD), headers={"referer": elsewhere}).redirect_chain == [(PAGE, 302)]


def test_an_unknown_proposal_is_a_404(large, office):
    assert office.post(f"{PAGE}4711/approve/").status_code == 404


# --- The provider's page --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slug", "sync", "is_taken"),
    [("barn", "apply", True), ("barn", "always", False), ("tower", "propose", True), ("inside", "propose", False)],
)
def test_sync_can_be_enabled_for_every_provider_with_an_address(large, slug, sync, is_taken):
    factories.make_provider("tower", kind="anthropic", base_url="http://127.0.0.1:9/v1")
    factories.make_provider("inside")
    address = "" if slug == "inside" else "http://127.0.0.1:9/v1"
    root = signed_in(make_staff(is_superuser=True))

    reply = root.post(
        f"/admin/completions/provider/{slug}/change/",
        {"base_url": address, "is_enabled": "on", "sync": sync, "_confirmed": "on"},
    )

    assert reply.status_code == (302 if is_taken else 200)
    assert is_taken or list(reply.context["adminform"].form.errors) == ["sync"]
    before = {"barn": "propose", "tower": "off", "inside": "off"}
    assert dict(Provider.objects.values_list("slug", "sync")) == (before | {slug: sync} if is_taken else before)


def test_the_page_of_a_provider_shows_the_outcome_of_its_last_sync(large):
    root = signed_in(make_staff(is_superuser=True))
    page = "/admin/completions/provider/barn/change/"
    assert "never fetched" in root.get(page).content.decode()

    UpstreamList.objects.create(provider_id="barn", url="x", failure="answered 401")
    assert "none accepted so far; the last time it answered 401" in root.get(page).content.decode()
