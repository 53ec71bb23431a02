from django.urls import path

from billing.account_settings import activity_pages, closing_pages, pages

urlpatterns = [
    path("", pages.show, name="settings"),
    path("close/", closing_pages.close_account, name="close-account"),
    path("close/undo/", closing_pages.undo_closing, name="undo-closing"),
    path("emails/", pages.change_emails, name="emails"),
    path("export/", pages.export_data, name="export"),
    path("export/<uuid:export_id>.zip", pages.download_export, name="export-file"),
    path("activity/", activity_pages.show_activity, name="activity"),
    path("activity.csv", activity_pages.download_activity, name="activity-csv"),
]
