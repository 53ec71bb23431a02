"""No page of the admin shows a form, a button or a link whose reader may not send or follow it: tried with each ready group."""

import re
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

import pytest
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.urls import reverse
from django.urls.exceptions import NoReverseMatch

from billing.models import OwnerRequest
from tests import factories
from tests.cases import undone
from tests.pages.conftest import owner_of
from tests.pages.staff_readers import _without_navigation, customer, staff_in
from tests.pages.staff_rights import MAY

__all__ = ["_without_navigation", "customer"]


class Sendable(HTMLParser):
    """The addresses that buttons post to and links lead to, and the fields of forms without a button."""

    def __init__(self, address):
        super().__init__()
        self.address, self.posts, self.links, self.idle = address, set(), set(), []
        self._action, self._fields, self._buttons = None, [], 0

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "form" and given.get("method", "").lower() == "post":
            self._action, self._fields, self._buttons = given.get("action") or self.address, [], 0
        is_submit = (tag, given.get("type", "submit")) == ("button", "submit") or given.get("type") == "submit"
        if self._action is not None and is_submit:
            self._buttons += 1
            self.posts.add(urljoin(self.address, given.get("formaction", self._action)))
        elif self._action is not None and tag in ("input", "select", "textarea") and given.get("type") != "hidden":
            self._fields.append(given.get("name"))
        if tag == "a" and given.get("href", "").startswith(("/admin/", "?", "../")):
            self.links.add(urljoin(self.address, given["href"]).partition("#")[0])

    def handle_endtag(self, tag):
        if tag == "form" and self._action is not None:
            self.idle += self._fields if not self._buttons else []
            self._action = None


def addresses():
    """Yield the address of each page that is about a model, or about its newest row."""
    for model, model_admin in admin.site._registry.items():
        row = model._default_manager.order_by("-pk").first()
        for pattern in model_admin.get_urls():
            for args in ([], *([[quote(row.pk)], [row.pk]] if row else [])):
                try:
                    yield reverse(f"admin:{pattern.name}", args=args)
                    break
                except NoReverseMatch:
                    continue


def shape(link):
    return re.sub(r"[0-9A-Za-z-]{20,}|\d+", "#", urlsplit(link).path)


@pytest.mark.parametrize("group", MAY)
def test_what_is_shown_can_be_sent_and_followed(customer, group):
    client, wrong, links = staff_in(group), [], {}
    for address in ["/admin/", *dict.fromkeys(addresses())]:
        reply = client.get(address)
        if reply.status_code != 200 or "html" not in reply["Content-Type"]:
            continue
        shown = Sendable(address)
        shown.feed(reply.content.decode())
        links |= {shape(link): link for link in shown.links}
        wrong += [f"{address} has a field {name} that no button sends" for name in shown.idle]
        for target in shown.posts:
            with undone():
                if client.post(target).status_code == 403:
                    wrong.append(f"{address} has a button to {target}")
    wrong += [f"a link to {link}" for link in links.values() if client.get(link).status_code == 403]
    assert wrong == []


def test_an_operator_asks_for_an_owner_where_the_form_can_be_sent(customer):
    operator, user = staff_in("Operator"), owner_of(customer)
    words = "adding an owner needs approval"
    assert words not in operator.get(f"/admin/billing/account/{customer.pk}/change/").content.decode().lower()
    page = f"/admin/billing/user/{user.pk}/change/"
    assert words in operator.get(page).content.decode().lower()
    other = factories.make_account("Other")
    rows = {"TOTAL_FORMS": "1", "INITIAL_FORMS": "0", "0-user": user.pk, "0-account": other.pk}
    form = {"email": user.email, "is_active": "on", **{f"memberships-{name}": value for name, value in rows.items()}}
    assert operator.post(page, form).status_code == 302
    assert OwnerRequest.objects.filter(user=user, account=other, requested_by__email="Operator@example.com".lower()).exists()
