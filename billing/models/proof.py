"""The tree over the ledgers of all cells, whose root is signed each hour. ``billing.proof`` writes and reads it.

No row is ever changed, but the sealed key. An account is named by its id alone: it may be in any cell, and move.
"""

from django.db import models
from django.db.models.functions import Now


class RootKey(models.Model):
    """An Ed25519 key that signs roots. The newest signs; the public part of each stays."""

    id = models.CharField(primary_key=True, max_length=43, help_text="The thumbprint of the public key (RFC 7638).")
    public_key = models.BinaryField()
    sealed_secret = models.TextField(help_text="The private key, encrypted with ENCRYPTION_KEYS.")
    made_at = models.DateTimeField(db_default=Now())

    class Meta:
        default_permissions = ()


class LedgerRoot(models.Model):
    """The root of an hour. ``statement`` is the text that was signed; the other columns have what it is made of."""

    number = models.BigIntegerField(primary_key=True, help_text="1, 2, 3 ... without gaps.")
    hour = models.DateTimeField(unique=True)
    size = models.BigIntegerField(help_text="How many leaves the tree has: those with lower numbers.")
    statement = models.TextField()
    signature = models.BinaryField()
    parts = models.BinaryField(help_text="The hashes of the parts of the tree, one after the other.")

    class Meta:
        default_permissions = ()


class LedgerLeaf(models.Model):
    """The place of an account in each tree since its first."""

    number = models.BigIntegerField(primary_key=True, help_text="0, 1, 2 ... without gaps.")
    account_id = models.UUIDField(unique=True)

    class Meta:
        default_permissions = ()


class LedgerHead(models.Model):
    """The last entry of an account in a root, where it is another than in the root before."""

    pk = models.CompositePrimaryKey("leaf", "root")
    leaf = models.BigIntegerField()
    root = models.BigIntegerField()
    seq = models.BigIntegerField()
    hash = models.BinaryField()

    class Meta:
        default_permissions = ()
