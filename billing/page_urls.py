from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path

from billing import pages
from billing.sign_in.views import signs_in

_sign_in = LoginView.as_view(template_name="dashboard/sign_in.html", redirect_authenticated_user=True)

urlpatterns = [
    path("sign-in/", signs_in(_sign_in), name="sign-in"),
    path("sign-out/", LogoutView.as_view(), name="sign-out"),
    path("password/", pages.member_page(pages.ChangePassword.as_view()), name="password"),
    path("account/", pages.choose_account, name="choose-account"),
    path("ledger/", pages.show_statement, name="statement"),
    path("ledger.csv", pages.download_statement, name="statement-csv"),
]
