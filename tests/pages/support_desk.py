"""The desk of support in a browser."""

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import Group

from tests import factories, second_factors
from tests.gateway_project.activity.groups import fill as make_groups
from tests.pages.conftest import signed_in

DESK = {"viewport": {"width": 1280, "height": 900}}


@pytest.fixture(autouse=True)
def _as_deployed(transactional_db, settings, tmp_path):
    """Staff need a second factor, and mails are kept where the test reads them."""
    settings.STAFF_NEED_SECOND_FACTOR = True
    settings.MAIL_DIR, settings.EMAIL_BACKEND = tmp_path, "gateway_project.mail.DirectoryBackend"
    make_groups()


@pytest.fixture
def desk_of(open_page, live_server):
    """Opens a page of somebody in a group, who has signed in with an app's code just now."""

    def open_one(email, group=None, **options):
        user = factories.make_user(email, is_staff=True, is_superuser=group is None)
        user.groups.set(Group.objects.filter(name=group))
        second_factors.give_app(user)
        page = open_page(**DESK, **options)
        name = django_settings.SESSION_COOKIE_NAME
        page.context.add_cookies([{"name": name, "value": signed_in(user).cookies[name].value, "url": live_server.url}])
        page.goto("/admin/")
        return page

    return open_one


def search(page, term):
    page.get_by_role("searchbox", name="Email, account, key or any ID").fill(term)
    page.get_by_role("button", name="Search", exact=True).first.click()


def press(page, name):
    page.get_by_role("button", name=name, exact=True).click()


def follow(page, name, **options):
    page.get_by_role("link", name=name, exact=True, **options).first.click()
