from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import LogoutView
from django.urls import include, path
from django.views.decorators.cache import never_cache
from django.views.generic import RedirectView

from billing import statement_pages
from billing.accounts import member_pages
from billing.alerts import pages as alert_pages
from billing.sign_in import credential_pages
from billing.staff import people_requests

urlpatterns = [
    path("sign-in/", RedirectView.as_view(pattern_name="account_login", query_string=True), name="sign-in"),
    path("sign-out/", LogoutView.as_view(), name="sign-out"),
    path("password/", never_cache(login_required(credential_pages.ChangePassword.as_view())), name="password"),
    path("account/", member_pages.choose_account, name="choose-account"),
    path("ledger/", statement_pages.show_statement, name="statement"),
    path("support-requests/", never_cache(login_required(people_requests.show)), name="support-requests"),
    path("support-requests/<uuid:id>/", never_cache(login_required(people_requests.withdraw)), name="withdraw-request"),
    path("members/", include("billing.members.page_urls")),
    path("billing/", include("billing.payments.page_urls")),
    path("settings/", include("billing.account_settings.page_urls")),
    path("alerts/", include("billing.alerts.page_urls")),
    path("warnings/", alert_pages.moved, {"rest": ""}),
    path("warnings/<path:rest>", alert_pages.moved),
    path("ledger.csv", statement_pages.download_statement, name="statement-csv"),
]
