"""Users, accounts and their members, ledger entries, credits that wait, holds, payments, warnings, and sign-in limits.

Every invariant of one row that a constraint can express is a constraint, named as a sentence. Triggers of migration 0002
enforce invariants between rows.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

from django.contrib.auth.base_user import BaseUserManager
from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.functions import RandomUUID
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVector
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Lower, Now, Right

from billing import email_addresses, money
from gateway_project import identifiers
from gateway_project.cells.models import BOOKS, DELETED, EVIDENCE, NOTES_OF_STAFF, Kept, OwnedModel, Reference, UserPlace
from gateway_project.db import cell
from gateway_project.text import dollars, web_addresses


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
        default=0,
        db_default=0,
        editable=False,
        help_text="Sessions of an earlier one are over. Triggers count new addresses.",
    )

    USERNAME_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []
    objects: ClassVar[UserManager] = UserManager()  # type: ignore[assignment]

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(email=Lower("email")), name="an_email_is_stored_in_lower_case"),
        ]

    def clean(self) -> None:
        self.email = email_addresses.read(self.email)

    def get_session_auth_hash(self) -> str:
        return self._of_this_generation(super().get_session_auth_hash())

    def get_session_auth_fallback_hash(self) -> Iterator[str]:
        return map(self._of_this_generation, super().get_session_auth_fallback_hash())

    def _of_this_generation(self, hash: str) -> str:
        return f"{hash}.{self.sessions_generation}" if self.sessions_generation else hash


class Account(OwnedModel):
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
    keeps_responses = models.BooleanField(
        default=True,
        db_default=True,
        help_text="Whether responses are stored for later requests, unless a request says otherwise. "
        "If not, those that are stored cannot be read any more, and are deleted within the hour.",
    )
    has_paid = models.BooleanField(default=False, db_default=False, editable=False)  # usage, ever; ``unpaid_work`` sets it
    unpaid_until = models.DateTimeField(null=True, editable=False)  # ``unpaid_work`` sets it
    requests_per_minute = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Of each of its keys that has no such limit of its own. Empty: the deployment's, if it has one.",
    )
    tokens_per_minute = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Of each of its keys that has no such limit of its own. Empty: the deployment's, if it has one.",
    )
    requests_in_flight_max = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="How many requests of all its keys together may run at a time. Empty: the deployment's maximum.",
    )
    warning_threshold_cents = models.BigIntegerField(
        null=True, default=500, db_default=500, editable=False, help_text="Members are warned when the balance falls below it."
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    members = models.ManyToManyField(User, through="Membership", related_name="accounts")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(held_nanos__gte=0), name="held_money_is_never_negative"),
            models.CheckConstraint(condition=Q(last_seq__gte=0), name="a_book_begins_at_zero"),
            models.CheckConstraint(condition=Q(open_holds__gte=0), name="an_accounts_open_holds_are_never_negative"),
            models.CheckConstraint(
                condition=(Q(requests_per_minute__isnull=True) | Q(requests_per_minute__gte=1))
                & (Q(tokens_per_minute__isnull=True) | Q(tokens_per_minute__gte=1)),
                name="an_accounts_rate_is_at_least_one_a_minute",
            ),
            models.CheckConstraint(
                condition=Q(requests_in_flight_max__isnull=True) | Q(requests_in_flight_max__gte=1),
                name="an_account_may_run_at_least_one_request",
            ),
            models.CheckConstraint(
                condition=Q(warning_threshold_cents__isnull=True)
                | Q(warning_threshold_cents__gte=1, warning_threshold_cents__lte=money.CENTS_MAX),
                name="a_warning_threshold_is_a_positive_amount",
            ),
        ]
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

    @property
    def warning_threshold_nanos(self) -> int | None:
        return None if self.warning_threshold_cents is None else money.nanos(self.warning_threshold_cents)

    @property
    def is_low(self) -> bool:
        """Whether the balance is below the threshold of warnings."""
        return self.warning_threshold_nanos is not None and self.balance_nanos < self.warning_threshold_nanos


class Role(models.TextChoices):
    """What a member is in an account. ``accounts.roles`` says what each role may do there."""

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
            models.UniqueConstraint(fields=["account", "user"], name="a_person_joins_an_account_once"),
            models.CheckConstraint(condition=Q(role__in=Role.values), name="a_member_has_a_role"),
        ]

    def save(self, **kwargs: Any) -> None:
        """Save it, and if it is new, write to the directory in which cell its user is a member now."""
        if self._state.adding:
            UserPlace.objects.bulk_create([UserPlace(user_id=self.user_id, cell=cell.current())], ignore_conflicts=True)
        super().save(**kwargs)

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

    def __str__(self) -> str:
        return f"{self.user_id} in {self.account_id}: {self.role or 'no member'}"


class Invitation(OwnedModel):
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
            models.CheckConstraint(condition=Q(role__in=Role.values), name="an_invitation_is_to_a_role"),
            models.CheckConstraint(condition=Q(email=Lower("email")), name="an_invited_email_is_in_lower_case"),
            models.CheckConstraint(
                condition=Q(accepted_at__isnull=True) | Q(revoked_at__isnull=True), name="an_invitation_ends_once"
            ),
            models.UniqueConstraint(
                fields=["account", "email"],
                condition=Q(accepted_at__isnull=True, revoked_at__isnull=True),
                name="an_address_is_invited_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.email} to {self.account}"


class LedgerEntry(OwnedModel):
    """One line of an account's ledger. Written once by ``ledger`` and never changed; corrections are new entries."""

    kept = Kept("ledger", BOOKS)

    class Type(models.TextChoices):
        CREDIT_PURCHASE = "CREDIT_PURCHASE"
        USAGE_DEBIT = "USAGE_DEBIT"
        SUPPORT_CREDIT = "SUPPORT_CREDIT"
        REFUND_DEBIT = "REFUND_DEBIT"

    id = models.UUIDField(primary_key=True, default=identifiers.uuid7, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="entries", db_index=False)
    seq = models.BigIntegerField(help_text="1, 2, 3 ... without gaps within the account.")
    type = models.CharField(max_length=20, choices=Type.choices)
    amount_nanos = models.BigIntegerField()
    balance_after_nanos = models.BigIntegerField()
    reference = models.CharField(
        max_length=255, unique=True, db_collation="C", help_text="The business fact this entry books, once."
    )
    metadata = models.JSONField(default=dict)
    spender = models.CharField(max_length=64, null=True, blank=True, help_text="Of usage: an id of whoever spent it.")
    issued_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.PROTECT, related_name="+", db_index=False)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name_plural = "ledger entries"
        constraints = [
            models.UniqueConstraint(fields=["account", "seq"], name="a_place_in_the_book_is_taken_once"),
            models.CheckConstraint(condition=Q(seq__gte=1), name="seq_counts_from_one"),
            models.CheckConstraint(
                condition=Q(type__in=["CREDIT_PURCHASE", "SUPPORT_CREDIT"], amount_nanos__gt=0)
                | Q(type="REFUND_DEBIT", amount_nanos__lt=0)
                | Q(type="USAGE_DEBIT", amount_nanos__lte=0),
                name="credits_add_and_debits_take",
            ),
            models.CheckConstraint(condition=Q(spender__isnull=True) | Q(type="USAGE_DEBIT"), name="only_usage_has_a_spender"),
        ]
        indexes = [
            models.Index(fields=["account", "spender", "seq"], condition=Q(spender__isnull=False), name="entries_by_spender"),
            # Without the many usage entries, so that debits do not update it; ``ledger.reading`` skips entries with it.
            models.Index(fields=["account", "type", "seq"], condition=~Q(type="USAGE_DEBIT"), name="entries_beside_usage"),
            # Finds payments by their ids. Without usage, for the same reason.
            GinIndex(fields=["metadata"], condition=~Q(type="USAGE_DEBIT"), name="entries_by_metadata"),
            models.Index(fields=["issued_by"], condition=Q(issued_by__isnull=False), name="entries_by_issuer"),
            models.Index(fields=["id"], condition=~Q(type="USAGE_DEBIT"), name="entries_beside_usage_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.title} {self.reference}"

    _RETURNED: ClassVar = {"overcharge": "Usage given back", "unrefund": "Refund returned"}  # by the beginning of the reference

    @property
    def title(self) -> str:
        """What the entry is, as people read it."""
        if returned := self._RETURNED.get(self.reference.partition(":")[0]):
            return returned
        return {
            self.Type.CREDIT_PURCHASE: "Payment",
            self.Type.USAGE_DEBIT: "Usage",
            self.Type.SUPPORT_CREDIT: "Support credit",
            self.Type.REFUND_DEBIT: "Refund",
        }[self.Type(self.type)]


class ManualEntry(OwnedModel):
    """Who booked an entry that no payment at a processor explains, and what it was: staff, or an operator's command.

    ``ledger`` writes it with the entry, and it is never changed. The audit compares the two.
    """

    kept = Kept("It is the second record of entries that staff booked.", BOOKS)
    reference_kind = Reference.Kind.ENTRY
    reference_field = "reference"
    reference_condition = "NOT starts_with(reference, 'overcharge:')"  # which names a completion, and so its account
    entry = models.OneToOneField(LedgerEntry, primary_key=True, on_delete=models.PROTECT, related_name="manual_entry")
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="+", db_index=False)
    type = models.CharField(max_length=20)
    amount_nanos = models.BigIntegerField()
    reference = models.CharField(max_length=255, db_collation="C")
    metadata = models.JSONField(default=dict)
    issued_by = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+", db_index=False)
    operator = models.CharField(max_length=200, blank=True, help_text="Of a command: the user and the host that ran it.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        default_permissions = ()
        constraints = [
            models.CheckConstraint(
                condition=Q(issued_by__isnull=False, operator="") | (Q(issued_by__isnull=True) & ~Q(operator="")),
                name="a_manual_entry_names_who_booked_it",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.reference}, by {self.issued_by or self.operator}"


class WaitingAct(models.Model):
    """An act of staff that waits for a second person, or was decided. Written by ``approvals``.

    Decided once; triggers refuse to change anything else, and to delete a row. Nobody approves what they asked for.
    """

    class Decision(models.TextChoices):
        APPROVED = "APPROVED", "approved"
        DECLINED = "DECLINED", "declined"

    id = models.UUIDField(primary_key=True, default=identifiers.uuid7, editable=False)
    reason = models.CharField(max_length=500)
    ticket = models.CharField(max_length=100, blank=True)
    requested_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    requested_at = models.DateTimeField(db_default=Now(), editable=False)
    decision = models.CharField(max_length=8, choices=Decision.choices, blank=True, default="")
    decided_by = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")
    decided_at = models.DateTimeField(null=True)
    decision_reason = models.CharField(max_length=500, blank=True)
    seen = models.JSONField(
        default=dict,
        db_default={},
        editable=False,
        help_text="By name, the state of what it is about when it was asked for.",
    )

    class Meta:
        abstract = True

    @property
    def what(self) -> str:
        """What is asked for, such as "credit of $200.00"."""
        raise NotImplementedError

    @property
    def target(self) -> models.Model:
        """The object of the act, under which the activity log records it."""
        raise NotImplementedError


class AccountAct(WaitingAct, OwnedModel):
    """One that is done to an account."""

    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="+")

    class Meta:
        abstract = True

    @property
    def target(self) -> Account:
        return self.account


IS_DECIDED_WHOLLY = Q(decision="", decided_by__isnull=True, decided_at__isnull=True) | Q(
    decision__in=["APPROVED", "DECLINED"], decided_by__isnull=False, decided_at__isnull=False
)
IS_APPROVED_BY_ANOTHER = ~Q(decision="APPROVED") | ~Q(decided_by=F("requested_by"))


class CreditRequest(AccountAct):
    """A credit that waits for a second person: SUPPORT_CREDIT, or a payment by bank transfer. Written by ``support_credit``."""

    kept = Kept(NOTES_OF_STAFF, EVIDENCE)

    class Kind(models.TextChoices):
        SUPPORT_CREDIT = "SUPPORT_CREDIT", "credit"
        CREDIT_PURCHASE = "CREDIT_PURCHASE", "payment by bank transfer"

    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="credit_requests")
    requested_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="credit_requests")
    kind = models.CharField(
        max_length=20, choices=Kind.choices, default=Kind.SUPPORT_CREDIT, db_default=Kind.SUPPORT_CREDIT, editable=False
    )
    reference = models.CharField(max_length=64, unique=True, db_collation="C", help_text="Of the form that asked for it.")
    amount_cents = models.BigIntegerField()
    payment_id = models.CharField(max_length=200, blank=True, default="", db_default="", help_text="The bank's, of a payment.")
    entry = models.OneToOneField(LedgerEntry, null=True, on_delete=models.PROTECT, related_name="credit_request")

    class Meta:
        default_permissions = ("view",)
        permissions = [("approve_support_credit", "Can approve a SUPPORT_CREDIT that somebody else asks for")]
        constraints = [
            models.CheckConstraint(condition=Q(amount_cents__gte=1), name="a_credit_is_asked_for_in_whole_cents"),
            models.CheckConstraint(condition=IS_APPROVED_BY_ANOTHER, name="nobody_approves_what_they_asked_for"),
            models.CheckConstraint(condition=IS_DECIDED_WHOLLY, name="a_credit_waits_until_it_is_decided"),
            models.CheckConstraint(
                condition=Q(decision="APPROVED", entry__isnull=False) | (~Q(decision="APPROVED") & Q(entry__isnull=True)),
                name="only_an_approved_credit_is_booked",
            ),
            models.CheckConstraint(
                condition=Q(kind="SUPPORT_CREDIT", payment_id="") | (Q(kind="CREDIT_PURCHASE") & ~Q(payment_id="")),
                name="a_payment_that_waits_has_the_banks_id",
            ),
        ]
        indexes = [
            models.Index(fields=["requested_by"], condition=Q(decision=""), name="waiting_credits_by_requester"),
        ]

    def __str__(self) -> str:
        return f"{dollars.format_cents(self.amount_cents)} for {self.account}"

    @property
    def what(self) -> str:
        return f"{self.Kind(self.kind).label} of {dollars.format_cents(self.amount_cents)}"


class OwnerRequest(AccountAct):
    """Somebody whom staff want to make an owner of an account, which waits for a second person. Written by ``owners``."""

    kept = Kept(NOTES_OF_STAFF, EVIDENCE)
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")

    class Meta:
        default_permissions = ("view",)
        constraints = [
            models.CheckConstraint(condition=IS_APPROVED_BY_ANOTHER, name="nobody_approves_an_owner_they_asked_for"),
            models.CheckConstraint(condition=IS_DECIDED_WHOLLY, name="an_owner_waits_until_it_is_decided"),
            models.UniqueConstraint(
                fields=["account", "user"], condition=Q(decision=""), name="an_owner_is_asked_for_once_at_a_time"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} as an owner of {self.account}"

    @property
    def what(self) -> str:
        return f"membership of {self.user} as an owner"


class SecondFactorRequest(AccountAct):
    """A lost second factor that support wants to remove, which waits for a second person. See ``second_factor_removals``."""

    kept = Kept(NOTES_OF_STAFF, EVIDENCE)
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")

    class Meta:
        default_permissions = ("view",)
        permissions = [("remove_second_factor", "Can approve the removal of somebody's two-factor authentication")]
        constraints = [
            models.CheckConstraint(condition=IS_APPROVED_BY_ANOTHER, name="nobody_approves_a_removal_they_asked_for"),
            models.CheckConstraint(condition=IS_DECIDED_WHOLLY, name="a_removal_waits_until_it_is_decided"),
            models.UniqueConstraint(fields=["user"], condition=Q(decision=""), name="a_removal_is_asked_for_once_at_a_time"),
        ]

    def __str__(self) -> str:
        return f"second factor of {self.user}"

    @property
    def what(self) -> str:
        return f"removal of the two-factor authentication of {self.user}"


class Hold(OwnedModel):
    """Money reserved for one completion, whose id is its reference. Resolved once; a resolved hold is never changed."""

    kept = Kept("Requests have what became of it.", BOOKS)

    class State(models.TextChoices):
        HELD = "HELD"
        SETTLED = "SETTLED"
        RELEASED = "RELEASED"
        EXPIRED = "EXPIRED"

    reference = models.CharField(max_length=64, primary_key=True, db_collation="C")
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="holds", db_index=False)
    amount_nanos = models.BigIntegerField()
    state = models.CharField(max_length=10, choices=State.choices, default=State.HELD)
    settled_nanos = models.BigIntegerField(null=True)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    resolved_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(amount_nanos__gte=0), name="a_hold_is_never_negative"),
            models.CheckConstraint(
                condition=Q(settled_nanos__isnull=True) | Q(settled_nanos__gte=0, settled_nanos__lte=F("amount_nanos")),
                name="no_more_is_settled_than_was_held",
            ),
            models.CheckConstraint(
                condition=Q(state="SETTLED", settled_nanos__isnull=False)
                | (~Q(state="SETTLED") & Q(settled_nanos__isnull=True)),
                name="only_a_settled_hold_says_what_it_cost",
            ),
            models.CheckConstraint(
                condition=Q(state="HELD", resolved_at__isnull=True) | (~Q(state="HELD") & Q(resolved_at__isnull=False)),
                name="a_hold_is_open_until_it_is_resolved",
            ),
        ]
        indexes = [
            models.Index(fields=["expires_at"], condition=Q(state="HELD"), name="open_holds_by_expiry"),
            models.Index(fields=["account"], condition=Q(state="HELD"), name="open_holds_by_account"),
            # Of those that cost nothing, which are few. The others are found by their ledger entries.
            models.Index(
                fields=["account", "resolved_at"], condition=Q(state__in=["RELEASED", "EXPIRED"]), name="failed_holds_by_time"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.reference}, {self.state_in_words}"

    @property
    def state_in_words(self) -> str:
        return "open" if self.state == self.State.HELD else self.state.lower()


class AuditedDay(OwnedModel):
    """A UTC day that the audit found consistent and signed off. ``billing.ledger.signed_days`` writes it.

    Its digest is made from the digests of its accounts and of the day before. So a copy kept elsewhere proves all days up to
    it.
    """

    day = models.DateField(primary_key=True)
    digest = models.CharField(max_length=64, db_collation="C")
    signed_at = models.DateTimeField(db_default=Now())
    checked_at = models.DateTimeField(db_default=Now(), help_text="When its rows were last read and found as signed.")
    rows_changed = models.BigIntegerField(
        help_text="Changes of entries that PostgreSQL had counted: none, unless triggers are disabled."
    )

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.day)


class AuditedLedger(OwnedModel):
    """What an account booked up to the end of a signed day on which it booked something, and a digest of these entries."""

    kept = Kept("It has digests of the ledger.", BOOKS)
    moves = False  # so that a signed day stays what it was
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="+", db_index=False, db_constraint=False)
    day = models.DateField()
    last_seq = models.BigIntegerField()
    last_at = models.DateTimeField()
    balance_nanos = models.BigIntegerField()
    debited_nanos = models.BigIntegerField(help_text="Of all usage until then.")
    digest = models.CharField(max_length=64, db_collation="C", help_text="SHA-256 over that of each entry of the day.")

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["account", "day"], name="a_ledgers_day_is_signed_once")]
        indexes = [models.Index(fields=["day"], name="audited_ledgers_by_day")]

    def __str__(self) -> str:
        return f"{self.account_id} up to {self.last_seq}, {self.day}"


class ArchivedDay(OwnedModel):
    """A UTC day whose completions and holds, those that ended on it, are archived or dropped. Days are archived in order.

    While ``written_at`` is empty, all rows of the day are there. From then on triggers allow to delete them.
    """

    day = models.DateField(primary_key=True)
    files = models.JSONField(default=list, help_text="Of each file: name, rows, bytes and SHA-256. Empty: dropped.")
    completions = models.BigIntegerField(default=0)
    holds = models.BigIntegerField(default=0)
    written_at = models.DateTimeField(null=True)
    deleted_at = models.DateTimeField(null=True)
    restored_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.day)


class RetentionMark(OwnedModel):
    """Since which day rows of a kind are kept; those before were dropped."""

    what = models.CharField(max_length=20, primary_key=True)
    since = models.DateField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.what} since {self.since}"


# What the numbers of an account's receipts and statements begin with.
END_OF_ACCOUNT = Right(Cast("account_id", models.TextField()), 8)


class Payment(OwnedModel):
    """What an account is to pay, written before the processor hears of it: the only source of amount, currency and account.

    What the processor reports is compared with it. Only ``payments.booking`` changes what is paid, refunded and booked.
    """

    kept = Kept("payments", BOOKS)

    class Status(models.TextChoices):
        OPEN = "OPEN", "Waiting for the payment"
        PROCESSING = "PROCESSING", "The bank is processing it"
        PAID = "PAID", "Paid"
        FAILED = "FAILED", "Not paid"
        EXPIRED = "EXPIRED", "Not paid in time"

    reference_kind = Reference.Kind.PAYMENT
    id = models.UUIDField(primary_key=True, default=identifiers.uuid7, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="payments", db_index=False)
    created_by = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="+", db_index=False, help_text="Empty: an automatic top-up."
    )
    amount_cents = models.BigIntegerField()
    currency = models.CharField(max_length=3, default="usd")
    processor = models.CharField(max_length=20)
    is_live = models.BooleanField(help_text="Whether it moves real money: not in the processor's test mode.")
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.OPEN)
    failure = models.CharField(max_length=300, blank=True, help_text="Why it was not paid, in the processor's words.")
    refusal = models.TextField(
        blank=True, default="", db_default="", help_text="Why what was paid is not credited, to the payer; empty: it is."
    )
    session_id = models.CharField(max_length=255, null=True, unique=True, db_collation="C", help_text="The payment page's.")
    intent_id = models.CharField(max_length=255, null=True, unique=True, db_collation="C", help_text="The processor's payment.")
    page_url = models.TextField(blank=True, help_text="Where the processor takes the payment.")
    refunded_cents = models.BigIntegerField(default=0, help_text="In all, as the processor reports it.")
    disputed_cents = models.BigIntegerField(default=0, help_text="Withdrawn by banks in all, and not reinstated.")
    disputed_at = models.DateTimeField(null=True, help_text="When that last rose.")
    debited_cents = models.BigIntegerField(default=0, help_text="What of the two is booked: never above the amount.")
    debits = models.IntegerField(default=0, help_text="How often that changed; numbers the entries.")
    revision = models.IntegerField(default=0, help_text="Counts changes: an older report is not booked over a newer one.")
    credit = models.OneToOneField(LedgerEntry, null=True, on_delete=models.PROTECT, related_name="+", editable=False)
    receipt_number = models.IntegerField(null=True, help_text="1, 2, 3 ... of the account's paid payments.")
    billed_to = models.JSONField(default=dict, help_text="The account's name, address and tax id when it paid.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    paid_at = models.DateTimeField(null=True)
    asked_at = models.DateTimeField(null=True, help_text="When a page last asked the processor.")
    events_digest = models.CharField(
        max_length=64, null=True, editable=False, help_text="SHA-256 over its events, by a trigger."
    )

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(amount_cents__gt=0), name="a_payment_is_of_some_amount"),
            models.CheckConstraint(
                condition=Q(status="PAID", credit__isnull=False, receipt_number__isnull=False, paid_at__isnull=False)
                | (~Q(status="PAID") & Q(credit__isnull=True, receipt_number__isnull=True, paid_at__isnull=True)),
                name="a_payment_is_paid_when_it_is_credited",
            ),
            models.CheckConstraint(
                condition=Q(refunded_cents__gte=0, disputed_cents__gte=0), name="a_refund_or_dispute_is_never_negative"
            ),
            models.CheckConstraint(
                condition=Q(debited_cents__gte=0, debited_cents__lte=F("amount_cents")),
                name="no_more_is_taken_back_than_was_paid",
            ),
            models.CheckConstraint(condition=Q(status="PAID") | Q(debited_cents=0), name="only_what_was_paid_is_taken_back"),
            models.UniqueConstraint(fields=["account", "receipt_number"], name="a_receipts_number_is_used_once"),
        ]
        indexes = [
            models.Index(fields=["account", "-id"], name="payments_by_account"),
            models.Index(fields=["created_at"], name="payments_by_time"),
            models.Index(END_OF_ACCOUNT, "receipt_number", name="payments_by_receipt"),
            models.Index(fields=["account"], condition=Q(disputed_cents__gt=0), name="disputed_payments"),
        ]

    def __str__(self) -> str:
        return f"payment {self.pk}"


class PaymentEvent(OwnedModel):
    """A signed event of the processor and what it led to. Written once, in the transaction of its effect, and never changed."""

    kept = Kept("payment_events", BOOKS)

    class Outcome(models.TextChoices):
        APPLIED = "APPLIED", "The books changed"
        UNCHANGED = "UNCHANGED", "Nothing was left to book"
        IGNORED = "IGNORED", "It is not about a payment here"
        REFUSED = "REFUSED", "It contradicts the payment"

    processor = models.CharField(max_length=20)
    event_id = models.CharField(max_length=255, db_collation="C")
    type = models.CharField(max_length=100)
    payment = models.ForeignKey(Payment, null=True, on_delete=models.PROTECT, related_name="events")
    outcome = models.CharField(max_length=10, choices=Outcome.choices)
    note = models.TextField(blank=True)
    received_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["processor", "event_id"], name="an_event_is_kept_once")]

    def __str__(self) -> str:
        return f"{self.type} {self.event_id}"


class PaymentDifference(OwnedModel):
    """Where the processor's book and this one contradict each other, found by the daily reconciliation until it is gone."""

    kept = Kept("It is the processor's book beside ours, for staff.", BOOKS)
    processor = models.CharField(max_length=20)
    subject = models.CharField(max_length=255, db_collation="C", help_text="The processor's payment, or the payment here.")
    payment = models.ForeignKey(Payment, null=True, on_delete=models.PROTECT, related_name="differences")
    sentence = models.TextField(help_text="What contradicts what.")
    found_at = models.DateTimeField(db_default=Now(), editable=False)
    gone_at = models.DateTimeField(null=True, help_text="When a reconciliation did not find it any more.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["processor", "subject"], condition=Q(gone_at__isnull=True), name="a_difference_is_open_once"
            )
        ]

    def __str__(self) -> str:
        return self.sentence


class TopUpRule(OwnedModel):
    """When an account buys credit by itself, with a card that a member paid with. Changed under the lock of the account."""

    kept = Kept(
        "top_up", "It is switched off, without its card.", ("base_url", "customer_id", "method_id", "card_payment", "attempt")
    )
    account = models.OneToOneField(Account, primary_key=True, on_delete=models.PROTECT, related_name="top_up_rule")
    is_on = models.BooleanField(default=False)
    threshold_cents = models.BigIntegerField(help_text="Credit is bought when less is available.")
    amount_cents = models.BigIntegerField(help_text="How much each time.")
    month_cents_max = models.BigIntegerField(help_text="How much at most in a UTC month.")
    set_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+", help_text="Who is told when it fails.")
    base_url = models.CharField(
        max_length=300, blank=True, default="", db_default="", help_text="Not used any more; a later release removes it."
    )
    processor = models.CharField(max_length=20)
    card_payment = models.OneToOneField(
        Payment,
        null=True,
        on_delete=models.PROTECT,
        related_name="keeps_card_for",
        help_text="Whose card is kept once it is paid.",
    )
    customer_id = models.CharField(max_length=255, blank=True)
    method_id = models.CharField(max_length=255, blank=True)
    card = models.CharField(max_length=100, blank=True, help_text="The card as people know it: Visa ending in 4242.")
    attempt = models.OneToOneField(
        Payment, null=True, on_delete=models.PROTECT, related_name="attempt_of", help_text="The one payment that is under way."
    )
    declines = models.IntegerField(default=0, help_text="In a row.")
    next_try_at = models.DateTimeField(null=True, help_text="No attempt before, after a decline.")
    card_at = models.DateTimeField(null=True, help_text="When a member last paid with it.")
    stopped_because = models.CharField(max_length=300, blank=True, help_text="Why there are no attempts any more.")
    stopped_by = models.CharField(
        max_length=20, blank=True, default="", db_default="", help_text="Which of the causes in ``stops`` that is."
    )
    stop_told = models.CharField(
        max_length=20, blank=True, default="", db_default="", help_text="Which cause members were last told of."
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(threshold_cents__gte=0, amount_cents__gt=0, month_cents_max__gte=F("amount_cents")),
                name="a_top_up_fits_in_its_month",
            ),
            models.CheckConstraint(condition=Q(is_on=False) | ~Q(method_id=""), name="a_top_up_that_is_on_has_a_card"),
        ]

    def __str__(self) -> str:
        return f"top-up of {self.account}"


class BillingDetails(OwnedModel):
    """The payer on an account's receipts. Members fill it in; a receipt keeps the payer of its time."""

    kept = Kept("account", DELETED)
    account = models.OneToOneField(Account, primary_key=True, on_delete=models.PROTECT, related_name="billing_details")
    name = models.CharField("name or company", max_length=200)
    address = models.TextField(max_length=500)
    tax_id = models.CharField("tax id", max_length=50, blank=True)

    class Meta:
        verbose_name_plural = "billing details"

    def __str__(self) -> str:
        return self.name


class InvoiceFile(OwnedModel):
    """An invoice or a credit note as it was issued. Written once by ``payments.issuing``, and never changed."""

    kept = Kept("Its page has it, and payments and credit_notes say the same.", BOOKS)
    id = models.UUIDField(primary_key=True, default=identifiers.uuid7, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="invoice_files", db_index=False)
    number = models.CharField(max_length=30)
    content = models.BinaryField(help_text="The PDF.")
    issued_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["account", "number"], name="an_invoice_is_issued_once")]

    def __str__(self) -> str:
        return self.number


class AccountWarning(OwnedModel):
    """What members are to know: written in the transaction in which it happened, and never changed but by ``prepared_at``."""

    kept = Kept("alerts", DELETED)

    class Kind(models.TextChoices):
        BALANCE_LOW = "BALANCE_LOW", "The balance is low"
        KEY_NEAR_LIMIT = "KEY_NEAR_LIMIT", "A key has spent most of its limit"
        KEY_AT_LIMIT = "KEY_AT_LIMIT", "A key has spent its limit"
        TOP_UP_STOPPED = "TOP_UP_STOPPED", "The automatic top-up stopped"
        PAYMENT_TAKEN_BACK = "PAYMENT_TAKEN_BACK", "A payment was taken back"
        PRICE_CHANGED = "PRICE_CHANGED", "A price changes"
        MODEL_ENDS = "MODEL_ENDS", "A model ends or has a successor"
        TEST = "TEST", "A test"
        # Mailed, and neither shown as alerts nor sent to webhooks:
        PAYMENT_BOOKED = "PAYMENT_BOOKED", "A payment was booked"
        CREDIT_BOOKED = "CREDIT_BOOKED", "Credit was added"
        CREDIT_TAKEN_BACK = "CREDIT_TAKEN_BACK", "Credit was taken back"
        CHANGES_SUMMED = "CHANGES_SUMMED", "What changes of models, once a day"

    NOTICES = (Kind.PAYMENT_BOOKED, Kind.CREDIT_BOOKED, Kind.CREDIT_TAKEN_BACK, Kind.CHANGES_SUMMED)
    SUMMED = (Kind.PRICE_CHANGED, Kind.MODEL_ENDS)  # mailed by CHANGES_SUMMED

    id = models.UUIDField(primary_key=True, db_default=RandomUUID(), editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="warnings", db_index=False)
    kind = models.CharField(max_length=20, choices=Kind.choices)
    data = models.JSONField(help_text="The facts as they were then; amounts in nanodollars.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    prepared_at = models.DateTimeField(null=True, help_text="When its deliveries were written.")

    class Meta:
        default_permissions = ("view",)
        indexes = [
            models.Index(fields=["account", "-created_at"], name="warnings_by_account"),
            models.Index(fields=["created_at"], name="warnings_by_time"),
            models.Index(fields=["created_at"], condition=Q(prepared_at__isnull=True), name="warnings_to_prepare"),
            models.Index(KT("data__model"), condition=Q(kind__in=["PRICE_CHANGED", "MODEL_ENDS"]), name="warnings_by_model"),
        ]

    def __str__(self) -> str:
        return self.get_kind_display()


class EmailChoice(OwnedModel):
    """Which emails about money and models the members of an account get. Without a row they get all."""

    kept = Kept("emails", DELETED)
    account = models.OneToOneField(Account, primary_key=True, on_delete=models.PROTECT, related_name="email_choice")
    receipts = models.BooleanField("Receipts of payments and automatic top-ups", default=True, db_default=True)
    credits = models.BooleanField("Credits from support", default=True, db_default=True)
    refunds = models.BooleanField("Refunds, disputes and corrections", default=True, db_default=True)
    changes = models.BooleanField("Prices that change, and models that end", default=True, db_default=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"emails of {self.account_id}"


class AccountClosing(OwnedModel):
    """What an owner was promised on closing an account, or for one that staff closed, until it is undone or kept."""

    kept = Kept("closings", "It stays: it says when what was erased.")
    id = models.UUIDField(primary_key=True, default=identifiers.uuid7, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="closings")
    closed_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    closed_at = models.DateTimeField(db_default=Now(), editable=False)
    is_refunded = models.BooleanField(help_text="Whether unused purchases are paid back; else they are forfeited.")
    refunded_at = models.DateTimeField(null=True, help_text="When all that the processor can pay back was paid back.")
    erase_at = models.DateTimeField(help_text="When personal data is erased, unless the closing is undone before.")
    erased_at = models.DateTimeField(null=True)
    undone_at = models.DateTimeField(null=True)
    kept_closed_at = models.DateTimeField(null=True, help_text="Since when only staff can open the account again, if so.")

    class Meta:
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(
                fields=["account"], condition=Q(undone_at=None, erased_at=None), name="an_account_is_closed_once_at_a_time"
            ),
            models.CheckConstraint(condition=Q(undone_at=None) | Q(erased_at=None), name="what_is_erased_is_not_undone"),
        ]

    def __str__(self) -> str:
        return f"closing of {self.account}"

    @property
    def is_being_refunded(self) -> bool:
        """Whether what is left is on its way back."""
        return self.is_refunded and self.refunded_at is None


class AccountExport(OwnedModel):
    """All data of an account as one ZIP file, asked for by an owner, made in the background, and kept for some days."""

    kept = Kept("exports", DELETED)

    class State(models.TextChoices):
        WAITING = "WAITING", "Being prepared"
        READY = "READY", "Ready"
        FAILED = "FAILED", "Too large"

    id = models.UUIDField(primary_key=True, default=identifiers.uuid7, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="exports")
    asked_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    asked_at = models.DateTimeField(db_default=Now(), editable=False)
    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    claimed_until = models.DateTimeField(null=True, help_text="Until then a worker makes it.")
    size_bytes = models.BigIntegerField(default=0)
    ready_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True, help_text="When its file is deleted.")

    class Meta:
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(fields=["account"], condition=Q(state="WAITING"), name="an_export_is_made_once_at_a_time"),
        ]

    def __str__(self) -> str:
        return f"export of {self.account}"


class ExportPart(OwnedModel):
    """A part of the file of an export. All hosts can read it, and it is deleted with the export."""

    kept = Kept("It is a part of such a file.", DELETED)
    export = models.ForeignKey(AccountExport, on_delete=models.CASCADE, related_name="parts", db_index=False)
    number = models.IntegerField()
    content = models.BinaryField()

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["export", "number"], name="a_part_of_a_file_has_a_place")]

    def __str__(self) -> str:
        return f"part {self.number} of {self.export_id}"


class WebhookEndpoint(OwnedModel):
    """An address of the account's own that warnings are posted to, signed with a secret. Written by ``warnings.endpoints``."""

    kept = Kept("webhooks", DELETED)
    id = models.UUIDField(primary_key=True, default=identifiers.uuid7, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="webhook_endpoints")
    url = models.CharField(max_length=500)
    sealed_secret = models.CharField(max_length=500, help_text="Encrypted by ``secretbox``.")
    sealed_previous_secret = models.CharField(max_length=500, blank=True)
    previous_until = models.DateTimeField(null=True, help_text="Until then the previous secret signs deliveries, too.")
    is_paused = models.BooleanField(default=False)
    failing_since = models.DateTimeField(null=True, help_text="When the first attempt since the last success failed.")
    disabled_at = models.DateTimeField(null=True, help_text="When it was paused because nothing could be delivered.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        default_permissions = ("view",)

    def __str__(self) -> str:
        return web_addresses.parse(self.url).netloc  # a path may be a secret


class WarningDelivery(OwnedModel):
    """One warning on its way to one endpoint, or to one person by mail. ``warnings.deliveries`` claims and ends it."""

    kept = Kept("deliveries", DELETED)

    class State(models.TextChoices):
        WAITING = "WAITING", "Waiting"
        DELIVERED = "DELIVERED", "Delivered"
        DEAD = "DEAD", "Given up"

    id = models.UUIDField(primary_key=True, default=identifiers.uuid7, editable=False)
    warning = models.ForeignKey(AccountWarning, on_delete=models.CASCADE, related_name="deliveries", db_index=False)
    endpoint = models.ForeignKey(
        WebhookEndpoint, null=True, on_delete=models.CASCADE, related_name="deliveries", help_text="Empty: by mail."
    )
    email = models.EmailField(blank=True)
    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    tries = models.IntegerField(default=0, help_text="Since it was sent, or sent again.")
    next_try_at = models.DateTimeField(null=True, help_text="An attempt moves it ahead, so that no two try at once.")
    attempts = models.JSONField(default=list, help_text="The last ones: when, status, milliseconds and reason.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        default_permissions = ("view",)
        constraints = [
            models.CheckConstraint(
                condition=Q(endpoint__isnull=False, email="") | (Q(endpoint__isnull=True) & ~Q(email="")),
                name="a_delivery_has_one_way",
            ),
            models.CheckConstraint(
                condition=Q(state="WAITING", next_try_at__isnull=False) | (~Q(state="WAITING") & Q(next_try_at__isnull=True)),
                name="only_a_waiting_delivery_is_tried",
            ),
            models.UniqueConstraint(fields=["warning", "endpoint"], name="a_warning_goes_to_an_endpoint_once"),
            models.UniqueConstraint(
                fields=["warning", "email"], condition=Q(endpoint__isnull=True), name="a_warning_is_mailed_to_a_person_once"
            ),
        ]
        indexes = [
            models.Index(fields=["next_try_at"], condition=Q(state="WAITING"), name="deliveries_by_next_try"),
        ]

    def __str__(self) -> str:
        return f"{self.warning_id} to {self.email or self.endpoint_id}"


class SignInLimit(models.Model):
    """What attempts to sign in have used up of one limit; ``sign_in.limits`` has the only statements."""

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
            ),
        ]

    def __str__(self) -> str:
        return f"{self.former} to {self.address}"
