"""Invariants of accounts, the ledger, holds and payments, which ``billing.ledger.audit`` checks."""

from datetime import date
from functools import partial

from billing.ledger import signed_days
from billing.ledger.audit import Invariant, Reach, SharedQuery, ViolationKind, dollars_sql, guarding
from billing.proof import chain
from gateway_project.cells.directory import references_sql
from gateway_project.db.cell import FIRST

# The tables of ``LEDGER_TABLES`` in a check of days. ``span`` says from which seq on to which one an account booked on them,
# and what it had before. ``entry`` has what was booked; ``booked`` and ``hold`` have more, so that each has its counterpart.
# ``late`` has what was created on the days and committed after they were signed off: times of an account do not run back, so
# it comes next.
#
# OFFSET 0 has PostgreSQL look the entries of each account up in the index: it cannot know that a span is short, and would read
# the whole ledger.
DAY_TABLES = {
    "span": f"""
        SELECT account.id AS account_id, coalesce(first.last_seq, 0) AS after_seq, first.last_at,
            coalesce(first.balance_nanos, 0) AS balance_nanos, coalesce(first.debited_nanos, 0) AS debited_nanos,
            CASE WHEN %(until)s::date = '{date.max}' THEN {2**63 - 1} ELSE coalesce(last.last_seq, 0) END AS until_seq
        FROM billing_account AS account
        LEFT JOIN LATERAL (
            SELECT last_seq, last_at, balance_nanos, debited_nanos FROM billing_auditedledger
            WHERE account_id = account.id AND day < %(since)s ORDER BY day DESC LIMIT 1
        ) AS first ON true
        LEFT JOIN LATERAL (
            SELECT last_seq FROM billing_auditedledger
            WHERE account_id = account.id AND day < %(until)s ORDER BY day DESC LIMIT 1
        ) AS last ON true""",  # noqa: S608  constants of this code
    "entry": """
        SELECT entry.* FROM span JOIN LATERAL (
            SELECT * FROM billing_ledgerentry WHERE account_id = span.account_id AND seq > after_seq AND seq <= until_seq
            OFFSET 0
        ) AS entry ON true""",
    "late": f"""
        SELECT late.* FROM span CROSS JOIN LATERAL (
            SELECT min(seq) AS seq FROM (
                SELECT seq FROM billing_ledgerentry WHERE account_id = span.account_id AND seq > until_seq
                    AND created_at >= %(until)s::timestamp AT TIME ZONE 'UTC' ORDER BY seq LIMIT 1
            ) AS next
        ) AS after JOIN LATERAL (
            SELECT * FROM billing_ledgerentry AS entry
            WHERE account_id = span.account_id AND entry.seq > until_seq AND entry.seq < coalesce(after.seq, {2**63 - 1})
            OFFSET 0
        ) AS late ON true""",  # noqa: S608  constants of this code
    "booked": """
        SELECT * FROM billing_ledgerentry
        WHERE type = 'USAGE_DEBIT' AND reference >= %(since_id)s AND reference < %(until_id)s
        UNION ALL
        SELECT * FROM billing_ledgerentry WHERE type = 'USAGE_DEBIT' AND reference = ANY(%(late_ids)s)""",
    "hold": """
        SELECT * FROM billing_hold WHERE reference >= %(since_id)s AND reference < %(until_id)s
        UNION ALL SELECT * FROM billing_hold WHERE reference = ANY(%(late_ids)s)""",
}
CELL = "%(cell)s::integer"  # on Citus, no function knows it where the rows are
# Completions whose ids are not of the time of the days, and that ended on them, or run.
LATE_IDS = [
    "SELECT reference FROM entry WHERE type = 'USAGE_DEBIT' AND NOT (reference >= %(since_id)s AND reference < %(until_id)s)",
    "SELECT reference FROM billing_hold WHERE state = 'HELD' AND reference < %(since_id)s",
    """
    SELECT reference FROM span JOIN LATERAL (
        SELECT reference FROM billing_hold WHERE account_id = span.account_id AND state IN ('RELEASED', 'EXPIRED')
            AND resolved_at >= %(since)s AND resolved_at < %(until)s
    ) AS failed ON true WHERE NOT (reference >= %(since_id)s AND reference < %(until_id)s)""",
]

# One sort of the entries for the invariants that compare an entry with the one before it.
ENTRIES_IN_ORDER = SharedQuery(
    """
    SELECT account_id, id AS entry_id, seq, amount_nanos, balance_after_nanos, created_at,
        coalesce(after_seq, 0) + row_number() OVER ledger AS place,
        coalesce(lag(created_at) OVER ledger, last_at) AS created_before,
        coalesce(lag(balance_after_nanos) OVER ledger, balance_nanos, 0) AS balance_before_nanos
    FROM entry LEFT JOIN span USING (account_id) WINDOW ledger AS (PARTITION BY account_id ORDER BY seq)""",
    reach=Reach.DAYS,
)

_USAGE_MEMBERS = "model,tokens,completionId,promptTokens,completionTokens,costInDollars,settlement"
_USAGE_MEMBERS += ",webSearches,repeats,corrects,chargedBeforeInDollars"  # of some

# The entries beside usage, which are few and have an index, with what explains each: the payment that it credits or takes back,
# or the record of who booked it by hand. A manual entry without its ledger entry is a row, too.
ENTRIES_AND_SOURCES = SharedQuery(
    """
    SELECT coalesce(entry.account_id, manual.account_id) AS account_id, entry.id AS entry_id, entry.type, entry.reference,
        entry.amount_nanos, entry.metadata, manual.entry_id AS manual_id, manual.amount_nanos AS manual_nanos,
        manual.reference AS manual_reference, manual.operator, payment.id AS payment_id,
        (entry.account_id, entry.type, entry.amount_nanos, entry.reference, entry.metadata, entry.issued_by_id)
            IS NOT DISTINCT FROM (manual.account_id, manual.type, manual.amount_nanos, manual.reference, manual.metadata,
            manual.issued_by_id) AS is_as_recorded,
        CASE CASE WHEN jsonb_typeof(entry.metadata) = 'object' THEN split_part(entry.reference, ':', 1) END
            WHEN 'pay' THEN entry.metadata
                = jsonb_build_object(coalesce(payment.processor, '') || 'PaymentId', payment.intent_id)
            WHEN 'refund' THEN entry.metadata - 'reason' = jsonb_build_object('entryId', payment.credit_id)
            WHEN 'unrefund' THEN entry.metadata - 'reason' = jsonb_build_object('entryId', payment.credit_id,
                coalesce(payment.processor, '') || 'PaymentId', payment.intent_id)
        END AS names_payment
    FROM (SELECT * FROM entry WHERE NOT (type = 'USAGE_DEBIT')) AS entry
    FULL JOIN (
        SELECT * FROM billing_manualentry WHERE %(account)s::uuid IS NULL OR account_id = %(account)s::uuid
    ) AS manual ON manual.entry_id = entry.id
    LEFT JOIN billing_payment AS payment ON payment.account_id = entry.account_id
        AND payment.intent_id = split_part(entry.reference, ':', 3) AND payment.processor = split_part(entry.reference, ':', 2)
        AND CASE
            WHEN entry.reference LIKE 'pay:%%' THEN payment.credit_id = entry.id
            WHEN entry.reference ~ '^(refund|unrefund):[^:]*:[^:]*:[1-9][0-9]{0,8}$'
                THEN split_part(entry.reference, ':', 4)::int <= payment.debits
        END
    """
)

ACCOUNTS_AND_OPEN_HOLDS = SharedQuery(
    """
    SELECT account.id AS account_id, held_nanos, coalesce(sum_nanos, 0) AS sum_nanos, open_holds, coalesce(holds, 0) AS holds
    FROM account LEFT JOIN (
        SELECT account_id, sum(amount_nanos) AS sum_nanos, count(*) AS holds FROM hold WHERE state = 'HELD' GROUP BY account_id
    ) AS sums ON sums.account_id = account.id
    """
)

USAGE_AND_HOLDS = SharedQuery(
    """
    SELECT coalesce(debit.account_id, hold.account_id) AS account_id, coalesce(debit.reference, hold.reference) AS reference,
        debit.id AS entry_id, debit.amount_nanos, hold.state, hold.settled_nanos,
        hold.state IS NULL AND debit.seq <= archived.last_seq AS is_archived
    FROM booked AS debit
    FULL JOIN hold ON hold.reference = debit.reference AND hold.account_id = debit.account_id
    LEFT JOIN archived ON archived.account_id = debit.account_id""",
    reach=Reach.DAYS,
)

_of_days = partial(Invariant, reach=Reach.DAYS)
INVARIANTS = [
    ENTRIES_IN_ORDER.invariant(
        "seq_has_no_gaps",
        "The entries of an account are numbered 1, 2, 3 ... without gaps.",
        shows="account_id, entry_id, seq, place",
        breaks="seq <> place",
    ),
    ENTRIES_IN_ORDER.invariant(
        "balances_chain",
        "The balance after an entry is the balance after the one before it, plus the entry's amount.",
        shows="account_id, entry_id, seq, balance_before_nanos, amount_nanos, balance_after_nanos",
        breaks="balance_after_nanos::numeric <> balance_before_nanos::numeric + amount_nanos",
    ),
    ENTRIES_IN_ORDER.invariant(
        "times_do_not_run_back",
        "No entry was booked before the one before it.",
        shows="account_id, entry_id, seq, created_before, created_at",
        breaks="created_at < created_before",
    ),
    _of_days(
        "hashes_chain",
        "The hash of an entry is that of its record and of the hash of the one before it.",
        f"SELECT account_id, id AS entry_id, seq FROM entry WHERE hash IS DISTINCT FROM {chain.HASH}",  # noqa: S608  the same
    ),
    Invariant(
        "signed_heads_stand",
        "The last entry of an account in the last signed root is there, with its hash.",
        """
        SELECT account.id AS account_id, head.root, head.seq, entry.id AS entry_id
        FROM account JOIN billing_ledgerleaf AS place ON place.account_id = account.id
        JOIN LATERAL (
            SELECT root, seq, hash FROM billing_ledgerhead WHERE leaf = place.number ORDER BY root DESC LIMIT 1
        ) AS head ON true
        LEFT JOIN billing_ledgerentry AS entry ON entry.account_id = account.id AND entry.seq = head.seq
        WHERE entry.hash IS DISTINCT FROM head.hash""",
    ),
    Invariant(
        "roots_follow_each_other",
        "Signed roots are numbered 1, 2, 3 ... without gaps, and each names the one before it.",
        f"""
        SELECT number, hour FROM (
            SELECT *, lag(statement) OVER roots AS before, row_number() OVER roots AS place FROM billing_ledgerroot
            WHERE {CELL} = {FIRST} AND %(account)s::uuid IS NULL WINDOW roots AS (ORDER BY number)
        ) AS root WHERE number <> place OR statement NOT LIKE concat('%%', chr(10), 'previous: ',
            coalesce(encode(sha256(convert_to(before, 'UTF8')), 'hex'), repeat('0', 64)), chr(10), '%%')""",  # noqa: S608  the same
    ),
    Invariant(
        "accounts_say_what_their_last_entry_says",
        "An account's balance and last seq are those of its last entry; without entries, both are zero.",
        """
        SELECT account.id AS account_id, balance_nanos, last_seq, last.balance_after_nanos, last.seq
        FROM account LEFT JOIN LATERAL (
            SELECT seq, balance_after_nanos FROM billing_ledgerentry WHERE account_id = account.id ORDER BY seq DESC LIMIT 1
        ) AS last ON true
        WHERE balance_nanos <> coalesce(last.balance_after_nanos, 0) OR last_seq <> coalesce(last.seq, 0)""",
    ),
    Invariant(
        "entries_sum_to_the_balance",
        "The amounts of an account's entries sum to its balance.",
        """
        SELECT account.id AS account_id, account.balance_nanos,
            coalesce(span.balance_nanos, 0) + coalesce(sum_nanos, 0) AS sum_nanos
        FROM account LEFT JOIN (SELECT account_id, sum(amount_nanos) AS sum_nanos FROM entry GROUP BY account_id) AS sums
            ON sums.account_id = account.id
        LEFT JOIN span ON span.account_id = account.id
        WHERE account.balance_nanos <> coalesce(span.balance_nanos, 0) + coalesce(sum_nanos, 0)""",
        reach=Reach.OPEN,
    ),
    _of_days(
        "credits_add_and_debits_take",
        "Credits are positive, refunds negative, usage is never positive, and there is no other type.",
        """
        SELECT account_id, id AS entry_id, type, amount_nanos FROM entry WHERE NOT (
            type IN ('CREDIT_PURCHASE', 'SUPPORT_CREDIT') AND amount_nanos > 0
            OR type = 'REFUND_DEBIT' AND amount_nanos < 0
            OR type = 'USAGE_DEBIT' AND amount_nanos <= 0
        )""",
    ),
    # Two accounts that book one reference violate it, each of them. The condition is the IN alone, which becomes a join: with
    # an OR each entry of the ledger would be compared with each of the days.
    _of_days(
        "a_reference_is_booked_once",
        "No two entries have the same reference.",
        """
        SELECT reference, count(*) AS entries FROM billing_ledgerentry
        WHERE reference IN (SELECT reference FROM entry) GROUP BY reference HAVING count(*) > 1""",
    ),
    # CASE, because AND does not keep an operand from being computed, and a cast of what is no number would end the audit.
    _of_days(
        "usage_says_what_was_used",
        "A usage entry names its model, its tokens, which are those of prompt and completion together, its exact cost, and"
        " nothing else.",
        f"""
        SELECT account_id, id AS entry_id, reference, amount_nanos, metadata FROM entry
        WHERE type = 'USAGE_DEBIT' AND NOT coalesce(
            jsonb_typeof(metadata -> 'model') = 'string' AND metadata ->> 'completionId' = reference
            AND metadata ->> 'costInDollars' = {dollars_sql("(-amount_nanos)")}
            AND CASE WHEN jsonb_typeof(metadata) = 'object' THEN metadata - '{{{_USAGE_MEMBERS}}}'::text[] = '{{}}' END
            AND CASE WHEN jsonb_typeof(metadata -> 'tokens') = 'number' AND jsonb_typeof(metadata -> 'promptTokens') = 'number'
                AND jsonb_typeof(metadata -> 'completionTokens') = 'number'
            THEN (metadata ->> 'tokens')::numeric
                = (metadata ->> 'promptTokens')::numeric + (metadata ->> 'completionTokens')::numeric END, false)
        """,  # noqa: S608  constants of this code
    ),
    Invariant(
        "signed_ledgers_stand",
        "The last entry of an account that the audit signed off is there, with the balance and the time that it had then.",
        """
        SELECT account.id AS account_id, day, last.last_seq, last.balance_nanos, entry.balance_after_nanos, last_at,
            entry.created_at
        FROM account JOIN LATERAL (
            SELECT * FROM billing_auditedledger WHERE account_id = account.id ORDER BY day DESC LIMIT 1
        ) AS last ON true
        LEFT JOIN billing_ledgerentry AS entry ON entry.account_id = account.id AND entry.seq = last.last_seq
        WHERE (entry.balance_after_nanos, entry.created_at) IS DISTINCT FROM (last.balance_nanos, last_at)""",
    ),
    _of_days(
        "signed_entries_are_as_signed",
        "The entries of a day that the audit signed off have the digest that they had then, and the usage that was added up.",
        f"""
        SELECT signed.account_id, day, last_seq, signed.digest, found.digest AS found, debited_nanos, found.nanos AS found_nanos
        FROM (
            SELECT ledger.account_id, ledger.day, ledger.last_seq, digest, coalesce(earlier.last_seq, 0) AS after_seq,
                ledger.debited_nanos - coalesce(earlier.debited_nanos, 0) AS debited_nanos
            FROM billing_auditedledger AS ledger
            LEFT JOIN cells_accountplace AS moved ON moved.account_id = ledger.account_id AND moved.cell <> {CELL}
            LEFT JOIN LATERAL (
                SELECT last_seq, debited_nanos FROM billing_auditedledger
                WHERE account_id = ledger.account_id AND day < ledger.day ORDER BY day DESC LIMIT 1
            ) AS earlier ON true
            WHERE ledger.day >= %(since)s AND ledger.day < %(until)s AND moved.account_id IS NULL
                AND (%(account)s::uuid IS NULL OR ledger.account_id = %(account)s::uuid)
        ) AS signed CROSS JOIN LATERAL (
            SELECT {signed_days.DIGEST} AS digest, sum(nanos) AS nanos FROM (
                SELECT {signed_days.PART} AS part, {signed_days.PART_DIGEST} AS part_digest,
                    coalesce(-sum(amount_nanos) FILTER (WHERE type = 'USAGE_DEBIT'), 0) AS nanos
                FROM billing_ledgerentry AS entry
                WHERE entry.account_id = signed.account_id AND seq > after_seq AND seq <= last_seq GROUP BY part
            ) AS parts
        ) AS found
        WHERE (signed.digest, debited_nanos) IS DISTINCT FROM (found.digest, found.nanos)
        """,  # noqa: S608  constants of this code
    ),
    _of_days(
        "signed_days_are_as_signed",
        "A day that the audit signed off has the digest of what it signed of each account, and of the day before.",
        f"""
        SELECT day, digest, found FROM (
            SELECT day, digest, {signed_days.SEAL} AS found FROM billing_auditedday AS new
            WHERE day >= %(since)s AND day < %(until)s
        ) AS sealed WHERE digest <> found AND %(account)s::uuid IS NULL""",  # noqa: S608  constants of this code
    ),
    # A day that someone only says is archived would keep the audit from asking for its completions, and all before it.
    Invariant(
        "what_is_archived_was_signed",
        "A day is archived after the audit signed it off, and sums are dropped of days that are over.",
        """
        SELECT what, day FROM (
            SELECT 'archive' AS what, day FROM billing_archivedday WHERE written_at IS NOT NULL AND restored_at IS NULL
                AND NOT EXISTS (SELECT FROM billing_auditedday AS signed WHERE signed.day = billing_archivedday.day)
            UNION ALL
            SELECT what, since FROM billing_retentionmark WHERE since > (statement_timestamp() AT TIME ZONE 'UTC')::date + 2
        ) AS kept WHERE %(account)s::uuid IS NULL""",
    ),
    Invariant(
        "refunds_fit_their_credit",
        "What refunds and corrections take back of an entry, less what came back, is of an earlier credit and not more.",
        """
        SELECT refund.account_id, refund.credit_id, refund.returned_nanos, credit.amount_nanos
        FROM (
            SELECT account_id, metadata ->> 'entryId' AS credit_id, -sum(amount_nanos) AS returned_nanos, min(seq) AS first_seq
            FROM entry WHERE type <> 'USAGE_DEBIT' AND metadata ->> 'entryId' IS NOT NULL
            GROUP BY account_id, metadata ->> 'entryId'
        ) AS refund LEFT JOIN (SELECT * FROM entry WHERE type IN ('CREDIT_PURCHASE', 'SUPPORT_CREDIT')) AS credit
            ON credit.id::text = refund.credit_id AND credit.account_id = refund.account_id AND credit.seq < refund.first_seq
        WHERE credit.id IS NULL OR returned_nanos NOT BETWEEN 0 AND credit.amount_nanos""",
    ),
    Invariant(
        "corrections_name_their_credit",
        "The reference of a correction, by which a credit is corrected once, has the id of that credit.",
        """
        SELECT account_id, id AS entry_id, reference FROM entry
        WHERE type = 'REFUND_DEBIT' AND reference LIKE 'correction:%%'
            AND 'correction:' || (metadata ->> 'entryId') IS DISTINCT FROM reference""",
    ),
    ENTRIES_AND_SOURCES.invariant(
        "entries_have_a_source",
        "An entry beside usage is of a payment, which it names, or there is a record of who booked it.",
        shows="account_id, entry_id, type, reference, amount_nanos, metadata, payment_id",
        breaks="entry_id IS NOT NULL AND manual_id IS NULL AND names_payment IS NOT TRUE",
    ),
    ENTRIES_AND_SOURCES.invariant(
        "manual_entries_are_booked_as_recorded",
        "An entry that was booked by hand or by a command is still what it was then.",
        shows="account_id, entry_id, manual_id, reference, manual_reference, amount_nanos, manual_nanos, operator",
        breaks="manual_id IS NOT NULL AND NOT is_as_recorded",
    ),
    Invariant(
        "approved_credits_are_booked",
        "A credit or transfer that a second person approved is booked with the amount, terms and requester that were approved.",
        """
        SELECT request.account_id, request.id AS request_id, request.amount_cents, entry.id AS entry_id, entry.amount_nanos
        FROM billing_creditrequest AS request
        JOIN account ON account.id = request.account_id
        LEFT JOIN billing_ledgerentry AS entry ON entry.id = request.entry_id
        WHERE (request.decision = 'APPROVED') <> (request.entry_id IS NOT NULL)
            OR request.decision = 'APPROVED' AND (
                request.decided_by_id IS NULL OR request.decided_by_id = request.requested_by_id
                OR (entry.account_id, entry.type, entry.amount_nanos, entry.issued_by_id)
                    IS DISTINCT FROM
                    (request.account_id, request.kind, request.amount_cents * 10000000, request.requested_by_id)
                OR (entry.reference, entry.metadata) IS DISTINCT FROM (
                    CASE request.kind
                        WHEN 'SUPPORT_CREDIT' THEN 'support:' || request.reference ELSE 'pay:bank:' || request.payment_id END,
                    CASE request.kind
                        WHEN 'SUPPORT_CREDIT' THEN jsonb_build_object('reason', request.reason)
                        ELSE jsonb_build_object('bankPaymentId', request.payment_id) END
                )
            )""",
    ),
    Invariant(
        "members_are_those_who_joined",
        "The members of an account and their roles are those of the last recorded change of each.",
        """
        SELECT account_id, user_id, last.role AS recorded_role, member.role
        FROM (
            SELECT DISTINCT ON (account_id, user_id) account_id, user_id, role FROM billing_membershipchange
            WHERE %(account)s::uuid IS NULL OR account_id = %(account)s::uuid
            ORDER BY account_id, user_id, changed_at DESC, id DESC
        ) AS last
        FULL JOIN (
            SELECT * FROM billing_membership WHERE %(account)s::uuid IS NULL OR account_id = %(account)s::uuid
        ) AS member USING (account_id, user_id)
        WHERE coalesce(last.role, '') <> coalesce(member.role, '')""",
    ),
    # A clock may have been set back by less than a minute.
    Invariant(
        "accounts_come_first",
        "Members, payments and entries that were booked by hand are of an account that is there, and not older than it.",
        """
        SELECT account_id, what, dated.created_at, account.created_at AS account_created_at FROM (
            SELECT account_id, 'member' AS what, created_at FROM billing_membership
            UNION ALL SELECT account_id, 'payment', created_at FROM billing_payment
            UNION ALL SELECT account_id, 'entry', created_at FROM billing_manualentry
        ) AS dated LEFT JOIN billing_account AS account ON account.id = account_id
        WHERE (%(account)s::uuid IS NULL OR account_id = %(account)s::uuid)
            AND (account.id IS NULL OR dated.created_at < account.created_at - interval '1 minute')""",
    ),
    Invariant(
        "accounts_are_where_the_directory_says",
        "Where there are several cells, this one has the accounts that the directory says, and no others.",
        f"""
        SELECT coalesce(account.id, place.account_id) AS account_id, {CELL} AS cell, account.id IS NOT NULL AS is_here,
            place.cell AS said
        FROM account FULL JOIN (
            SELECT * FROM cells_accountplace WHERE (%(account)s::uuid IS NULL OR account_id = %(account)s::uuid)
                AND (cell = {CELL} OR account_id IN (SELECT id FROM billing_account))
        ) AS place ON place.account_id = account.id
        WHERE EXISTS (SELECT 1 FROM cells_cell) AND (account.id IS NULL OR place.cell IS DISTINCT FROM {CELL})
        """,  # noqa: S608  constants of this code
    ),
    Invariant(
        "users_lead_to_their_accounts",
        "A member is a user, whom the directory leads to this cell. To the first one it leads everybody.",
        f"""
        SELECT member.account_id, member.user_id, {CELL} AS cell
        FROM billing_membership AS member LEFT JOIN billing_user ON billing_user.id = member.user_id
        LEFT JOIN cells_userplace AS place ON place.user_id = member.user_id AND place.cell = {CELL}
        WHERE (billing_user.id IS NULL OR place.user_id IS NULL AND {CELL} <> {FIRST})
            AND (%(account)s::uuid IS NULL OR member.account_id = %(account)s::uuid)""",  # noqa: S608  constants of this code
    ),
    Invariant(
        "references_lead_to_their_accounts",
        "Where there are several cells, the directory has the account of each key, payment and invitation.",
        f"""
        SELECT kind, value, referred.account_id, reference.account_id AS said
        FROM ({references_sql()}) AS referred LEFT JOIN cells_reference AS reference USING (kind, value)
        WHERE EXISTS (SELECT 1 FROM cells_cell) AND reference.account_id IS DISTINCT FROM referred.account_id
            AND (%(account)s::uuid IS NULL OR referred.account_id = %(account)s::uuid)""",  # noqa: S608  constants of this code
    ),
    Invariant(
        "the_last_signed_day_is_there",
        "The day of this cell that was signed off last is there, as it was: the cell is not an older one.",
        f"""
        SELECT signed.cell, signed.day, signed.digest, audited.digest AS found
        FROM cells_signedday AS signed LEFT JOIN billing_auditedday AS audited USING (day)
        WHERE signed.cell = {CELL} AND audited.digest IS DISTINCT FROM signed.digest AND %(account)s::uuid IS NULL
        """,  # noqa: S608  constants of this code
    ),
    ACCOUNTS_AND_OPEN_HOLDS.invariant(
        "open_holds_sum_to_what_is_held",
        "What an account holds is the sum of its open holds.",
        shows="account_id, held_nanos, sum_nanos",
        breaks="held_nanos <> sum_nanos",
    ),
    ACCOUNTS_AND_OPEN_HOLDS.invariant(
        "accounts_count_their_open_holds",
        "The number of open holds that an account says is the number that it has.",
        shows="account_id, open_holds, holds",
        breaks="open_holds <> holds",
    ),
    _of_days(
        "no_more_is_settled_than_was_held",
        "Holds and what is settled of them are not negative, and no more is settled than was held.",
        """
        SELECT account_id, reference, amount_nanos, settled_nanos FROM hold
        WHERE amount_nanos < 0 OR settled_nanos < 0 OR settled_nanos > amount_nanos""",
    ),
    _of_days(
        "holds_are_in_one_state",
        "A hold is open, or was resolved at some time: then only a settled one says what it cost.",
        """
        SELECT account_id, reference, state, settled_nanos, resolved_at FROM hold
        WHERE state NOT IN ('HELD', 'SETTLED', 'RELEASED', 'EXPIRED')
            OR (state = 'HELD') <> (resolved_at IS NULL)
            OR (state = 'SETTLED') <> (settled_nanos IS NOT NULL)""",
    ),
    USAGE_AND_HOLDS.invariant(
        "settled_holds_are_debited",
        "A settled hold has one USAGE_DEBIT under its reference, of exactly what was settled.",
        shows="account_id, reference, settled_nanos, amount_nanos",
        breaks="state = 'SETTLED' AND amount_nanos IS DISTINCT FROM -settled_nanos",
    ),
    USAGE_AND_HOLDS.invariant(
        "debits_were_held",
        "A USAGE_DEBIT has a settled hold under its reference, until that is archived: usage is never charged without having"
        " been admitted.",
        shows="account_id, entry_id, reference, amount_nanos, state",
        breaks="entry_id IS NOT NULL AND state IS DISTINCT FROM 'SETTLED' AND is_archived IS NOT TRUE",
    ),
    # An admitted request fits the balance and costs at most its hold: only a refund after the admission can be the cause.
    _of_days(
        "only_a_refund_overdraws",
        "Usage leaves no balance below zero, and open holds none below what they hold, unless a refund followed their"
        " admission.",
        """
        SELECT entry.account_id, entry.reference, balance_after_nanos AS balance_nanos, 0 AS held_nanos
        FROM entry LEFT JOIN hold ON hold.reference = entry.reference AND hold.account_id = entry.account_id
        LEFT JOIN archived ON archived.account_id = entry.account_id
        WHERE type = 'USAGE_DEBIT' AND entry.amount_nanos < 0 AND balance_after_nanos < 0
        AND (hold.state IS NULL AND seq <= archived.last_seq) IS NOT TRUE AND NOT EXISTS (
            SELECT FROM billing_ledgerentry AS refund
            WHERE refund.account_id = entry.account_id AND refund.type = 'REFUND_DEBIT' AND refund.seq < entry.seq
                AND refund.created_at >= hold.created_at
        )
        UNION ALL
        SELECT account.id, newest.reference, balance_nanos, held_nanos
        FROM account JOIN LATERAL (
            SELECT reference, created_at FROM billing_hold WHERE account_id = account.id AND state = 'HELD' AND amount_nanos > 0
            ORDER BY created_at DESC LIMIT 1
        ) AS newest ON true
        WHERE balance_nanos < held_nanos AND NOT EXISTS (
            SELECT FROM billing_ledgerentry AS refund
            WHERE refund.account_id = account.id AND refund.type = 'REFUND_DEBIT' AND refund.created_at >= newest.created_at
        )""",
    ),
    # An amount that staff took back by hand is not taken back once more when the processor reports it (``payments.booking``).
    Invariant(
        "payments_are_booked_as_paid",
        "A paid payment has one CREDIT_PURCHASE of its amount and time. Its refunds and disputes sum to what was taken back of"
        " it, which is what was reported, less what staff took back. Of another one nothing is booked.",
        """
        SELECT payment.account_id, payment.id, status, payment.amount_cents, credit.amount_nanos, refunded_cents,
            disputed_cents, debited_cents, back.nanos, by_hand.cents AS by_hand_cents, paid_at, credit.created_at
        FROM billing_payment AS payment
        JOIN account ON account.id = payment.account_id
        LEFT JOIN billing_ledgerentry AS credit ON credit.id = payment.credit_id
        LEFT JOIN LATERAL (
            SELECT coalesce(sum(entry.amount_nanos), 0) AS nanos
            FROM generate_series(1, payment.debits) AS number, unnest(ARRAY['refund', 'unrefund']) AS kind
            JOIN LATERAL (
                SELECT amount_nanos FROM billing_ledgerentry
                WHERE reference = kind || ':' || payment.processor || ':' || payment.intent_id || ':' || number
                    AND account_id = payment.account_id
            ) AS entry ON true
        ) AS back ON true
        LEFT JOIN LATERAL (
            SELECT ceil(coalesce(-sum(amount_nanos), 0) / 10000000) AS cents FROM billing_ledgerentry AS entry
            WHERE entry.account_id = payment.account_id AND type = 'REFUND_DEBIT' AND issued_by_id IS NOT NULL
                AND entry.metadata ->> 'entryId' = payment.credit_id::text
        ) AS by_hand ON true
        CROSS JOIN LATERAL (
            SELECT least(refunded_cents + disputed_cents, payment.amount_cents) AS cents
        ) AS reported
        WHERE (status = 'PAID' OR payment.credit_id IS NOT NULL OR (refunded_cents, disputed_cents, debited_cents) <> (0, 0, 0))
        AND ((payment.status, currency) = ('PAID', 'usd') AND credit.account_id = payment.account_id
            AND credit.type = 'CREDIT_PURCHASE' AND credit.amount_nanos = payment.amount_cents * 10000000
            AND credit.reference = 'pay:' || payment.processor || ':' || payment.intent_id
            AND paid_at = credit.created_at AND paid_at >= payment.created_at - interval '1 minute'
            AND least(refunded_cents, disputed_cents) >= 0 AND back.nanos = -payment.debited_cents * 10000000
            AND debited_cents BETWEEN reported.cents - by_hand.cents AND reported.cents
        ) IS NOT TRUE""",
    ),
    Invariant(
        "payments_have_their_events",
        "The events of a payment have the digest that they had when the last one came.",
        """
        SELECT payment.account_id, payment.id, events, events_digest, found.digest FROM billing_payment AS payment
        JOIN account ON account.id = payment.account_id
        LEFT JOIN (
            SELECT payment_id, count(*) AS events, encode(sha256(convert_to(string_agg(
                ROW(event_id, processor, type, outcome, note, extract(epoch FROM received_at))::text,
                ',' ORDER BY event_id, processor COLLATE "C"
            ), 'UTF8')), 'hex') AS digest
            FROM billing_paymentevent WHERE payment_id IS NOT NULL GROUP BY payment_id
        ) AS found ON found.payment_id = payment.id
        WHERE events_digest IS DISTINCT FROM found.digest""",
    ),
    Invariant(
        "receipts_are_numbered",
        "The receipts of an account are numbered 1, 2, 3 ... without gaps, in the order in which its payments were credited.",
        """
        SELECT * FROM (
            SELECT payment.account_id, payment.id AS payment_id, receipt_number,
                CASE WHEN credit.seq IS NOT NULL
                    THEN row_number() OVER (PARTITION BY payment.account_id ORDER BY credit.seq) END AS number
            FROM billing_payment AS payment JOIN account ON account.id = payment.account_id
            LEFT JOIN billing_ledgerentry AS credit ON credit.id = payment.credit_id
            WHERE status = 'PAID' OR receipt_number IS NOT NULL
        ) AS numbered WHERE receipt_number IS DISTINCT FROM number""",
    ),
    # Expired holds are released every minute; if one is still open after a quarter of an hour, the sweeper does not work.
    Invariant(
        "holds_do_not_outlive_their_expiry",
        "No hold is still open a quarter of an hour after it expired.",
        """
        SELECT account_id, reference, amount_nanos, expires_at FROM hold
        WHERE state = 'HELD' AND expires_at < statement_timestamp() - interval '15 minutes'""",
        kind=ViolationKind.OVERDUE,
    ),
    guarding(
        "triggers_stand_guard",
        "The triggers that protect the ledger exist, call the right functions, and are enabled.",
        """
            ('billing_ledgerentry', 'entries_are_never_changed', 'billing_refuse_change'),
            ('billing_ledgerentry', 'entries_are_never_truncated', 'billing_refuse_change'),
            ('billing_ledgerentry', 'entries_follow_each_other', 'billing_check_chain'),
            ('billing_ledgerentry', 'entries_agree_with_their_account', 'billing_check_balance'),
            ('billing_ledgerentry', 'refunds_fit_their_credit', 'billing_check_refund'),
            ('billing_ledgerroot', 'roots_are_never_changed', 'billing_refuse_change'),
            ('billing_ledgerleaf', 'leaves_are_never_changed', 'billing_refuse_change'),
            ('billing_ledgerhead', 'heads_are_never_changed', 'billing_refuse_change'),
            ('billing_manualentry', 'manual_entries_are_never_changed', 'billing_refuse_change'),
            ('billing_account', 'accounts_agree_with_their_book', 'billing_check_balance'),
            ('billing_hold', 'holds_resolve_once', 'billing_check_hold'),
            ('billing_creditrequest', 'credit_requests_are_decided_once', 'billing_check_credit_request'),
            ('billing_ownerrequest', 'owner_requests_are_decided_once', 'billing_check_owner_request'),
            ('billing_secondfactorrequest', 'removals_are_decided_once', 'billing_check_second_factor_request'),
            ('billing_payment', 'a_payment_keeps_its_amount', 'billing_keep_payment'),
            ('billing_paymentevent', 'payment_events_are_never_changed', 'billing_refuse_event_change'),
            ('billing_invoicefile', 'invoices_stay_as_issued', 'billing_refuse_change'),
            ('billing_paymentevent', 'payment_events_are_summed_up', 'billing_sum_up_events'),
            ('billing_membership', 'memberships_are_recorded', 'billing_record_membership'),
            ('billing_membershipchange', 'membership_changes_are_never_changed', 'billing_refuse_membership_change')""",
    ),
    # All constraints of the ledger's tables except NOT NULL. PostgreSQL 18 has a column for NOT ENFORCED; read as JSON, it
    # works with older versions, too. Internal triggers of PostgreSQL enforce a foreign key, and DISABLE TRIGGER ALL disables
    # them together with ours. Where Citus is installed, only the first cell has foreign keys to users.
    Invariant(
        "constraints_stand_guard",
        "The constraints that protect the ledger exist, are enforced, and have been validated.",
        """
        SELECT * FROM (
            SELECT expected.*, CASE
                WHEN pg_constraint.oid IS NULL THEN 'missing'
                WHEN to_jsonb(pg_constraint) ->> 'conenforced' = 'false' THEN 'not enforced'
                WHEN NOT convalidated THEN 'not validated'
                WHEN EXISTS (SELECT 1 FROM pg_trigger WHERE tgconstraint = pg_constraint.oid AND tgenabled NOT IN ('O', 'A'))
                    THEN 'disabled'
            END AS state
            FROM (
                SELECT table_name, unnest(names::text[]) AS constraint_name FROM (VALUES
                    ('billing_account', '{billing_account_pkey, held_money_is_never_negative, a_book_begins_at_zero,
                        an_accounts_rate_is_at_least_one_a_minute, an_accounts_open_holds_are_never_negative,
                        an_account_may_run_at_least_one_request, a_warning_threshold_is_a_positive_amount,
                        billing_account_requests_in_flight_max_check, billing_account_requests_per_minute_check,
                        billing_account_tokens_per_minute_check, billing_account_key_lifetime_days_max_check}'),
                    ('billing_ledgerentry', '{billing_ledgerentry_pkey, billing_ledgerentry_reference_key,
                        billing_ledgerentry_account_id_ac8d6a24_fk_billing_account_id,
                        billing_ledgerentry_issued_by_id_5c71d352_fk_billing_user_id, a_place_in_the_book_is_taken_once,
                        seq_counts_from_one, credits_add_and_debits_take, only_usage_has_a_spender}'),
                    ('billing_hold', '{billing_hold_pkey, billing_hold_account_id_56c002f9_fk_billing_account_id,
                        a_hold_is_never_negative, no_more_is_settled_than_was_held, only_a_settled_hold_says_what_it_cost,
                        a_hold_is_open_until_it_is_resolved}')
                ) AS guarded (table_name, names)
            ) AS expected
            LEFT JOIN pg_constraint ON conrelid = to_regclass(table_name) AND conname = constraint_name
        ) AS guard WHERE state IS NOT NULL AND NOT (
            state = 'missing' AND constraint_name LIKE '%%_fk_billing_user_id' AND %(cell)s::integer <> 1
            AND EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'citus')
        )""",
        kind=ViolationKind.UNGUARDED,
    ),
]
