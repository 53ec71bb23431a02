"""Forms of the support pages: declined requests, users, accounts and memberships."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.forms import UserChangeForm
from django.http import HttpRequest

from billing import email_addresses, locks, staff_permissions
from billing.models import Account, User
from billing.staff import people_requests


class DeclineForm(forms.Form):
    """Why a credit that waits is declined."""

    reason = forms.CharField(
        max_length=500,
        widget=forms.Textarea(attrs={"rows": 3, "cols": 60}),
        help_text="The person who asked for the credit sees it.",
    )


class NewUserForm(forms.ModelForm):
    """A new user, who is sent a link to set a password."""

    class Meta:
        model = User
        fields = ("email", "is_staff", "groups")
        field_classes = {"email": email_addresses.EmailAddressField}
        help_texts = {"email": "We email a link to choose a password. It works for 7 days."}

    def save(self, commit: bool = True) -> User:
        self.instance.set_unusable_password()
        user: User = super().save(commit)
        return user


class UserForm(UserChangeForm):
    """A user, without Django's field that leads to a page for typing the password."""

    password = None  # type: ignore[assignment]

    class Meta:
        model = User
        fields = "__all__"
        field_classes = {"email": email_addresses.EmailAddressField}
        help_texts = {
            "is_active": "Clear this instead of deleting the user. Accounts without another active member are closed too:"
            " their keys are refused until staff reopen them."
        }


_RATE = "For each key without a limit of its own. Leave empty for the gateway's default."


class AccountForm(forms.ModelForm):
    class Meta:
        model = Account
        fields = "__all__"
        help_texts = {
            "requests_per_minute": _RATE,
            "tokens_per_minute": _RATE,
            "requests_in_flight_max": "For all keys together. Leave empty for the gateway's default.",
            "is_active": "Requests with the keys of an inactive account are refused.",
            "keeps_responses": "Store responses for later requests, unless a request says otherwise. If you clear this,"
            " stored responses can no longer be read, and we delete them within an hour.",
        }


class MembershipFormSet(forms.BaseInlineFormSet):
    """The memberships of one user or account. Rows are added and deleted, never changed.

    The admin makes a subclass for each request. Of a new account, whose balance is nothing, the owner needs no second person.
    """

    request: HttpRequest
    is_of_new_account: bool

    @property
    def staff(self) -> User:
        return staff_permissions.staff_of(self.request)

    def clean(self) -> None:
        super().clean()
        kept = [form for form in self.forms if not form.cleaned_data.get("DELETE")]
        added = [form for form in kept if form.is_valid() and form.has_changed()]  # of the others, the inline changes none
        locks.lock_users([form.cleaned_data["user"].pk for form in added])
        for form in added:
            user, account = form.cleaned_data["user"], form.cleaned_data["account"]
            if refusal := staff_permissions.membership_refusal(self.staff, user, account):
                form.add_error(None, refusal)
        if any(form.instance.user_id == self.staff.pk for form in self.forms if form not in kept):
            raise forms.ValidationError(staff_permissions.OWN_MEMBERSHIP)

    def save_new_objects(self, commit: bool = True) -> list[Any]:
        """Ask for each new owner instead of making one."""
        if self.is_of_new_account:
            made: list[Any] = super().save_new_objects(commit)
            return made
        self.new_objects: list[Any] = []
        for form in self.extra_forms:
            if form.has_changed() and not self._should_delete_form(form):  # type: ignore[attr-defined]
                user, account = form.cleaned_data["user"], form.cleaned_data["account"]
                asked, is_new = people_requests.ask_for_owner(self.request, user, account, self.staff)
                waits = "No one becomes an owner until a colleague approves it." if is_new else "It was already requested."
                messages.success(self.request, f"The {asked.what} waits for approval. {waits}")
        return []
