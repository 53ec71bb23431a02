from django.urls import path

from billing.members import pages

urlpatterns = [
    path("", pages.show, name="members"),
    path("invite/", pages.invite, name="invite-member"),
    path("join/", pages.join, name="join"),
    path("invitations/<uuid:invitation_id>/revoke/", pages.revoke_invitation, name="revoke-invitation"),
    path("<int:membership_id>/role/", pages.change_role, name="member-role"),
    path("<int:membership_id>/end/", pages.end_membership, name="end-membership"),
]
