"""Users, and what limits and changes their sign-in."""

from collections.abc import Iterator
from typing import Any, ClassVar

from django.contrib.auth.base_user import BaseUserManager
from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import Q
from django.db.models.functions import Lower, Now

from billing import email_addresses
from gateway_project import identifiers
from gateway_project.db.constraints import must_hold


class UserManager(BaseUserManager["User"]):
    """Users are identified by their canonical email address."""

    def create_user(self, email: str, password: str | None = None, **fields: Any) -> "User":
        user = self.model(email=email_addresses.read(email), **fields)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def create_superuser(self, email: str, password: str | None = None, **fields: Any) -> "User":
        return self.create_user(email, password, **{"is_staff": True, "is_superuser": True, **fields})

    def get_by_natural_key(self, email: str | None) -> "User":
        return self.get(email=email_addresses.canonical(email or ""))


class User(AbstractUser):
    """A person who signs in: a member of an account, or staff."""

    username = None  # type: ignore[assignment]
    email = models.EmailField("email address", unique=True)
    links_generation = models.IntegerField(
        default=0, db_default=0, editable=False, help_text="Links that were mailed under an earlier one are void."
    )
    last_code_step = models.BigIntegerField(
        default=0, db_default=0, editable=False, help_text="The step of time of the last code of an app that was accepted."
    )

    sessions_generation = models.IntegerField(
        default=0, db_default=0, editable=False, help_text="Sessions of an earlier one are over. Triggers count new addresses."
    )

    USERNAME_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []
    objects: ClassVar[UserManager] = UserManager()  # type: ignore[assignment]

    class Meta:
        constraints = must_hold(an_email_is_stored_in_lower_case=Q(email=Lower("email")))

    def clean(self) -> None:
        self.email = email_addresses.read(self.email)

    def get_session_auth_hash(self) -> str:
        return self._of_this_generation(super().get_session_auth_hash())

    def get_session_auth_fallback_hash(self) -> Iterator[str]:
        return map(self._of_this_generation, super().get_session_auth_fallback_hash())

    def _of_this_generation(self, hash: str) -> str:
        return f"{hash}.{self.sessions_generation}" if self.sessions_generation else hash


class SignInLimit(models.Model):
    """The state of one limit on attempts to sign in; ``sign_in.limits`` has the only statements."""

    digest = models.CharField(max_length=64, primary_key=True, db_collation="C", help_text="SHA-256 of what is limited.")
    full_at = models.DateTimeField(db_index=True, help_text="When the whole burst is available again.")
    email_digest = models.CharField(
        max_length=64, blank=True, default="", db_default="", db_collation="C", help_text="Of a limit on a known device."
    )

    class Meta:
        permissions = [("unblock_sign_in", "Can unblock a sign-in after too many attempts")]
        indexes = [models.Index(fields=["email_digest"], condition=~Q(email_digest=""), name="limits_on_known_devices")]

    def __str__(self) -> str:
        return self.digest


class PasswordLink(models.Model):
    """A link, sent by mail, by which a user sets a password once: an invitation, or because the user forgot the password."""

    id = models.UUIDField(primary_key=True, default=identifiers.uuid7, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="password_links")
    digest = models.CharField(max_length=64, unique=True, db_collation="C", help_text="SHA-256 of the link's secret.")
    sent_by = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="+", help_text="Empty: the user asked for it."
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"password link for {self.user}"


class AddressChange(models.Model):
    """A change of a user's email address: asked for, perhaps made, perhaps undone. Written under the lock of the user."""

    id = models.UUIDField(primary_key=True, default=identifiers.uuid7, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="address_changes")
    former = models.EmailField()
    address = models.EmailField()
    asked_at = models.DateTimeField(db_default=Now(), editable=False)
    changed_at = models.DateTimeField(null=True)
    undone_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["user"],
                condition=Q(changed_at__isnull=True, undone_at__isnull=True),
                name="a_user_asks_for_one_change_of_address",
            )
        ]
