"""What each kind of staff may not do, tried with the requests that the admin's forms send, forged fields included."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import Group, Permission
from django.core import mail
from django.db import connection, transaction

from billing import locks
from billing.models import Account, LedgerEntry, Membership, OwnerRequest, User
from billing.staff import support_credit
from gateway_project.activity.models import Activity
from tests import factories
from tests.cases import undone
from tests.pages.conftest import make_staff, owner_of, signed_in
from tests.pages.dashboard_pages import text
from tests.pages.desk_pages import NEW_PASSWORD, account_page, accounts_form, credit_form, page, user_form
from tests.waiting import somebody_waits, until

# Everything in the admin about people and accounts, but nothing about the catalog.
MANAGER_PERMISSIONS = [
    *(f"billing.{verb}_{model}" for verb in ("view", "add", "change", "delete") for model in ("user", "membership")),
    *(f"auth.{verb}_group" for verb in ("view", "add", "change", "delete")),
    *("billing.view_account", "billing.add_account", "billing.change_account", "billing.issue_support_credit"),
    "billing.view_ownerrequest",
]
LACKED = "completions.change_provider"  # a permission that the manager does not have


def permission(name):
    app, _, codename = name.partition(".")
    return Permission.objects.get(content_type__app_label=app, codename=codename)


@pytest.fixture
def manager_user(db):
    return make_staff("manager@example.org", MANAGER_PERMISSIONS)


@pytest.fixture
def manager(manager_user):
    return signed_in(manager_user)


# --- People ------------------------------------------------------------------------------------------------------


def stronger(kind):
    """Make somebody who has a permission that the manager lacks, or would have it again when activated."""
    match kind:
        case "a superuser":
            return factories.make_user("strong@example.org", is_staff=True, is_superuser=True)
        case "an inactive superuser":
            return factories.make_user("strong@example.org", is_staff=True, is_superuser=True, is_active=False)
        case "through a group":
            return make_staff("strong@example.org", [LACKED])
        case "by themselves":
            user = factories.make_user("strong@example.org", is_staff=True)
            user.user_permissions.add(permission(LACKED))
            return user
        case "inactive":
            user = make_staff("strong@example.org", [LACKED])
            User.objects.filter(pk=user.pk).update(is_active=False)
            return user
        case "not yet staff":
            user = make_staff("strong@example.org", [LACKED])
            User.objects.filter(pk=user.pk).update(is_staff=False)
            return user
    raise AssertionError(kind)


ATTACKS_ON_USERS = {
    "change the email address": lambda user: (page("user", user.pk), user_form(user, email="mine@example.org")),
    "activate": lambda user: (page("user", user.pk), user_form(user)),
    "deactivate": lambda user: (page("user", user.pk), user_form(user, is_active="")),
    "demote": lambda user: (page("user", user.pk), user_form(user, is_staff="", is_superuser="", groups=[])),
    "set the password": lambda user: (page("user", user.pk, "password"), NEW_PASSWORD),
    "disable the password": lambda user: (
        page("user", user.pk, "password"),
        {"usable_password": "false", "unset-password": "1"},
    ),
    "delete": lambda user: (page("user", user.pk, "delete"), {"post": "yes"}),
    "delete several": lambda user: (
        "/admin/billing/user/",
        {"action": "delete_selected", "_selected_action": [user.pk], "post": "yes"},
    ),
}


@pytest.mark.parametrize(
    "kind", ["a superuser", "an inactive superuser", "through a group", "by themselves", "inactive", "not yet staff"]
)
def test_nobody_changes_somebody_with_a_permission_that_they_lack(manager, rows, subtests, kind):
    user, before = stronger(kind), rows()
    for attack, request_of in ATTACKS_ON_USERS.items():
        with subtests.test(attack), undone():
            assert manager.post(*request_of(user)).status_code == 403
            assert rows() == before


def test_the_page_of_somebody_stronger_can_be_read(manager):
    reply = manager.get(page("user", stronger("through a group").pk))
    assert reply.status_code == 200
    assert 'name="_save"' not in reply.content.decode()


@pytest.mark.parametrize("target", ["colleague", "customer", "themselves"])
def test_forged_fields_give_no_permissions(manager, manager_user, alice, target):
    users = {
        "colleague": lambda: make_staff("weak@example.org", ["billing.view_account"]),
        "customer": lambda: owner_of(alice),
        "themselves": lambda: manager_user,
    }
    user = users[target]()
    before = powers(user)
    forged = {
        "is_staff": "on",
        "is_superuser": "on",
        "groups": [Group.objects.create(name="all").pk, *manager_user.groups.values_list("pk", flat=True)],
        "user_permissions": list(Permission.objects.values_list("pk", flat=True)),
    }
    reply = manager.post(page("user", user.pk), user_form(user, first_name="Changed", **forged))
    user.refresh_from_db()
    assert (reply.status_code, user.first_name, powers(user)) == (302, "Changed", before)


def powers(user):
    user = User.objects.get(pk=user.pk)
    return user.is_staff, user.is_superuser, set(user.groups.all()), set(user.user_permissions.all())


def test_forged_fields_make_no_strong_user(manager, manager_user):
    forged = {"is_staff": "on", "is_superuser": "on", "groups": list(manager_user.groups.values_list("pk", flat=True))}
    assert manager.post(page("user"), {"email": "new@example.org", **forged}).status_code == 302
    assert powers(User.objects.get(email="new@example.org")) == (False, False, set(), set())


def test_staff_do_not_get_the_credentials_of_a_colleague_who_is_no_stronger(manager, rows):
    colleague = make_staff("equal@example.org", MANAGER_PERMISSIONS)
    before = rows()
    assert "Reset password" not in manager.get(page("user", colleague.pk)).content.decode()
    assert manager.post(page("user", colleague.pk, "password"), NEW_PASSWORD).status_code == 403
    assert rows() == before
    assert manager.post(page("user", colleague.pk), user_form(colleague, email="mine@example.org")).status_code == 302
    colleague.refresh_from_db()
    assert colleague.email == "equal@example.org"


def test_whose_address_staff_change_is_told_at_the_former_one(manager, alice, mailoutbox, django_capture_on_commit_callbacks):
    customer = owner_of(alice)
    with django_capture_on_commit_callbacks(execute=True):
        manager.post(page("user", customer.pk), user_form(customer, first_name="Al"))
        manager.post(page("user", customer.pk), user_form(customer, email="renamed@example.org"))
    [mail] = mailoutbox
    assert mail.to == ["alice@example.org"]
    assert "alice@example.org now signs in to the Model Gateway as renamed@example.org." in mail.body


def test_staff_change_a_customer_and_a_weaker_colleague(manager, alice):
    customer, colleague = owner_of(alice), make_staff("weak@example.org", ["billing.view_account"])
    manager.post(page("user", customer.pk), user_form(customer, email="renamed@example.org"))
    manager.post(page("user", colleague.pk), user_form(colleague, is_active=""))
    customer.refresh_from_db()
    colleague.refresh_from_db()
    assert (customer.email, colleague.is_active) == ("renamed@example.org", False)


def test_not_even_superusers_type_the_password_of_somebody_else(superuser, alice, rows):
    customer, before = owner_of(alice), rows()
    assert "password" not in superuser.get(page("user", customer.pk)).context["adminform"].form.fields
    assert superuser.post(page("user", customer.pk, "password"), NEW_PASSWORD).status_code == 403
    assert rows() == before


@pytest.mark.parametrize("attack", ["delete", "delete several"])
def test_who_acted_as_staff_is_not_deleted_so_that_the_history_stays(superuser, alice, rows, attack):
    colleague = make_staff("support@example.org", ["billing.view_account", "billing.change_account"])
    signed_in(colleague).post(account_page(alice), accounts_form(alice, name="Renamed"))
    assert Activity.objects.get().actor == colleague
    path, form = ATTACKS_ON_USERS[attack](colleague)
    before = rows()
    assert "what support@example.org did" in superuser.post(path, form).content.decode()
    assert rows() == before


# --- Groups ------------------------------------------------------------------------------------------------------


def group_form(group, *more):
    return {"name": group.name, "permissions": [*group.permissions.values_list("pk", flat=True), *(p.pk for p in more)]}


def delete_selected(group):
    return "/admin/auth/group/", {"action": "delete_selected", "_selected_action": [group.pk], "post": "yes"}


ATTACKS_ON_GROUPS = {
    "add a permission that they lack": lambda group: (page("group", group.pk), group_form(group, permission(LACKED))),
    "add one that they have": lambda group: (page("group", group.pk), group_form(group, permission("auth.view_group"))),
    "take all permissions": lambda group: (page("group", group.pk), {"name": group.name}),
    "rename": lambda group: (page("group", group.pk), {**group_form(group), "name": "renamed"}),
    "delete": lambda group: (page("group", group.pk, "delete"), {"post": "yes"}),
    "delete several": delete_selected,
}


def group_of(kind, manager_user):
    match kind:
        case "their own":
            return manager_user.groups.get()
        case "one with a permission that they lack":
            group = Group.objects.create(name="catalog")
            group.permissions.add(permission(LACKED))
            return group
        case "one with a stronger member":
            group = Group.objects.create(name="weak")
            stronger("a superuser").groups.add(group)
            return group
    raise AssertionError(kind)


@pytest.mark.parametrize("kind", ["their own", "one with a permission that they lack", "one with a stronger member"])
def test_nobody_changes_a_group_above_them_or_their_own(manager, manager_user, rows, subtests, kind):
    group, before = group_of(kind, manager_user), rows()
    for attack, request_of in ATTACKS_ON_GROUPS.items():
        with subtests.test(attack), undone():
            assert manager.post(*request_of(group)).status_code == 403
            assert rows() == before


def test_nobody_puts_a_permission_that_they_lack_into_a_group(manager, rows):
    group = Group.objects.create(name="weak")
    before = rows()
    forged = {"name": "new", "permissions": [permission(LACKED).pk]}
    for path, form in ((page("group"), forged), (page("group", group.pk), group_form(group, permission(LACKED)))):
        reply = manager.post(path, form)
        assert list(reply.context["adminform"].form.errors) == ["permissions"]
    assert rows() == before


def test_staff_make_and_change_groups_of_what_they_may_do(manager):
    viewing, adding = permission("billing.view_user"), permission("billing.add_user")
    assert manager.post(page("group"), {"name": "new", "permissions": [viewing.pk]}).status_code == 302
    group = Group.objects.get(name="new")
    make_staff("weak@example.org", []).groups.add(group)
    assert manager.post(page("group", group.pk), group_form(group, adding)).status_code == 302
    assert set(group.permissions.all()) == {viewing, adding}


def test_a_superuser_changes_any_group(superuser):
    root, group = User.objects.get(email="root@example.org"), Group.objects.create(name="catalog")
    root.groups.add(group)
    assert superuser.post(page("group", group.pk), group_form(group, permission(LACKED))).status_code == 302
    assert group.permissions.get() == permission(LACKED)


# --- Memberships ---------------------------------------------------------------------------------------------------


def join_on_the_accounts_page(user, account):
    row = {"memberships-1-user": user.pk, "memberships-1-account": account.pk}
    return account_page(account), accounts_form(account, **{**row, "memberships-TOTAL_FORMS": 2})


def join_on_the_users_page(user, account):
    place = user.memberships.count()
    row = {f"memberships-{place}-user": user.pk, f"memberships-{place}-account": account.pk}
    row["memberships-TOTAL_FORMS"] = place + 1
    return page("user", user.pk), user_form(user, **row)


WAYS_TO_JOIN = [join_on_the_accounts_page, join_on_the_users_page]


def errors_of(reply):
    assert reply.status_code == 200
    return " ".join(reply.content.decode().split())


@pytest.mark.parametrize("who", ["manager", "superuser"])
def test_nobody_makes_themselves_a_member(request, alice, rows, subtests, who):
    client = request.getfixturevalue(who)
    user = User.objects.get(email__in=["manager@example.org", "root@example.org"])
    before = rows()
    for join in WAYS_TO_JOIN:
        with subtests.test(join.__name__), undone():
            assert "You cannot add or remove your own membership" in errors_of(client.post(*join(user, alice)))
            assert rows() == before


def test_nobody_becomes_a_member_of_an_account_that_they_credited(manager, superuser, alice, rows, subtests):
    assert manager.post(account_page(alice, "credit"), credit_form(manager, alice)).status_code == 302
    user, before = User.objects.get(email="manager@example.org"), rows()
    for join in WAYS_TO_JOIN:
        with subtests.test(join.__name__), undone():
            assert "manager@example.org has credited this account" in errors_of(superuser.post(*join(user, alice)))
            assert rows() == before


def test_a_membership_waits_for_a_credit_of_the_same_person_and_is_refused(transactional_db, superuser, alice):
    user, credited = make_staff("support@example.org", ["billing.issue_support_credit"]), threading.Event()

    def credit():
        try:
            with transaction.atomic():
                locks.lock_users([user.pk])
                account = locks.lock_account(alice.pk)
                support_credit.issue(account, user, amount_cents=500, reason="first", reference="first")
                credited.set()
                until(somebody_waits)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads:
        crediting = threads.submit(credit)
        assert credited.wait(60)
        path, form = join_on_the_users_page(user, alice)
        assert "support@example.org has credited this account" in errors_of(superuser.post(path, form))
        crediting.result()
    assert not user.memberships.exists()


def test_nobody_ends_their_own_membership(manager, manager_user, alice, rows):
    own = factories.add_member(user=manager_user, account=alice)
    before = rows()
    leave = user_form(manager_user, **{"memberships-0-DELETE": "on"})
    assert "You cannot add or remove your own membership" in errors_of(manager.post(page("user", manager_user.pk), leave))
    assert manager.post(page("membership", own.pk, "delete"), {"post": "yes"}).status_code == 403
    several = {"action": "delete_selected", "_selected_action": [own.pk], "post": "yes"}
    assert manager.post("/admin/billing/membership/", several).status_code == 403
    assert rows() == before


@pytest.mark.parametrize("join", WAYS_TO_JOIN)
@pytest.mark.parametrize("who", ["manager", "superuser"])
def test_nobody_makes_an_owner_alone(request, alice, charlie, who, join, django_capture_on_commit_callbacks):
    client, friend = request.getfixturevalue(who), owner_of(charlie)
    path, form = join(friend, alice)
    with django_capture_on_commit_callbacks(execute=True):
        assert client.post(path, form).status_code == 302
        client.post(path, form)
    asked = OwnerRequest.objects.get()
    assert "No one becomes an owner until a colleague approves it." in text(client.get(path))
    assert client.post(page("ownerrequest", asked.pk, "approve")).status_code == 302
    assert "You asked for this." in text(client.get(page("ownerrequest", asked.pk)))
    assert set(alice.members.all()) == {owner_of(alice)}
    assert {tuple(message.to) for message in mail.outbox} == {("alice@example.org",)}  # who can object
    assert "want to make charlie@example.org an owner" in str(mail.outbox[0].body)


def test_a_membership_is_never_changed(superuser, alice, charlie, rows):
    """Another person or account in it would be another owner."""
    friend, member, before = owner_of(charlie), alice.memberships.get(), rows()
    moved = {"user": friend.pk, "account": alice.pk}
    assert superuser.post(page("membership", member.pk), moved).status_code == 403
    assert superuser.post(page("membership"), moved).status_code == 403
    superuser.post(account_page(alice), accounts_form(alice, **{"memberships-0-user": friend.pk}))
    assert rows()["Membership"] == before["Membership"]
    assert not OwnerRequest.objects.exists()


@pytest.fixture
def colleague(db):
    return signed_in(make_staff("second@example.org", MANAGER_PERMISSIONS))


@pytest.fixture
def asked(manager, alice, charlie):
    path, form = join_on_the_accounts_page(owner_of(charlie), alice)
    manager.post(path, form)
    return OwnerRequest.objects.get()


def test_a_colleague_approves_an_owner_once(colleague, asked, alice, charlie):
    assert "charlie@example.org as an owner" in text(colleague.get(page("ownerrequest", asked.pk, "approve")))
    for _ in range(2):
        assert colleague.post(page("ownerrequest", asked.pk, "approve")).status_code == 302
    assert alice.memberships.get(user=owner_of(charlie)).role == "OWNER"
    acts = Activity.objects.exclude(act="CHANGED").order_by("id").values_list("act", "actor__email")
    assert list(acts) == [("OWNER_REQUESTED", "manager@example.org"), ("MEMBER_JOINED", "second@example.org")]


def test_an_owner_who_is_declined_is_none_and_may_be_asked_for_again(colleague, manager, asked, alice, charlie):
    colleague.post(page("ownerrequest", asked.pk, "decline"), {"reason": "Who is this?"})
    colleague.post(page("ownerrequest", asked.pk, "approve"))
    assert alice.memberships.count() == 1
    path, form = join_on_the_accounts_page(owner_of(charlie), alice)
    manager.post(path, form)
    assert sorted(OwnerRequest.objects.values_list("decision", flat=True)) == ["", "DECLINED"]


def test_a_second_person_makes_no_owner_of_themselves(asked, charlie):
    friend = owner_of(charlie)
    friend.is_staff = True
    friend.save()
    for name in ("add_membership", "view_ownerrequest"):
        friend.user_permissions.add(Permission.objects.get(codename=name))
    signed_in(friend).post(page("ownerrequest", asked.pk, "approve"))
    assert OwnerRequest.objects.get().decision == ""


def test_staff_make_somebody_else_a_member_and_end_it(manager, manager_user, colleague, asked, alice, charlie):
    customer = owner_of(charlie)
    colleague.post(page("ownerrequest", asked.pk, "approve"))
    joined = Membership.objects.get(user=customer, account=alice)
    assert manager.post(page("membership", joined.pk, "delete"), {"post": "yes"}).status_code == 302
    assert set(alice.members.all()) == {owner_of(alice)}
    assert manager.post(page("user", manager_user.pk), user_form(manager_user, first_name="Max")).status_code == 302


# --- Credits ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["manager", "superuser"])
def test_nobody_credits_an_account_that_they_are_a_member_of(request, alice, rows, who):
    client = request.getfixturevalue(who)
    factories.add_member(user=User.objects.get(email__in=["manager@example.org", "root@example.org"]), account=alice)
    before = rows()
    assert "Issue credit" not in client.get(account_page(alice)).content.decode()
    assert client.get(account_page(alice, "credit")).status_code == 403
    forged = {"amount": "5", "reason": "for me", "token": "A" * 22}
    assert client.post(account_page(alice, "credit"), forged).status_code == 403
    assert rows() == before
    assert (Account.objects.count(), LedgerEntry.objects.count()) == (1, 1)
