"""Pages of passwords: ask for a link to set one, set one with the link, change one's own."""

from typing import Any

from allauth.account.signals import password_changed
from django import forms
from django.contrib import messages
from django.contrib.auth.forms import PasswordChangeForm, SetPasswordForm
from django.contrib.auth.views import PasswordChangeView
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse_lazy
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from billing.email_addresses import EmailAddressField
from billing.models import User
from billing.sign_in import links, mails, password_links, reauthentication
from billing.sign_in.address_pages import SendLink
from gateway_project.activity import log
from gateway_project.activity.models import Activity


class ResetForm(forms.Form):
    email = EmailAddressField(label="Email address", widget=forms.EmailInput(attrs={"autocomplete": "username"}))


@method_decorator(never_cache, name="dispatch")
class AskForReset(SendLink):
    form_class = ResetForm
    template_name, sent_template_name = "account/password_reset.html", "account/password_reset_done.html"

    def send(self, email: str) -> None:
        password_links.send_reset(self.request, email)


@never_cache
@sensitive_post_parameters()
def set_password(request: HttpRequest) -> HttpResponse:
    key = request.POST.get("key") or request.GET.get("key", "")
    user = password_links.find_user(key)
    if user is None:
        return render(request, "account/password_link_ended.html", status=404)
    form: Any = SetPasswordForm(user, request.POST or None)
    if form.is_valid():
        form.save(commit=False)  # hashes, outside of any transaction
        if not password_links.use(request, key, user.password):
            return render(request, "account/password_link_ended.html", status=404)
        messages.success(request, "Your password is set. Sign in with it.")
        return redirect("account_login")
    return render(request, "account/password_link.html", {"form": form, "key": key, "email": user.email})


class NewPasswordForm(PasswordChangeForm):
    """Django's form to change one's password. Guessing the present one is limited as signing in is."""

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._request = request

    def clean_old_password(self) -> str:
        old_password: str = self.cleaned_data["old_password"]
        if not reauthentication.is_password(self._request, old_password):
            raise forms.ValidationError(self.error_messages["password_incorrect"], code="password_incorrect")
        return old_password


class ChangePassword(PasswordChangeView):
    """Django's password change, which signs out the user's other sessions."""

    form_class = NewPasswordForm
    template_name = "dashboard/password.html"
    success_url = reverse_lazy("dashboard")

    def get_form_kwargs(self) -> dict[str, Any]:
        return {**super().get_form_kwargs(), "request": self.request}

    def form_valid(self, form: Any) -> HttpResponse:
        assert isinstance(self.request.user, User)
        with transaction.atomic():
            response = super().form_valid(form)
            links.void(self.request.user)
            log.record(self.request, Activity.Act.PASSWORD_CHANGED, self.request.user, "Changed their own password.")
            mails.notify(self.request.user, "The password was changed.")
        password_changed.send(User, request=self.request, user=self.request.user)  # for allauth's list of sessions
        messages.success(self.request, "Your password was changed.")
        return response
