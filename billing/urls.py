from django.urls import path

from billing import views
from billing.payments.webhook import Webhook

urlpatterns = [
    path("balance", views.BalanceView.as_view()),
    path("ledger", views.LedgerView.as_view()),
    path("ledger/proof", views.ProofView.as_view()),
    path("ledger.csv", views.LedgerCsvView.as_view()),
    path("webhooks/<slug:processor>", Webhook.as_view(), name="payment-webhook"),
]
