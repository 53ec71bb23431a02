"""Accounts and their members."""

from typing import Any, ClassVar

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVector
from django.core.validators import MinValueValidator, RegexValidator
from django.db import models, transaction
from django.db.models import Q
from django.db.models.functions import Cast, Lower, Now, Right

from billing import money
from billing.models.people import User
from gateway_project import identifiers
from gateway_project.cells import directory
from gateway_project.cells.models import Reference, UserPlace
from gateway_project.db import cell
from gateway_project.db.constraints import must_hold
from gateway_project.db.owned import DELETED, Kept, OwnedModel

REGIONS_MAX = 10
_OF_EACH_KEY = "Of each of its keys that has no such limit of its own. Empty: the deployment's, if it has one."


def _limit(help_text: str) -> "models.PositiveIntegerField[int | None, int | None]":
    return models.PositiveIntegerField(null=True, blank=True, validators=[MinValueValidator(1)], help_text=help_text)


REGION = "[a-z]{2}"  # eu, or the code of a country in ISO 3166


class DataPolicy(models.TextChoices):
    """A demand on providers about prompts and replies. Each contains the one before."""

    ANY = "", "Any provider"
    DENY = "deny", "Only providers that do not train on them"
    ZDR = "zdr", "Only providers that keep nothing of them"


class DataDemands(models.Model):
    """The demands of an account or a key on providers. Each holds for itself: none loosens another."""

    data_policy = models.CharField(
        "prompts and replies", max_length=10, choices=DataPolicy.choices, blank=True, default="", db_default=""
    )
    data_regions: ClassVar = ArrayField(
        models.CharField(max_length=2, validators=[RegexValidator(rf"\A{REGION}\Z", "Write codes of two lower-case letters.")]),
        verbose_name="regions",
        null=True,
        blank=True,
        size=REGIONS_MAX,
        help_text="Where requests may be processed, such as eu, ch. Empty: anywhere.",
    )

    class Meta:
        abstract = True

    @property
    def data_words(self) -> str:
        regions = f", processed in {' or '.join(self.data_regions)}" if self.data_regions else ""
        return f"{DataPolicy(self.data_policy).label}{regions}"


class Account(DataDemands, OwnedModel):
    """A prepaid balance with its members. Only ``ledger`` and ``holds`` write balance, held amount, last seq and open holds."""

    kept = Kept("account", "Its name is replaced.")
    id = models.UUIDField(primary_key=True, default=identifiers.uuid7, editable=False)
    name = models.CharField(max_length=200)
    is_active = models.BooleanField(default=True, help_text="Keys of an account that is not active are refused.")
    balance_nanos = models.BigIntegerField(default=0, editable=False)
    held_nanos = models.BigIntegerField(default=0, editable=False)
    last_seq = models.BigIntegerField(default=0, editable=False)
    open_holds = models.IntegerField(default=0, db_default=0, editable=False)  # how many: its requests in flight
    stored_reply_bytes = models.BigIntegerField(default=0, db_default=0, editable=False)  # of ``completions``, which writes it
    stored_response_bytes = models.BigIntegerField(default=0, db_default=0, editable=False)  # the same
    has_budgets = models.BooleanField(
        default=False, db_default=False, editable=False
    )  # of ``keys``, which writes it: monthly ones
    keeps_responses = models.BooleanField(
        default=True,
        db_default=True,
        help_text="Whether responses are stored for later requests, unless a request says otherwise. "
        "If not, those that are stored cannot be read any more, and are deleted within the hour.",
    )
    has_own_keys = models.BooleanField(
        default=False, db_default=False, editable=False
    )  # of providers; ``completions`` writes it
    has_paid = models.BooleanField(default=False, db_default=False, editable=False)  # usage, ever; ``unpaid_work`` sets it
    unpaid_until = models.DateTimeField(null=True, editable=False)  # ``unpaid_work`` sets it
    requests_per_minute = _limit(_OF_EACH_KEY)
    tokens_per_minute = _limit(_OF_EACH_KEY)
    requests_in_flight_max = _limit(
        "How many requests of all its keys together may run at a time. Empty: the deployment's maximum."
    )
    key_lifetime_days_max = models.PositiveIntegerField(
        null=True, editable=False, help_text="How many days a key works after its secret was made, at most. Empty: no maximum."
    )
    warning_threshold_cents = models.BigIntegerField(
        null=True, default=500, db_default=500, editable=False, help_text="Members are warned when the balance falls below it."
    )
    unusual_hour_factor = models.SmallIntegerField(
        null=True,
        default=5,
        db_default=5,
        editable=False,
        help_text="Members get an alert when a key spends so many times its usual hour. Empty: they get none.",
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    members = models.ManyToManyField(User, through="Membership", related_name="accounts")

    class Meta:
        constraints = must_hold(
            held_money_is_never_negative=Q(held_nanos__gte=0),
            a_book_begins_at_zero=Q(last_seq__gte=0),
            an_accounts_open_holds_are_never_negative=Q(open_holds__gte=0),
            an_accounts_rate_is_at_least_one_a_minute=(Q(requests_per_minute__isnull=True) | Q(requests_per_minute__gte=1))
            & (Q(tokens_per_minute__isnull=True) | Q(tokens_per_minute__gte=1)),
            an_account_may_run_at_least_one_request=Q(requests_in_flight_max__isnull=True) | Q(requests_in_flight_max__gte=1),
            a_warning_threshold_is_a_positive_amount=Q(warning_threshold_cents__isnull=True)
            | Q(warning_threshold_cents__gte=1, warning_threshold_cents__lte=money.CENTS_MAX),
        )
        indexes = [
            GinIndex(SearchVector("name", config="simple"), name="accounts_by_words_of_name"),
            models.Index(Right(Cast("id", models.TextField()), 8), name="accounts_by_end_of_id"),
        ]
        permissions = [
            ("issue_support_credit", "Can issue a SUPPORT_CREDIT"),
            ("correct_credit", "Can correct a credit, once"),
            ("book_purchase", "Can book a payment by bank transfer"),
            ("refund_purchase", "Can book refunds, and close an account with a refund"),
            ("close_account", "Can close and reopen an account"),
            ("send_password_link", "Can send a member of an account a link to set a password"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_authenticated(self) -> bool:
        """True: an account that authenticated with a key is DRF's ``request.user``."""
        return True

    @property
    def available_nanos(self) -> int:
        """The balance less what running requests hold: what new usage may still hold."""
        return self.balance_nanos - self.held_nanos

    def save(self, **kwargs: Any) -> None:
        """Save it, and if it is new, write to the directory that it is in the current cell."""
        is_new = self._state.adding
        with transaction.atomic(savepoint=False):
            super().save(**kwargs)
            if is_new:
                directory.place_account(self.pk)

    @property
    def warning_threshold_nanos(self) -> int | None:
        return None if self.warning_threshold_cents is None else money.nanos(self.warning_threshold_cents)

    @property
    def is_low(self) -> bool:
        """Whether the balance is below the threshold of alerts."""
        return self.warning_threshold_nanos is not None and self.balance_nanos < self.warning_threshold_nanos


class Role(models.TextChoices):
    """The role of a member in an account. ``accounts.roles`` says what each role may do there."""

    OWNER = "OWNER", "Owner"
    DEVELOPER = "DEVELOPER", "Developer"
    BILLING = "BILLING", "Billing"
    VIEWER = "VIEWER", "Viewer"


class Membership(OwnedModel):
    """Makes a user a member of an account, in a role. Roles and members of an account change under its lock."""

    kept = Kept("members", DELETED)
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.OWNER, db_default=Role.OWNER)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [
            *must_hold(a_member_has_a_role=Q(role__in=Role.values)),
            models.UniqueConstraint(fields=["account", "user"], name="a_person_joins_an_account_once"),
        ]

    def save(self, **kwargs: Any) -> None:
        """Save it, and if it is new, write to the directory in which cell its user is a member now."""
        if self._state.adding:
            UserPlace.objects.bulk_create([UserPlace(user_id=self.user_id, cell=cell.current())], ignore_conflicts=True)
        super().save(**kwargs)

    @staticmethod
    def cells_of(user_id: int) -> list[int]:
        """Return the cells in which a user may be a member of an account."""
        if not cell.are_several():
            return [cell.FIRST]
        found = UserPlace.objects.filter(user=user_id).values_list("cell", flat=True)
        return sorted({cell.FIRST, *found})  # the directory may lack those who became members while there was one cell

    def __str__(self) -> str:
        return f"{self.user} in {self.account}"


class MembershipChange(OwnedModel):
    """Who joined, changed role in or left an account. A trigger of ``Membership`` writes it, and it is never changed.

    The audit compares the members with it. It has no foreign keys: it stays when a user or an account is deleted.
    """

    kept = Kept(
        "It is the second record of members, who are in activity.",
        "It stays: the audit compares members with it. It has ids only.",
    )
    account_id = models.UUIDField()
    user_id = models.BigIntegerField()
    role = models.CharField(max_length=10, blank=True, help_text="Empty: the membership ended.")
    changed_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        default_permissions = ()
        indexes = [models.Index(fields=["account_id", "user_id", "-id"], name="changes_by_membership")]


class Invitation(directory.ReferredModel):
    """A link, sent by mail, by which whoever has the address joins an account once. Written under the lock of the account."""

    kept = Kept("invitations", DELETED)
    reference_kind = Reference.Kind.INVITATION
    reference_field = "digest"
    id = models.UUIDField(primary_key=True, default=identifiers.uuid7, editable=False)
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="invitations", db_index=False)
    email = models.EmailField()
    role = models.CharField(max_length=10, choices=Role.choices)
    digest = models.CharField(max_length=64, unique=True, db_collation="C", help_text="SHA-256 of the link's secret.")
    invited_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ("view",)
        constraints = [
            *must_hold(
                an_invitation_is_to_a_role=Q(role__in=Role.values),
                an_invited_email_is_in_lower_case=Q(email=Lower("email")),
                an_invitation_ends_once=Q(accepted_at__isnull=True) | Q(revoked_at__isnull=True),
            ),
            models.UniqueConstraint(
                fields=["account", "email"],
                condition=Q(accepted_at__isnull=True, revoked_at__isnull=True),
                name="an_address_is_invited_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.email} to {self.account}"
