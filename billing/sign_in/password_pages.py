"""The pages of those who have no password, or forgot it: asking for a link, and setting the password with it."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.forms import SetPasswordForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.generic import FormView

from billing.sign_in import backend, limits, password_links
from gateway_project.web.client_address import client_address, client_network


class ResetForm(forms.Form):
    email = forms.EmailField(label="Email address", widget=forms.EmailInput(attrs={"autocomplete": "username"}))


@method_decorator(never_cache, name="dispatch")
class AskForReset(FormView):  # type: ignore[type-arg]
    """Send a link. The reply is the same for an address that nobody has. Raises RateLimitExceeded."""

    form_class = ResetForm
    template_name = "account/password_reset.html"

    def form_valid(self, form: ResetForm) -> HttpResponse:
        email = backend.canonical(form.cleaned_data["email"])
        limits.count_attempt([limits.mail_request_limit(client_network(client_address(self.request)))])
        password_links.send_reset(self.request, email)
        return render(self.request, "account/password_reset_done.html", {"email": email})


@never_cache
@sensitive_post_parameters()
def set_password(request: HttpRequest) -> HttpResponse:
    """Let whoever has the link set the password."""
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
