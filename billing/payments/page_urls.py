from django.urls import path

from billing.payments import demo_pages, pages

urlpatterns = [
    path("", pages.overview, name="billing"),
    path("details/", pages.change_details, name="billing-details"),
    path("top-up/", pages.change_top_up, name="top-up"),
    path("payments/<uuid:payment_id>/", pages.show_payment, name="payment"),
    path("payments/<uuid:payment_id>/cancel/", pages.cancel_payment, name="cancel-payment"),
    path("payments/<uuid:payment_id>/retry/", pages.retry_payment, name="retry-payment"),
    path("payments/<uuid:payment_id>/receipt/", pages.show_receipt, name="receipt"),
    path("payments/<uuid:payment_id>/invoice.pdf", pages.download_invoice, name="invoice"),
    path("credit-notes/<slug:number>.pdf", pages.download_credit_note, name="credit-note"),
    path("demo/<slug:demo_id>/", demo_pages.show, name="demo-payment"),
]
