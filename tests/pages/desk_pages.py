"""Pages of the admin, and what their forms send."""

import html
import re

import pytest

from billing.models import User
from tests import factories

NEW_PASSWORD = {"usable_password": "true", "password1": factories.PASSWORD, "password2": factories.PASSWORD}


def account_page(account, action="change"):
    return f"/admin/billing/account/{account.pk}/{action}/"


def key_page(key, action="change"):
    return f"/admin/keys/apikey/{key.pk}/{action}/"


def send(client, page, fields, **options):
    """Open an act's page, fill its form in, and send it."""
    hidden = dict(re.findall(r'<input type="hidden" name="(token|seen)" value="([^"]*)"', client.get(page).content.decode()))
    return client.post(page, {**{name: html.unescape(value) for name, value in hidden.items()}, **fields}, **options)


def credit_form(client, account, **fields):
    """Return a filled-in credit form with the page's token."""
    page = client.get(account_page(account, "credit")).content.decode()
    token = re.search(r'name="token" value="(\w{22})"', page)[1]
    return {"amount": "5.00", "reason": "Sorry for the outage", "seen": "{}", "token": token, **fields}


def accounts_form(account, **fields):
    """Return what the account's page posts when nothing was changed since it was opened."""
    member = account.memberships.get()
    return {
        "name": account.name,
        **({"keeps_responses": "on"} if account.keeps_responses else {}),
        "memberships-TOTAL_FORMS": 1,
        "memberships-INITIAL_FORMS": 1,
        "memberships-0-id": member.pk,
        "memberships-0-user": member.user_id,
        "memberships-0-account": account.pk,
        **fields,
    }


def page_of(row):
    return f"/admin/{row._meta.app_label}/{row._meta.model_name}/{row.pk}/change/"


def page(model, pk=None, action="change"):
    app = "auth" if model == "group" else "billing"
    return f"/admin/{app}/{model}/add/" if pk is None else f"/admin/{app}/{model}/{pk}/{action}/"


def user_form(user, **fields):
    """Return what the user's page posts when nothing was changed."""
    memberships = list(user.memberships.all())
    rows = {"memberships-TOTAL_FORMS": len(memberships), "memberships-INITIAL_FORMS": len(memberships)}
    for place, membership in enumerate(memberships):
        row = {"id": membership.pk, "user": user.pk, "account": membership.account_id}
        rows |= {f"memberships-{place}-{name}": value for name, value in row.items()}
    return {"email": user.email, "first_name": user.first_name, "is_active": "on", **rows, **fields}


def home(client):
    return client.get("/admin/").content.decode()


def words(page):
    return " ".join(re.sub("<[^>]*>", " ", page).split())


def panel(client, name):
    """Return the words of a panel; None if it is not shown."""
    found = re.search(f'<section[^>]*id="panel-{name}".*?</section>', home(client), re.DOTALL)
    return found and words(found[0])


ROOT = "root@example.org"


@pytest.fixture
def root(transactional_db):
    return User.objects.create_superuser(ROOT, factories.PASSWORD)
