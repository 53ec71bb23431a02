"""The rail of the admin: each list once, in groups, beside each page; on a phone behind a button."""

import re

from django.contrib import admin
from playwright.sync_api import expect

from billing.models import User
from tests import factories
from tests.browser import PHONE, sign_in
from tests.pages.conftest import make_staff, signed_in, superuser  # noqa: F401  fixtures
from tests.pages.desk_pages import home

LIST = r'<a href="(/admin/\w+/\w+/)"'


def rail(client):
    return re.search(r'<nav class="support-rail".*?</nav>', home(client), re.DOTALL)[0]


def test_each_list_is_in_it_once(superuser):  # noqa: F811
    found = re.findall(LIST, rail(superuser))
    assert sorted(found) == sorted(f"/admin/{str(model._meta).replace('.', '/')}/" for model in admin.site._registry)


def test_staff_see_the_lists_that_they_may_view(db):
    staff = signed_in(make_staff("reader@example.org", ["billing.view_account", "keys.view_apikey"]))
    assert re.findall(LIST, rail(staff)) == ["/admin/billing/account/", "/admin/keys/apikey/"]


def test_the_page_of_an_app_lists_its_tables(db, superuser):  # noqa: F811
    page = superuser.get("/admin/completions/").content.decode().partition('id="content-main"')[2]
    assert {"/admin/completions/completion/", "/admin/completions/route/"} <= set(re.findall(r'href="([^"]+)"', page))
    assert "/admin/billing/" not in page


def test_a_group_without_a_list_is_not_shown(open_page, db, transactional_db):
    make_staff("reader@example.org", ["billing.view_account"])
    page = open_page()
    sign_in(page, "reader@example.org", "/admin/billing/account/")
    lists = page.get_by_role("navigation", name="Lists")
    expect(lists.get_by_text("Customers")).to_be_visible()
    expect(lists.get_by_text("Rankings")).to_be_hidden()


def test_the_group_of_the_page_is_open_and_its_list_is_marked(open_page, transactional_db):
    User.objects.create_superuser("root@example.org", factories.PASSWORD)
    page = open_page()
    sign_in(page, "root@example.org", "/admin/rankings/profile/")
    lists = page.get_by_role("navigation", name="Lists")
    expect(lists.get_by_role("link", name="Profiles")).to_have_attribute("aria-current", "page")
    expect(lists.get_by_role("link", name="Profiles")).to_be_visible()
    expect(lists.get_by_role("link", name="Holds")).to_be_hidden()


def test_a_phone_opens_and_closes_it_with_the_keyboard_and_without_scripts(open_page, transactional_db):
    User.objects.create_superuser("root@example.org", factories.PASSWORD)
    page = open_page(**PHONE, java_script_enabled=False)
    sign_in(page, "root@example.org", "/admin/")
    link = page.get_by_role("link", name="Accounts", exact=True)
    expect(link).to_be_hidden()
    page.get_by_role("button", name="Menu").press("Enter")
    expect(link).to_be_visible()
    page.keyboard.press("Escape")
    expect(link).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    link.click()
    page.wait_for_url("**/admin/billing/account/")
    expect(link).to_be_hidden()


def test_lost_phones_have_one_name_in_the_rail_the_panel_and_the_list(superuser):  # noqa: F811
    names = re.findall(r">([^<>]+)</a>", rail(superuser))
    assert "Lost phones" in names
    assert "Lost phones" in home(superuser).replace(rail(superuser), "")
    assert "<h1>Lost phones</h1>" in superuser.get("/admin/billing/secondfactorrequest/").content.decode()
