"""The support pages of users, groups and memberships. ``staff_permissions`` decides whom and what staff may change here."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from allauth.usersessions.models import UserSession
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from billing import staff_permissions
from billing.accounts import lifecycle
from billing.models import AddressChange, Invitation, Membership, PasswordLink, User
from billing.sign_in import addresses, password_links, second_factor
from billing.staff.forms import MembershipFormSet, NewUserForm, UserForm
from billing.staff_permissions import staff_of
from gateway_project.activity import admin_pages, list_values, log
from gateway_project.activity.models import Activity
from gateway_project.db import cell, everywhere


class RestrictsChanges:
    """Admin pages of what only some staff may change or delete: ``may_change`` is a function of ``staff_permissions``."""

    may_change: Callable[[User, Any], bool]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and self._may_change(request, obj)  # type: ignore[misc]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and self._may_change(request, obj)  # type: ignore[misc]

    def _may_change(self, request: HttpRequest, obj: Any) -> bool:
        return obj is None or self.may_change(staff_of(request), obj)


class ShowsCreation:
    """Admin pages with a ``created`` column. The database sets the time, so a row that is being added has none yet."""

    @admin.display(description="created at", ordering="created_at")
    def created(self, row: Any) -> str:
        return "-" if row._state.adding else list_values.moment(row.created_at)


class ClosesAbandonedAccounts:
    """Admin pages whose changes can take the last active member from an account, which closes it."""

    def account_ids(self, objects: QuerySet[Any]) -> Iterable[Any]:
        raise NotImplementedError

    def changeform_view(self, request: HttpRequest, object_id: str | None = None, *args: Any, **kwargs: Any) -> Any:
        with self._closing(request, self._objects(request, object_id)):
            return super().changeform_view(request, object_id, *args, **kwargs)  # type: ignore[misc]

    def delete_view(self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any) -> Any:
        with self._closing(request, self._objects(request, object_id)):
            return super().delete_view(request, object_id, *args, **kwargs)  # type: ignore[misc]

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        with self._closing(request, queryset):
            super().delete_queryset(request, queryset)  # type: ignore[misc]

    def _objects(self, request: HttpRequest, object_id: str | None) -> QuerySet[Any]:
        """Return the object of a page that is posted; none otherwise."""
        found = None
        if request.method == "POST" and object_id is not None:
            found = self.get_object(request, unquote(object_id))  # type: ignore[attr-defined]
        objects: QuerySet[Any] = self.model.objects.all()  # type: ignore[attr-defined]
        return objects.filter(pk=found.pk) if found else objects.none()

    @contextmanager
    def _closing(self, request: HttpRequest, objects: QuerySet[Any]) -> Iterator[None]:
        with transaction.atomic():
            # A list, because the objects may be gone after the block.
            with lifecycle.closing_abandoned(list(self.account_ids(objects))) as closed:
                yield
            for account in closed:
                text = "Closed, because no member is active."
                log.record(request, log.Act.CLOSED, account, text)
                messages.warning(request, f"The account {account} is closed, because no member is active.")


PERMISSION_FIELDS = ("is_staff", "is_superuser", "groups", "user_permissions")


class MembershipInline(ShowsCreation, admin.TabularInline):
    model = Membership
    formset = MembershipFormSet
    extra = 0
    autocomplete_fields = ("user", "account")
    fields = ("user", "account", "role", "created")
    readonly_fields = ("role", "created")  # owners decide on roles; whom staff add is an owner
    verbose_name_plural = "memberships: adding an owner needs approval"

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # another person or account would be a new owner

    def get_formset(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> Any:
        formset = super().get_formset(request, obj, **kwargs)
        return type("MembershipFormSet", (formset,), {"request": request, "is_of_new_account": obj is None})


@admin.register(User)
class PersonAdmin(RestrictsChanges, ClosesAbandonedAccounts, admin_pages.RecordedAdmin, UserAdmin):
    """Django's user admin, for users without a username."""

    form = UserForm
    add_form = NewUserForm
    fieldsets = (
        (None, {"fields": ("email",)}),
        ("Name", {"fields": ("first_name", "last_name")}),
        ("Permissions", {"fields": ("is_active", "is_staff", "is_superuser", "groups", "user_permissions")}),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )
    add_fieldsets = ((None, {"classes": ("wide",), "fields": ("email", "is_staff", "groups")}),)
    readonly_fields = ("last_login", "date_joined")
    list_display = ("email", "first_name", "last_name", "is_staff", "is_active")
    search_fields = ("email", "first_name", "last_name")
    ordering = ("email",)
    inlines = (MembershipInline,)
    actions = ("send_password_links", "remove_second_factors")
    may_change = staticmethod(staff_permissions.may_change_user)

    def account_ids(self, objects: QuerySet[User]) -> Iterable[Any]:
        memberships = Membership.objects.filter(user__in=list(objects)).values_list("account_id", flat=True)
        return everywhere.gather(memberships.all)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return the user, and enter a cell in which they are a member, if they are."""
        found = super().get_object(request, object_id, from_field)
        if found:
            everywhere.find(found.memberships.exists, Membership.cells_of(found.pk))
        return found

    def get_inlines(self, request: HttpRequest, obj: Any) -> Any:
        return self.inlines if obj and self.has_change_permission(request, obj) else ()

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        staff = staff_of(request)
        if staff.is_superuser:
            return self.readonly_fields
        credentials = () if obj is None or staff_permissions.may_set_credentials(staff, obj) else ("email",)
        return (*self.readonly_fields, *PERMISSION_FIELDS, *credentials)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj or staff_of(request).is_superuser:
            return super().get_fieldsets(request, obj)
        return ((None, {"classes": ("wide",), "fields": ("email",)}),)

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if "email" in form.changed_data and change:  # staff could otherwise take a person's place unseen
            changed = addresses.change_by_staff(obj, form.initial["email"])
            transaction.on_commit(lambda: self._tell_of_change(request, changed))
        if not change:  # the mail server may take long: not in this transaction
            transaction.on_commit(lambda: self._invite(request, obj))

    def _tell_of_change(self, request: HttpRequest, changed: AddressChange) -> None:
        if not addresses.tell_former(request, changed, "address_changed"):
            messages.error(request, f"{changed.former} could not be emailed about it. Tell its owner another way.")

    def _invite(self, request: HttpRequest, user: User) -> None:
        if password_links.invite(request, user, staff_of(request)):
            messages.success(request, f"{user} was sent a link to set a password. It works for 7 days.")
        else:
            messages.error(request, f"The email to {user} could not be sent. Send the link again from the list of users.")

    @admin.action(description="Send selected users a link to set a password", permissions=["change"])
    def send_password_links(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        """To each user whose credentials the staff may set."""
        for user in queryset:
            if not user.is_active:
                messages.error(request, f"{user} is not active.")
            elif self._may_set_credentials(request, user):
                self._invite(request, user)
            else:
                messages.error(request, f"You may not send {user} a link.")

    def _may_set_credentials(self, request: HttpRequest, user: User) -> bool:
        return self._may_change(request, user) and staff_permissions.may_set_credentials(staff_of(request), user)

    @admin.action(description="Remove two-factor authentication of selected users", permissions=["change"])
    def remove_second_factors(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        """For someone who has lost the device. Staff must set one up at once; see ``second_factor``, which records the act."""
        for user in queryset:
            if not self._may_set_credentials(request, user):
                messages.error(request, f"You may not remove the two-factor authentication of {user}.")
            elif second_factor.remove_all(user):
                messages.success(request, f"Two-factor authentication of {user} is removed.")
            else:
                messages.warning(request, f"{user} has no two-factor authentication.")

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:
        """Refuse, because staff type no password for someone else. There are links, and an operator has ``changepassword``."""
        raise PermissionDenied

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Protect users who did something: the activity log keeps who did it. Protect members of accounts in other cells."""
        acted = User.objects.filter(pk__in=Activity.objects.filter(actor__in=list(objs)).values("actor"))
        ids = [user.pk for user in objs]
        others = {number for id in ids for number in Membership.cells_of(id)} - {cell.current()}
        memberships = Membership.objects.filter(user__in=ids).select_related("user", "account")
        found = everywhere.run(lambda: list(map(str, memberships.all())), numbers=sorted(others)) if others else []
        protected = [*(f"what {user} did" for user in acted), *chain.from_iterable(found)]
        return ([], {}, set(), protected) if protected else super().get_deleted_objects(objs, request)


@admin.register(PasswordLink)
class PasswordLinkAdmin(ShowsCreation, admin_pages.ReadOnlyAdmin):
    """Who was sent a link to set a password. Those that are open can be revoked by staff who may invite."""

    list_display = ("user", "sent_by", "created", "expires_at", "state")
    list_select_related = ("user", "sent_by")
    search_fields = ("user__email",)
    ordering = ("-id",)
    fields = ("user", "sent_by", "created", "expires_at", "used_at", "revoked_at")
    actions = ("revoke",)

    @admin.display
    def state(self, link: PasswordLink) -> str:
        if link.used_at:
            return "used"
        if link.revoked_at:
            return "revoked"
        return "open" if link.expires_at > timezone.now() else "expired"

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return staff_of(request).has_perm("billing.add_user")

    @admin.action(description="Revoke selected links", permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[PasswordLink]) -> None:
        """Revoke those that are open."""
        revoked = password_links.revoke(request, queryset)
        messages.success(request, f"{revoked} open link{'s are' if revoked != 1 else ' is'} revoked.")


admin.site.unregister(Group)
admin.site.unregister([EmailAddress, Authenticator, UserSession, SocialAccount, SocialApp, SocialToken])  # their owners' own


@admin.register(Group)
class StaffGroupAdmin(RestrictsChanges, admin_pages.RecordedAdmin, GroupAdmin):
    """Django's group admin. The permissions on offer are those of the staff who edits."""

    may_change = staticmethod(staff_permissions.may_change_group)

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest | None = None, **kwargs: Any) -> Any:
        if db_field.name == "permissions" and request is not None:
            kwargs["queryset"] = staff_permissions.granted_permissions(staff_of(request))
        return super().formfield_for_manytomany(db_field, request=request, **kwargs)


@admin.register(Membership)
class MembershipAdmin(ShowsCreation, ClosesAbandonedAccounts, admin_pages.ReadOnlyAdmin):
    """Who is a member of what. Someone is added on the page of the account or of the user, and waits for a second person."""

    list_display = ("user", "account", "role", "created")
    list_select_related = ("user", "account")
    search_fields = ("user__email", "account__name")
    fields = ("user", "account", "role", "created")
    readonly_fields = fields

    def account_ids(self, objects: QuerySet[Membership]) -> QuerySet[Any]:
        return objects.values_list("account_id", flat=True)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        is_own = obj is not None and obj.user_id == request.user.pk
        return request.user.has_perm("billing.delete_membership") and not is_own


@admin.register(Invitation)
class InvitationAdmin(ShowsCreation, admin_pages.ReadOnlyAdmin):
    """Whom owners have invited, and what became of it. Only owners invite and revoke."""

    list_display = ("email", "account", "role", "invited_by", "created", "expires_at", "accepted_at", "revoked_at")
    list_select_related = ("account", "invited_by")
    search_fields = ("email", "account__name")
    ordering = ("-id",)
    fields = list_display
