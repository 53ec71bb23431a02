from django.urls import path

from billing.account_settings import pages

urlpatterns = [
    path("", pages.show, name="settings"),
    path("close/", pages.close_account, name="close-account"),
    path("close/undo/", pages.undo_closing, name="undo-closing"),
    path("emails/", pages.change_emails, name="emails"),
    path("name/", pages.rename, name="rename-account"),
    path("export/", pages.export_data, name="export"),
    path("export/<uuid:export_id>.zip", pages.download_export, name="export-file"),
    path("activity/", pages.show_activity, name="activity"),
    path("activity.csv", pages.download_activity, name="activity-csv"),
]
