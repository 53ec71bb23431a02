from django.urls import path

from billing import views

urlpatterns = [
    path("balance", views.BalanceView.as_view()),
    path("ledger", views.LedgerView.as_view()),
    path("ledger.csv", views.LedgerCsvView.as_view()),
]
