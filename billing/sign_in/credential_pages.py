"""The pages of those who sign up, who set or change a password, and who change their email address."""

from typing import Any

from allauth.account.signals import password_changed
from allauth.account.utils import perform_login
from django import forms
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.forms import PasswordChangeForm, SetPasswordForm
from django.contrib.auth.models import AbstractBaseUser
from django.contrib.auth.views import PasswordChangeView
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse, reverse_lazy
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.generic import FormView

from billing.email_addresses import EmailAddressField
from billing.models import User
from billing.sign_in import addresses, limits, links, mails, password_links, reauthentication
from gateway_project.activity import log
from gateway_project.web.client_address import network_of


class AddressForm(forms.Form):
    email = EmailAddressField(label="Email address", widget=forms.EmailInput(attrs={"autocomplete": "email"}))


class SignUpForm(AddressForm):
    def clean_email(self) -> str:
        email: str = self.cleaned_data["email"]
        if not addresses.may_sign_up(email):
            raise forms.ValidationError("Only certain organizations can sign up here, and this address belongs to another.")
        return email


class SendLink(FormView):  # type: ignore[type-arg]
    """Send a link to the address of the form. The reply is the same for every address. Raises RateLimitExceeded."""

    template_name, sent_template_name = "account/signup.html", "account/verification_sent.html"
    form_class: type[forms.Form] = SignUpForm

    def form_valid(self, form: forms.Form) -> HttpResponse:
        email = form.cleaned_data["email"]
        limits.count_attempt([limits.mail_request_limit(network_of(self.request))])
        self.send(email)
        return render(self.request, self.sent_template_name, {"email": email})

    def send(self, email: str) -> None:
        addresses.send_sign_up(self.request, email)


@method_decorator(never_cache, name="dispatch")
class AskForSignUp(SendLink):
    """Where people sign up, if the deployment lets them."""

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return redirect("dashboard") if request.user.is_authenticated else super().get(request, *args, **kwargs)


class ChangeAddress(SendLink):
    template_name = "account/email.html"
    form_class = AddressForm

    def form_valid(self, form: forms.Form) -> HttpResponse:
        try:
            return super().form_valid(form)
        except addresses.FormerNotTold:
            form.add_error(None, "We could not email your current address about it. Nothing was changed. Try again later.")
            return self.form_invalid(form)

    def send(self, email: str) -> None:
        assert isinstance(self.request.user, User)
        addresses.ask_for_change(self.request, self.request.user, email)


@never_cache
@sensitive_post_parameters()
def sign_up(request: HttpRequest) -> HttpResponse:
    """Let whoever has the link choose a password, open an account, and sign them in: the link and the password are theirs."""
    key = request.POST.get("key") or request.GET.get("key", "")
    email = addresses.read_sign_up(key)
    if email is None:
        return link_ended(request)
    user: AbstractBaseUser = User(email=email)
    form: Any = SetPasswordForm(user, request.POST or None)
    if not form.is_valid():
        return render(request, "account/signup_link.html", {"form": form, "key": key, "email": email})
    form.save(commit=False)  # hashes, outside of any transaction
    if not addresses.sign_up(request, email, user.password):
        return link_ended(request)
    if request.user.is_authenticated:  # as another user, who stays signed in
        messages.success(request, f"The account of {email} is open. Sign out to sign in to it.")
        return redirect("dashboard")
    messages.success(request, "Your account is open.")
    response: HttpResponse = perform_login(request, User.objects.get(email=email))
    return response


@never_cache
def confirm_address(request: HttpRequest) -> HttpResponse:
    key = request.POST.get("key") or request.GET.get("key", "")
    asked = addresses.read_change(key)
    if asked and request.method != "POST":
        return render(request, "account/email_confirm.html", {"key": key, "email": asked.address, "former": asked.former})
    made = addresses.change(request, key) if asked else None
    if made is None:
        return link_ended(request)
    if request.user == made.user:  # of all sessions this one stays
        update_session_auth_hash(request, User.objects.get(pk=made.user_id))
    messages.success(request, f"You now sign in as {made.address}.")
    return redirect("account_email" if request.user == made.user else "account_login")


@never_cache
def undo_address(request: HttpRequest) -> HttpResponse:
    key = request.POST.get("key") or request.GET.get("key", "")
    asked = addresses.read_undo(key)
    if asked and request.method != "POST":
        return render(request, "account/email_undo.html", {"key": key, "email": asked.address, "former": asked.former})
    try:
        user = addresses.undo(request, key)
    except IntegrityError:
        return render(request, "account/email_undo.html", {"is_taken": True}, status=409)
    if user is None:
        return link_ended(request)
    messages.success(request, "You have your address back, and all sessions are signed out. Set a new password now.")
    return redirect(f"{reverse('password-link')}?key={password_links.reset_key(user)}")


def link_ended(request: HttpRequest) -> HttpResponse:
    """Say that a link to sign up, to change an address or to join works no longer."""
    return render(request, "account/password_link_ended.html", {"is_of_address": True}, status=404)


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
        self.fields["old_password"].label = "Current password"
        self.fields["new_password1"].help_text = (
            "12 to 128 characters of any kind. A sentence works well. Not a common password."
            " Not close to your email address or the name of this service."
        )
        self.fields["new_password2"].label, self.fields["new_password2"].help_text = "New password again", ""

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
            log.record(self.request, log.Act.PASSWORD_CHANGED, self.request.user, "Changed their own password.")
            mails.notify(self.request.user, "The password was changed.")
        password_changed.send(User, request=self.request, user=self.request.user)  # for allauth's list of sessions
        messages.success(self.request, "Your password was changed.")
        return response
