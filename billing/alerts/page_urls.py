from django.urls import path

from billing.alerts import pages

urlpatterns = [
    path("", pages.show, name="alerts"),
    path("threshold/", pages.change_threshold, name="alert-threshold"),
    path("webhooks/new/", pages.new_endpoint, name="new-webhook"),
    path("webhooks/<uuid:endpoint_id>/", pages.show_endpoint, name="webhook"),
    path("webhooks/<uuid:endpoint_id>/rotate/", pages.rotate, name="rotate-webhook"),
    path("webhooks/<uuid:endpoint_id>/pause/", pages.pause, name="pause-webhook"),
    path("webhooks/<uuid:endpoint_id>/test/", pages.send_test, name="test-webhook"),
    path("webhooks/<uuid:endpoint_id>/again/", pages.repeat, name="repeat-webhook"),
    path("webhooks/<uuid:endpoint_id>/delete/", pages.delete, name="delete-webhook"),
    path("deliveries/<uuid:delivery_id>/again/", pages.send_again, name="send-delivery-again"),
]
