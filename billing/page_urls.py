from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import LogoutView
from django.urls import path
from django.views.decorators.cache import never_cache
from django.views.generic import RedirectView

from billing import statement_pages
from billing.account_settings import pages as settings_pages
from billing.accounts import member_pages
from billing.alerts import pages as alert_pages
from billing.members import pages as members_pages
from billing.payments import demo_pages
from billing.payments import pages as payment_pages
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
    path("members/", members_pages.show, name="members"),
    path("members/invite/", members_pages.invite, name="invite-member"),
    path("members/join/", members_pages.join, name="join"),
    path("members/invitations/<uuid:invitation_id>/revoke/", members_pages.revoke_invitation, name="revoke-invitation"),
    path("members/<int:membership_id>/role/", members_pages.change_role, name="member-role"),
    path("members/<int:membership_id>/end/", members_pages.end_membership, name="end-membership"),
    path("billing/", payment_pages.overview, name="billing"),
    path("billing/details/", payment_pages.change_details, name="billing-details"),
    path("billing/top-up/", payment_pages.change_top_up, name="top-up"),
    path("billing/payments/<uuid:payment_id>/", payment_pages.show_payment, name="payment"),
    path("billing/payments/<uuid:payment_id>/cancel/", payment_pages.cancel_payment, name="cancel-payment"),
    path("billing/payments/<uuid:payment_id>/retry/", payment_pages.retry_payment, name="retry-payment"),
    path("billing/payments/<uuid:payment_id>/receipt/", payment_pages.show_receipt, name="receipt"),
    path("billing/payments/<uuid:payment_id>/invoice.pdf", payment_pages.download_invoice, name="invoice"),
    path("billing/credit-notes/<slug:number>.pdf", payment_pages.download_credit_note, name="credit-note"),
    path("billing/demo/<slug:demo_id>/", demo_pages.show, name="demo-payment"),
    path("settings/", settings_pages.show, name="settings"),
    path("settings/close/", settings_pages.close_account, name="close-account"),
    path("settings/close/undo/", settings_pages.undo_closing, name="undo-closing"),
    path("settings/emails/", settings_pages.change_emails, name="emails"),
    path("settings/data/", settings_pages.change_data_demands, name="data-demands"),
    path("settings/name/", settings_pages.rename, name="rename-account"),
    path("settings/export/", settings_pages.export_data, name="export"),
    path("settings/export/<uuid:export_id>.zip", settings_pages.download_export, name="export-file"),
    path("settings/activity/", settings_pages.show_activity, name="activity"),
    path("settings/activity.csv", settings_pages.download_activity, name="activity-csv"),
    path("alerts/", alert_pages.show, name="alerts"),
    path("alerts/threshold/", alert_pages.change_threshold, name="alert-threshold"),
    path("alerts/webhooks/new/", alert_pages.new_endpoint, name="new-webhook"),
    path("alerts/webhooks/<uuid:endpoint_id>/", alert_pages.show_endpoint, name="webhook"),
    path("alerts/webhooks/<uuid:endpoint_id>/rotate/", alert_pages.rotate, name="rotate-webhook"),
    path("alerts/webhooks/<uuid:endpoint_id>/pause/", alert_pages.pause, name="pause-webhook"),
    path("alerts/webhooks/<uuid:endpoint_id>/test/", alert_pages.send_test, name="test-webhook"),
    path("alerts/webhooks/<uuid:endpoint_id>/again/", alert_pages.repeat, name="repeat-webhook"),
    path("alerts/webhooks/<uuid:endpoint_id>/delete/", alert_pages.delete, name="delete-webhook"),
    path("alerts/deliveries/<uuid:delivery_id>/again/", alert_pages.send_again, name="send-delivery-again"),
    path("warnings/", alert_pages.moved, {"rest": ""}),
    path("warnings/<path:rest>", alert_pages.moved),
    path("ledger.csv", statement_pages.download_statement, name="statement-csv"),
]
