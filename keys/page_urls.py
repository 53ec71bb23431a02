from django.urls import path

from keys import budget_pages, key_pages, pages

urlpatterns = [
    path("", pages.overview, name="dashboard"),
    path("budgets/", budget_pages.list_budgets, name="budgets"),
    path("budgets/new/", budget_pages.new_budget, name="new-budget"),
    path("budgets/<slug:budget_id>/", budget_pages.change_budget, name="change-budget"),
    path("budgets/<slug:budget_id>/delete/", budget_pages.delete_budget, name="delete-budget"),
    path("keys/", pages.key_list, name="keys"),
    path("keys/new/", pages.new_key, name="new-key"),
    path("keys/lifetime/", pages.set_lifetime, name="key-lifetime"),
    path("keys/lifetime/apply/", pages.apply_lifetime, name="apply-key-lifetime"),
    path("keys/find/", key_pages.find_key, name="find-key"),
    path("keys/management/", pages.list_management_keys, name="management-keys"),
    path("keys/management/new/", pages.new_management_key, name="new-management-key"),
    path("keys/management/<slug:key_id>/revoke/", pages.revoke_management_key, name="revoke-management-key"),
    path("keys/<slug:key_id>/", key_pages.show_key, name="key"),
    path("keys/<slug:key_id>/change/", key_pages.change_key, name="change-key"),
    path("keys/<slug:key_id>/limit/", key_pages.limit_key, name="limit-key"),
    path("keys/<slug:key_id>/pause/", key_pages.pause_key, name="pause-key"),
    path("keys/<slug:key_id>/resume/", key_pages.resume_key, name="resume-key"),
    path("keys/<slug:key_id>/rotate/", key_pages.rotate_key, name="rotate-key"),
    path("keys/<slug:key_id>/former/end/", key_pages.end_former_secrets, name="end-former-secrets"),
    path("keys/<slug:key_id>/revoke/", key_pages.revoke_key, name="revoke-key"),
]
