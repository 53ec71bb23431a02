from django.urls import path

from billing.proof import signing

urlpatterns = [path("ledger-keys.json", signing.show_keys)]
