"""The tables of billing. Every invariant of one row that a constraint can express is a constraint, named as a sentence.

Triggers of migration 0002 enforce invariants between rows. All models are imported from here.

- ``people``     users, and what limits and changes their sign-in
- ``accounts``   accounts and their members
- ``ledger``     ledger entries, and holds
- ``audit``      days that were signed, archived or dropped
- ``approvals``  acts of staff that wait for a second person
- ``payments``   payments, what a processor says of them, and automatic top-ups
- ``proof``      the tree over all ledgers, its signed roots, and the keys that sign them
- ``alerts``     what members are told: alerts, their deliveries, and webhook endpoints
- ``closing``    accounts that close, and exports of their data
"""

from billing.models.accounts import (
    REGION,
    REGIONS_MAX,
    Account,
    DataDemands,
    DataPolicy,
    Invitation,
    Membership,
    MembershipChange,
    Role,
)
from billing.models.alerts import AccountAlert, AlertDelivery, EmailChoice, WebhookEndpoint
from billing.models.approvals import (
    IS_APPROVED_BY_ANOTHER,
    IS_DECIDED_WHOLLY,
    AccountAct,
    CreditRequest,
    OwnerRequest,
    SecondFactorRequest,
    WaitingAct,
)
from billing.models.audit import ArchivedDay, AuditedDay, AuditedLedger, RetentionMark
from billing.models.closing import AccountClosing, AccountExport, ExportPart
from billing.models.ledger import Hold, LedgerEntry, ManualEntry
from billing.models.payments import (
    END_OF_ACCOUNT,
    BillingDetails,
    InvoiceFile,
    Payment,
    PaymentDifference,
    PaymentEvent,
    TopUpRule,
)
from billing.models.people import AddressChange, PasswordLink, SignInLimit, User
from billing.models.proof import LedgerHead, LedgerLeaf, LedgerRoot, RootKey
