"""The ready groups of staff: each may do what the table says and nothing else, tried with every page and act of the admin."""

import time
from functools import cache

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group
from django.contrib.messages.storage.cookie import CookieStorage
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.test import RequestFactory
from django.urls import resolve, reverse
from django.urls.exceptions import NoReverseMatch

from tests import factories
from tests.gateway_project.activity.test_staff_groups import fill

# What each group may do on the pages of each model. "view" is the list, an object's page and its history; "change" saves it.
_MONEY_SEEN = {"billing.ledgerentry": "view", "billing.hold": "view"}
_PAYMENTS = ("payment", "paymentevent", "paymentdifference", "billingdetails", "topuprule")
_PAYMENTS_SEEN = {f"billing.{name}": "view" for name in _PAYMENTS}
_COSTS_SEEN = {f"completions.{name}": "view" for name in ("completion", "completionhour", "languagemodel", "price")}
_COSTS_SEEN["completions.completion"] = "view compare"
_OF_KEYS_SEEN = ("spendingday", "refusalcount", "refusedrequest", "managementkey", "formersecret")
_REFUSALS_SEEN = {f"keys.{name}": "view" for name in _OF_KEYS_SEEN}
_CATALOG_SEEN = {f"completions.{name}": "view" for name in ("languagemodel", "price", "completionhour", "upstreamlist")}
_CATALOG_SEEN["completions.routablealias"] = "view"
_RANKINGS_SEEN = {f"rankings.{name}": "view" for name in ("snapshot", "standing", "entry", "dailyrank", "publication")}
_PRICES_DECIDED = {
    "completions.pricerequest": "view approve decline",
    "completions.providerprice": "view add change",
    "completions.providerday": "view",
}
_SUPPORT = {
    **_MONEY_SEEN,
    **_COSTS_SEEN,
    **_REFUSALS_SEEN,
    "billing.account": "view month credit password_link lost_phone hand_over",
    "billing.secondfactorrequest": "view",
    "billing.payment": "view",
    "billing.creditrequest": "view",
    "billing.invitation": "view",
    "billing.signinlimit": "view unblock",
    "keys.apikey": "view trial limit raise rates revoke",
    "completions.incident": "view",
    "completions.provider": "view",
    "completions.route": "view",
    "activity.activity": "view",
}
MAY = {
    "Support": _SUPPORT,
    "Support lead": {
        **_SUPPORT,
        "billing.account": "view month credit password_link lost_phone hand_over change correct close reopen",
        "billing.secondfactorrequest": "view approve decline",
        "billing.creditrequest": "view approve decline",
        "billing.user": "view change send_password_links remove_second_factors",
        "billing.membership": "view",
        "completions.incident": "view add change",
        "billing.ownerrequest": "view",
        "billing.passwordlink": "view",
    },
    "Finance": {
        **_MONEY_SEEN,
        **_COSTS_SEEN,
        **_PRICES_DECIDED,
        "billing.account": "view month purchase correct refund close reopen closing_refund hand_over",
        **_PAYMENTS_SEEN,
        "billing.creditrequest": "view approve decline",
        "activity.activity": "view export",
    },
    "Catalogue": {
        **_CATALOG_SEEN,
        **_RANKINGS_SEEN,
        **_PRICES_DECIDED,
        "completions.languagemodel": "view add change price withdraw",
        "completions.provider": "view",
        "completions.route": "view change call",
        "completions.catalogproposal": "view approve dismiss approve_selected dismiss_selected",
        "rankings.snapshot": "view publish_held",
        "rankings.alias": "view add change delete queue",
        "rankings.profile": "view add change delete",
        "rankings.sourcestate": "view refresh_now",
        "activity.activity": "view",
    },
    "Operator": {
        **_CATALOG_SEEN,
        **_COSTS_SEEN,
        **_RANKINGS_SEEN,
        **_REFUSALS_SEEN,
        "billing.account": "view add hand_over",
        "billing.hold": "view",
        "billing.signinlimit": "view unblock",
        "billing.user": "view add change send_password_links remove_second_factors",
        "billing.membership": "view delete",
        "billing.ownerrequest": "view approve decline",
        "billing.passwordlink": "view revoke",
        "billing.invitation": "view",
        "auth.group": "view",
        "keys.apikey": "view trial revoke",
        "completions.provider": "view add change forget_refusals",
        "completions.route": "view change call",
        **dict.fromkeys(_PRICES_DECIDED, "view"),
        "completions.catalogproposal": "view",
        "completions.idempotentrequest": "view",
        "completions.incident": "view add change",
        "rankings.alias": "view",
        "rankings.snapshot": "view publish_held",
        "rankings.profile": "view",
        "rankings.sourcestate": "view refresh_now",
        "activity.activity": "view export",
    },
}
# The permission that a page needs to be seen and, apart from that, to be sent to.
SEEN_WITH = {"changelist": "view", "history": "view", "change": "view"}
SENT_WITH = {"changelist": "view", "history": "view"}


@pytest.fixture
def groups(db):
    fill()  # a transactional test may have emptied the tables since the migrations


@cache
def pages():
    """Return the model, the name and the address of every page of the admin that is about a model."""
    return list(_find_pages())


def _find_pages():
    for model, model_admin in admin.site._registry.items():
        for pattern in model_admin.get_urls():
            if pattern.name:
                page = pattern.name.removeprefix(f"{model._meta.app_label}_{model._meta.model_name}_")
                yield model._meta.label_lower, page, address(f"admin:{pattern.name}")


def address(name):
    no_id = "00000000-0000-0000-0000-000000000000"
    for args in ([], ["0"], ["0", 0], [no_id], [no_id, no_id], [no_id, 0], [no_id, 2026, 1]):
        try:
            return reverse(name, args=args)
        except NoReverseMatch:
            continue
    raise AssertionError(name)


def status_of(user, method, path):
    """Call the page's view, as requests through a client would read session, user and permissions each time."""
    request, match = getattr(RequestFactory(), method)(path), resolve(path)
    request.user, request.session = user, {"password_given_at": int(time.time())}
    request._messages, request._dont_enforce_csrf_checks = CookieStorage(request), True
    try:
        return match.func(request, *match.args, **match.kwargs).status_code
    except PermissionDenied:
        return 403
    except Http404:
        return 404


@pytest.mark.parametrize("group", MAY)
def test_a_group_may_open_and_send_exactly_these_pages(groups, group, monkeypatch):
    monkeypatch.setattr(admin.site, "get_app_list", lambda *args: [])  # the navigation is two fifths of the work of a page
    user = factories.make_user("staff@example.org", is_staff=True)
    user.groups.add(Group.objects.get(name=group))
    wrong = []
    for model, page, path in pages():
        may = MAY[group].get(model, "").split()
        for method, needed in (("get", SEEN_WITH.get(page, page)), ("post", SENT_WITH.get(page, page))):
            status = status_of(user, method, path)
            if (needed in may) is (status == 403) and not (method == "get" and status == 405):
                wrong.append(f"{method} {path}: {status}")
    assert wrong == []


@pytest.mark.parametrize("group", MAY)
def test_a_group_may_do_exactly_these_acts_with_selected_rows(groups, group):
    request = RequestFactory().get("/")
    request.user = factories.make_user("staff@example.org", is_staff=True)
    request.user.groups.add(Group.objects.get(name=group))
    acts = {"send_password_links", "remove_second_factors", "revoke", "forget_refusals", "refresh_now"}
    acts |= {"approve_selected", "dismiss_selected", "publish_held"}
    for model, model_admin in admin.site._registry.items():
        offered = set(model_admin.get_actions(request)) - {"delete_selected"}
        may = set(MAY[group].get(model._meta.label_lower, "").split()) & set(model_admin.actions or [])
        assert offered == may, model._meta.label_lower
        assert offered <= acts
