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
from tests.gateway_project.activity.groups import fill
from tests.pages.staff_rights import MAY

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
