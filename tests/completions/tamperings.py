"""Each way to forge the ledger, and the words of the audit that finds it."""

DOLLAR = 1_000_000_000
# What a forger writes to keep the chain: ``%(n)s`` more on each balance from this entry on, and on the account's.
RECHAIN = """
UPDATE billing_ledgerentry SET balance_after_nanos = balance_after_nanos + {n} WHERE account_id = {alice} AND seq >= {seq};
UPDATE billing_account SET balance_nanos = balance_nanos + {n} WHERE id = {alice}
"""
APPEND = """
INSERT INTO billing_ledgerentry (id, account_id, seq, type, amount_nanos, balance_after_nanos, reference, metadata, spender)
SELECT gen_random_uuid(), id, last_seq + 1, '{type}', {n}, balance_nanos + {n}, '{reference}', '{metadata}', {spender}
FROM billing_account WHERE id = {alice};
UPDATE billing_account SET balance_nanos = balance_nanos + {n}, last_seq = last_seq + 1 WHERE id = {alice}
"""
FIRST_USAGE = "(SELECT id FROM billing_ledgerentry WHERE account_id = {alice} AND type = 'USAGE_DEBIT' ORDER BY seq LIMIT 1)"
SETTLED = "(SELECT min(id) FROM completions_completion WHERE account_id = {alice} AND settlement = 'reported')"
OF_THE_SETTLED = "WHERE id = " + SETTLED


def append(type: str, n: int, reference: str, metadata: str = "{{}}", spender: str = "NULL") -> str:
    values = {"type": type, "n": n, "reference": reference, "metadata": metadata, "spender": spender}
    return APPEND.replace("{alice}", "{{alice}}").format(**values)


def change_credit(kind: str, n: int = DOLLAR) -> str:
    """Change the account's first entry with this beginning of its reference, and the chain after it."""
    seq = f"(SELECT min(seq) FROM billing_ledgerentry WHERE account_id = {{alice}} AND reference LIKE '{kind}%')"
    amount = f"UPDATE billing_ledgerentry SET amount_nanos = amount_nanos + {n} WHERE account_id = {{alice}} AND seq = {seq}"
    return amount + ";" + RECHAIN.replace("{n}", str(n)).replace("{seq}", seq)


def say(changes: str) -> str:
    """Change the metadata of the first usage entry."""
    return f"UPDATE billing_ledgerentry SET metadata = metadata || '{changes}' WHERE id = {FIRST_USAGE}"


def settled(columns: str) -> str:
    return f"UPDATE completions_completion SET {columns} {OF_THE_SETTLED}"


def payment(columns: str) -> str:
    """Change the payment that was refunded in part."""
    return f"UPDATE billing_payment SET {columns} WHERE intent_id = '{{intent}}'"


def unpaid(columns: str) -> str:
    return f"UPDATE billing_payment SET {columns} WHERE status = 'OPEN'"


def more(reference: str) -> str:
    """Put a member more into the metadata of the account's entries with this beginning of their reference."""
    changed = """metadata = metadata || '{{"note": "x"}}'"""
    return f"UPDATE billing_ledgerentry SET {changed} WHERE account_id = {{alice}} AND reference LIKE '{reference}%'"


def price(price_id: str, meter: str, nanos: int, table: str = "completions_price", above: int = 0) -> str:
    """Change a rate of the standard tier."""
    place = f"""'{{{{"tier": "", "above": {above}, "meter": "{meter}"}}}}'::jsonb"""
    others = f"SELECT value FROM jsonb_array_elements(rates) WHERE NOT value @> {place}"
    others += f""" UNION ALL SELECT {place} || '{{{{"nanos": {nanos}}}}}'"""
    return f"UPDATE {table} SET rates = (SELECT jsonb_agg(value) FROM ({others}) AS rate) WHERE id = {price_id}"


def bands(added: str) -> str:
    """Add to what a day of a provider says of long prompts."""
    return f"UPDATE completions_providerday SET bands = bands || {added}"


def hold(columns: str) -> str:
    return f"UPDATE billing_hold SET {columns} WHERE reference = {SETTLED}"


def failed(columns: str) -> str:
    return f"UPDATE completions_completion SET {columns} WHERE failed_attempts IS NOT NULL"


# The invariants, in short.
SOURCE, RECORDED = "entries_have_a_source", "manual_entries_are_booked_as_recorded"
PAID, APPROVED, MEMBERS = "payments_are_booked_as_paid", "approved_credits_are_booked", "members_are_those_who_joined"
SAYS, BOOKED, COST = "usage_says_what_was_used", "completions_are_booked_as_used", "completions_cost_their_tokens"
ENDS, PRICED, OWN = (
    "completions_end_as_their_holds_do",
    "prices_are_those_of_their_model_and_time",
    "completions_are_their_accounts",
)
DAYS, SUMS, PROVIDED, LONG = (
    "days_are_the_sum_of_their_completions",
    "usage_sums_to_the_ledger",
    "provider_days_sum_to_the_ledger",
    "provider_days_know_their_long_prompts",
)
PLACED, ASKED, EVENTS, RECEIPTS = (
    "holds_are_as_placed",
    "providers_were_asked",
    "payments_have_their_events",
    "receipts_are_numbered",
)
FIRST, USERS, REPLIES, APPROVED_PRICE = (
    "accounts_come_first",
    "users_lead_to_their_accounts",
    "replies_are_of_their_accounts",
    "approved_prices_are_set",
)
LAST, CHAIN, SUM = "accounts_say_what_their_last_entry_says", "balances_chain", "entries_sum_to_the_balance"
HELD, FORGED_HOLD = "settled_holds_are_debited", "holds_are_of_completions"
FORGED_SAYS = (
    '{{"model": "demo/echo", "tokens": 2, "promptTokens": 1, "completionTokens": 1, "completionId": "forged",'
    ' "costInDollars": "0.000000007", "settlement": "reported"}}'
)
FORGED_USAGE = (
    append("USAGE_DEBIT", -7, "forged", FORGED_SAYS)
    + """;
INSERT INTO billing_hold (reference, account_id, amount_nanos, state, settled_nanos, created_at, expires_at, resolved_at)
VALUES ('forged', {alice}, 7, 'SETTLED', 7, now(), now(), now())"""
)
TAMPERINGS: dict[str, tuple[str, set[str]]] = {
    # --- Balances and the chain
    "a balance is raised": ("UPDATE billing_account SET balance_nanos = balance_nanos + 1 WHERE id = {alice}", {LAST, SUM}),
    "a balance in the middle is changed": (
        "UPDATE billing_ledgerentry SET balance_after_nanos = balance_after_nanos + 1 WHERE account_id = {alice} AND seq = 2",
        {CHAIN},
    ),
    "an amount is changed alone": (
        "UPDATE billing_ledgerentry SET amount_nanos = amount_nanos + 1 WHERE account_id = {alice} AND seq = 1",
        {CHAIN, SUM, RECORDED},
    ),
    "the last seq is changed": ("UPDATE billing_account SET last_seq = last_seq + 1 WHERE id = {alice}", {LAST}),
    "an entry is deleted": (
        f"DELETE FROM billing_ledgerentry WHERE id = {FIRST_USAGE}",
        {"seq_has_no_gaps", CHAIN, SUM, HELD, SUMS, "keys_spend_within_their_account", PROVIDED},
    ),
    "an entry is backdated": (
        f"UPDATE billing_ledgerentry SET created_at = '2026-01-01' WHERE id = {FIRST_USAGE}",
        {"times_do_not_run_back", SUMS, PROVIDED},
    ),
    "two entries change places": (
        "UPDATE billing_ledgerentry SET seq = seq + 1000 WHERE account_id = {alice} AND seq IN (1, 3);"
        "UPDATE billing_ledgerentry SET seq = 1004 - seq WHERE account_id = {alice} AND seq IN (1001, 1003)",
        {CHAIN, "times_do_not_run_back"},
    ),
    # --- Credits, with the chain recomputed
    "a grant is raised by a dollar": (change_credit("support:by command"), {RECORDED}),
    "a grant of staff is raised by a dollar": (change_credit("support:by staff"), {RECORDED}),
    "an approved credit is raised by a dollar": (change_credit("support:approved"), {RECORDED, APPROVED}),
    "a payment's credit is raised by a dollar": (change_credit("pay:stripe"), {PAID}),
    "a bank transfer is raised by a dollar": (change_credit("pay:bank"), {RECORDED}),
    "a correction is made smaller": (change_credit("correction", 1), {RECORDED}),
    "a refund of a payment is made smaller": (change_credit("refund:stripe", 1), {PAID}),
    "a support credit is invented": (append("SUPPORT_CREDIT", DOLLAR, "support:forged", '{{"reason": "x"}}'), {SOURCE}),
    "a purchase is invented": (append("CREDIT_PURCHASE", DOLLAR, "pay:stripe:pi_forged"), {SOURCE}),
    "a bank transfer is invented": (append("CREDIT_PURCHASE", DOLLAR, "pay:bank:forged"), {SOURCE}),
    "a returned refund is invented": (append("CREDIT_PURCHASE", DOLLAR, "unrefund:stripe:pi_forged:1"), {SOURCE}),
    "a refund is invented": (append("REFUND_DEBIT", -DOLLAR, "refund:forged"), {SOURCE}),
    "a refund of a payment is invented": (
        append("REFUND_DEBIT", -DOLLAR, "refund:stripe:")
        + ";UPDATE billing_ledgerentry SET reference = reference || '{intent}:2'"
        " WHERE reference = 'refund:stripe:'",
        {SOURCE},
    ),
    "a credit is given to another account": (
        "UPDATE billing_manualentry SET account_id = {bob} WHERE reference = 'support:by command'",
        {RECORDED},
    ),
    "a credit gets another reference": (
        "UPDATE billing_ledgerentry SET reference = 'support:x' WHERE reference = 'support:by command'",
        {RECORDED},
    ),
    "a credit gets another reason": (
        """UPDATE billing_ledgerentry SET metadata = '{{"reason": "x"}}' WHERE reference = 'support:by command'""",
        {RECORDED},
    ),
    "a credit gets another issuer": (
        "UPDATE billing_ledgerentry SET issued_by_id = NULL WHERE reference = 'support:by staff'",
        {RECORDED},
    ),
    "a credit becomes a purchase": (
        "UPDATE billing_ledgerentry SET type = 'CREDIT_PURCHASE' WHERE reference = 'support:by command'",
        {RECORDED},
    ),
    "a record of a grant is deleted": ("DELETE FROM billing_manualentry WHERE reference = 'support:by command'", {SOURCE}),
    "a record of a grant is changed": (
        "UPDATE billing_manualentry SET amount_nanos = 1 WHERE reference = 'support:by command'",
        {RECORDED},
    ),
    "a purchase names another payment": (
        """UPDATE billing_ledgerentry SET metadata = '{{"stripePaymentId": "x"}}' WHERE reference LIKE 'pay:stripe:%'""",
        {SOURCE},
    ),
    "a refund names another credit": (
        "UPDATE billing_ledgerentry SET metadata = metadata || jsonb_build_object('entryId', {first})"
        " WHERE reference LIKE 'refund:stripe:%'",
        {SOURCE},
    ),
    "an approval is of another amount": ("UPDATE billing_creditrequest SET amount_cents = amount_cents + 1", {APPROVED}),
    "an approval is by who asked": (
        "ALTER TABLE billing_creditrequest DROP CONSTRAINT nobody_approves_what_they_asked_for;"
        "UPDATE billing_creditrequest SET decided_by_id = requested_by_id",
        {APPROVED},
    ),
    "a payment's amount is changed": ("UPDATE billing_payment SET amount_cents = amount_cents + 1", {PAID}),
    "a payment forgets its refund": ("UPDATE billing_payment SET debits = 0, debited_cents = 0", {SOURCE, PAID}),
    # --- Payments against what they book, against each other, and against their events
    "a payment is reported as refunded": (payment("refunded_cents = refunded_cents + 1"), {PAID}),
    "a payment is reported as less refunded": (payment("refunded_cents = refunded_cents - 1"), {PAID}),
    "a payment is reported as disputed": (payment("disputed_cents = 1"), {PAID}),
    "a refund is cancelled by a negative dispute": (
        "ALTER TABLE billing_payment DROP CONSTRAINT a_refund_or_dispute_is_never_negative;"
        + payment("refunded_cents = refunded_cents + 1, disputed_cents = -1"),
        {PAID},
    ),
    "a payment is booked as less taken back": (payment("debited_cents = debited_cents - 1"), {PAID}),
    "a payment is booked and reported as less taken back": (
        payment("debited_cents = debited_cents - 1, refunded_cents = refunded_cents - 1"),
        {PAID},
    ),
    "what is not paid was refunded": (unpaid("refunded_cents = 1"), {PAID}),
    "what is not paid was disputed": (unpaid("disputed_cents = 1"), {PAID}),
    "a paid payment fails": (
        "ALTER TABLE billing_payment DROP CONSTRAINT a_payment_is_paid_when_it_is_credited;"
        "ALTER TABLE billing_payment DROP CONSTRAINT only_what_was_paid_is_taken_back;" + payment("status = 'FAILED'"),
        {PAID},
    ),
    "a payment is of another currency": (payment("currency = 'eur'"), {PAID}),
    "a payment was paid at another time": (payment("paid_at = paid_at - interval '1 second'"), {PAID}),
    "a payment was begun after it was paid": (payment("created_at = paid_at + interval '1 day'"), {PAID}),
    "a payment is older than its account": (payment("created_at = '2026-01-01'"), {FIRST}),
    "an account is newer than what it has": (
        "UPDATE billing_account SET created_at = now() + interval '1 day' WHERE id = {alice}",
        {FIRST},
    ),
    "an account is gone": ("DELETE FROM billing_account WHERE id = {bob}", {FIRST}),
    "a receipt has another number": (payment("receipt_number = 7"), {RECEIPTS}),
    "a receipt has no number": (
        "ALTER TABLE billing_payment DROP CONSTRAINT a_payment_is_paid_when_it_is_credited;" + payment("receipt_number = NULL"),
        {RECEIPTS},
    ),
    "all receipts have the next number": (
        "UPDATE billing_payment SET receipt_number = receipt_number + 10 WHERE status = 'PAID';"
        "UPDATE billing_payment SET receipt_number = receipt_number - 9 WHERE status = 'PAID'",
        {RECEIPTS},
    ),
    "two receipts change numbers": (
        "UPDATE billing_payment SET receipt_number = receipt_number + 10 WHERE status = 'PAID';"
        "UPDATE billing_payment SET receipt_number = 13 - receipt_number WHERE status = 'PAID'",
        {RECEIPTS},
    ),
    "what is not paid has a receipt": (
        "ALTER TABLE billing_payment DROP CONSTRAINT a_payment_is_paid_when_it_is_credited;" + unpaid("receipt_number = 3"),
        {RECEIPTS},
    ),
    "all events are deleted": ("DELETE FROM billing_paymentevent", {EVENTS}),
    "an event is deleted": ("DELETE FROM billing_paymentevent WHERE note LIKE 'refunded%'", {EVENTS}),
    "an event had another outcome": ("UPDATE billing_paymentevent SET outcome = 'REFUSED'", {EVENTS}),
    "an event has another note": (
        "UPDATE billing_paymentevent SET note = replace(note, '500', '400') WHERE note LIKE 'refunded%'",
        {EVENTS},
    ),
    "an event has another id": ("UPDATE billing_paymentevent SET event_id = 'x' WHERE note LIKE 'refunded%'", {EVENTS}),
    "an event is of another kind": ("UPDATE billing_paymentevent SET type = 'charge.updated'", {EVENTS}),
    "an event came earlier": ("UPDATE billing_paymentevent SET received_at = '2026-01-01'", {EVENTS}),
    "an event is of no payment": ("UPDATE billing_paymentevent SET payment_id = NULL", {EVENTS}),
    "an event is of another payment": (
        "UPDATE billing_paymentevent SET payment_id = (SELECT id FROM billing_payment WHERE status = 'OPEN')"
        " WHERE note LIKE 'refunded%'",
        {EVENTS},
    ),
    "an event is invented": (
        "INSERT INTO billing_paymentevent (processor, event_id, type, payment_id, outcome, note)"
        " SELECT 'stripe', 'forged', 'x', id, 'APPLIED', 'credited' FROM billing_payment WHERE intent_id = '{intent}'",
        {EVENTS},
    ),
    # --- Metadata says no more than it must
    "a purchase says more": (more("pay:stripe:"), {SOURCE}),
    "a refund of a payment says more": (more("refund:stripe:"), {SOURCE}),
    "a grant says more": (more("support:by command"), {RECORDED}),
    "a bank transfer says more": (more("pay:bank:"), {RECORDED}),
    "a correction says more": (more("correction:"), {RECORDED}),
    "usage says more": (say('{{"discount": "0.01"}}'), {SAYS}),
    "usage says a null more": (say('{{"discount": null}}'), {SAYS}),
    "usage says but a word": (
        f"UPDATE billing_ledgerentry SET metadata = '\"x\"' WHERE id = {FIRST_USAGE}",
        {SAYS, BOOKED, SUMS, PROVIDED},
    ),
    "a purchase says but a word": (more("pay:stripe:").replace('metadata || \'{{"note": "x"}}\'', "'\"x\"'"), {SOURCE}),
    "usage names searches": (say('{{"webSearches": 1}}'), {BOOKED}),
    # --- Usage
    "costInDollars is changed": (say('{{"costInDollars": "0.00"}}'), {SAYS}),
    "costInDollars is removed": (
        f"UPDATE billing_ledgerentry SET metadata = metadata - 'costInDollars' WHERE id = {FIRST_USAGE}",
        {SAYS},
    ),
    "settlement is changed": (say('{{"settlement": "estimated"}}'), {BOOKED}),
    "the model is changed": (say('{{"model": "demo/other"}}'), {BOOKED, SUMS}),
    "tokens are changed": (say('{{"tokens": 1}}'), {SAYS}),
    "tokens are changed and add up": (
        say('{{"tokens": 2, "promptTokens": 1, "completionTokens": 1}}'),
        {BOOKED, SUMS, PROVIDED},
    ),
    "tokens become a word": (say('{{"promptTokens": "many"}}'), {SAYS, BOOKED, SUMS, PROVIDED}),
    "the completion's id is changed": (say('{{"completionId": "x"}}'), {SAYS}),
    "a charge before is invented": (say('{{"chargedBeforeInDollars": "1.00"}}'), {BOOKED}),
    "a debit is of another key": (f"UPDATE billing_ledgerentry SET spender = 'x' WHERE id = {FIRST_USAGE}", {BOOKED, SUMS}),
    "usage is made cheaper, with the chain": (
        change_credit("chatcmpl", 1),
        {SAYS, HELD, SUMS, "keys_spend_within_their_account", PROVIDED},
    ),
    "usage is invented": (append("USAGE_DEBIT", -7, "forged"), {SAYS, "debits_were_held"}),
    "usage is invented with its hold": (FORGED_USAGE, {FORGED_HOLD}),
    "a hold says another cost": (
        f"UPDATE billing_hold SET settled_nanos = settled_nanos - 1 WHERE reference = {SETTLED}",
        {HELD, ENDS, DAYS},
    ),
    "a hold is deleted": (f"DELETE FROM billing_hold WHERE reference = {SETTLED}", {"debits_were_held", OWN, DAYS}),
    "a released hold is open": (
        "UPDATE billing_hold SET state = 'HELD', resolved_at = NULL WHERE state = 'RELEASED'",
        {"open_holds_sum_to_what_is_held", "accounts_count_their_open_holds", ENDS, DAYS, "usage_counts_what_failed"},
    ),
    "a hold is smaller than its cost": (
        f"UPDATE billing_hold SET amount_nanos = 1, settled_nanos = 1 WHERE reference = {SETTLED}",
        {HELD, ENDS, COST, DAYS, PLACED},
    ),
    "a hold is raised after its settlement": (hold("amount_nanos = amount_nanos + 1"), {PLACED}),
    "a hold is lowered to its cost": (hold("amount_nanos = settled_nanos"), {PLACED}),
    "a hold that was released is raised": (
        "UPDATE billing_hold SET amount_nanos = amount_nanos + 1 WHERE state = 'RELEASED'",
        {PLACED},
    ),
    # --- Completions and prices
    "a completion says another hold": (settled("held_nanos = held_nanos + 1"), {PLACED}),
    "a completion is of another provider": (settled("provider_id = 'other'"), {PROVIDED}),
    "a failed completion is of another provider": (failed("provider_id = 'other'"), {ASKED}),
    "the attempts were at another provider": (
        failed("failed_attempts = replace(failed_attempts::text, 'echo', 'other')::jsonb"),
        {ASKED},
    ),
    "a completion has another tier": (settled("service_tier = 'flex'"), {COST, PROVIDED}),
    "a completion has a tier that has no rates": (settled("service_tier = 'priority'"), {PROVIDED}),
    "a completion has searches": (settled("web_searches = 1"), {BOOKED, PROVIDED}),
    "a key is gone": ("DELETE FROM keys_apikey WHERE account_id = {alice}", {OWN, DAYS}),
    "a price is gone": ("DELETE FROM completions_price WHERE id = {price}", {PRICED, COST}),
    "a completion has another price": (settled("price_id = {other_price}"), {PRICED, COST}),
    "a completion has an older price of its model": (settled("price_id = {old_price}"), {PRICED, COST}),
    "a completion has another model": (settled("model_id = 'demo/other'"), {PRICED, BOOKED, PROVIDED}),
    "a completion has other tokens": (settled("completion_tokens = completion_tokens + 1"), {COST, BOOKED, DAYS}),
    "a completion has cached tokens": (settled("cached_tokens = prompt_tokens"), {COST, PROVIDED}),
    "a completion has images": (settled("price_id = {image_price}, images = 3"), {PRICED, COST, PROVIDED}),
    "a completion has another cost": (settled("cost_nanos = cost_nanos + 1"), {COST, ENDS}),
    "a completion has another settlement": (settled("settlement = 'partial'"), {BOOKED}),
    "a completion is of another key": (settled("key_id = {other_key}"), {BOOKED, DAYS, OWN}),
    "a completion is of another account": (settled("account_id = {bob}"), {OWN, REPLIES}),
    "a completion was paid before": (settled("charged_before_nanos = 1"), {COST, "reruns_pay_the_difference"}),
    "a completion counts on another day": (settled("spending_day = spending_day - 1"), {DAYS}),
    "a completion is deleted": (f"DELETE FROM completions_completion {OF_THE_SETTLED}", {FORGED_HOLD, DAYS, PROVIDED}),
    "a price is lowered": (price("{price}", "output", 1), {COST}),
    "a price of long prompts is lowered": (price("{price}", "output", 1, above=20), {COST}),
    "a price of long prompts begins later": (
        """UPDATE completions_price SET rates = replace(rates::text, '"above": 20', '"above": 50')::jsonb WHERE id = {price}""",
        {COST},
    ),
    "a price begins later": (
        "UPDATE completions_price SET effective_from = now() + interval '1 day' WHERE id = {price}",
        {PRICED},
    ),
    "a price is another model's": ("UPDATE completions_price SET model_id = 'demo/other' WHERE id = {price}", {PRICED}),
    "a price is not what was approved": (
        price("{approved_price}", "output", 1),
        {APPROVED_PRICE},
    ),
    "what was approved is not the price": (
        price("{approved_request}", "output", 1, "completions_pricerequest"),
        {APPROVED_PRICE},
    ),
    "a price is approved by who asked": (
        "ALTER TABLE completions_pricerequest DROP CONSTRAINT nobody_approves_a_price_they_asked_for;"
        "UPDATE completions_pricerequest SET decided_by_id = requested_by_id",
        {APPROVED_PRICE},
    ),
    "a stored reply is of another account": (
        "UPDATE completions_idempotentrequest SET account_id = {bob};"
        "UPDATE billing_account SET stored_reply_bytes = (SELECT sum(reply_bytes) FROM completions_idempotentrequest)"
        " - stored_reply_bytes WHERE id IN ({alice}, {bob})",
        {REPLIES},
    ),
    # --- What the audit is told that it need not ask for
    "a day is said to be archived": (
        "INSERT INTO billing_archivedday (day, files, completions, holds, written_at) VALUES ('2099-01-01', '[]', 0, 0, now())",
        {"what_is_archived_was_signed"},
    ),
    "sums are said to be dropped": (
        "INSERT INTO billing_retentionmark (what, since) VALUES ('usage', '2099-01-01')",
        {"what_is_archived_was_signed"},
    ),
    "days of providers are said to be dropped": (
        "INSERT INTO billing_retentionmark (what, since) VALUES ('provider days', '2099-01-01')",
        {"what_is_archived_was_signed"},
    ),
    "usage is said to be summed up": (
        "UPDATE completions_usagemark SET last_seq = last_seq + 1",
        {"usage_is_summed_up_to_the_ledgers_end"},
    ),
    "failures are said to be summed up": (
        "UPDATE completions_usagemark SET failures_until = now() + interval '1 day'",
        {"usage_is_summed_up_to_the_ledgers_end"},
    ),
    # --- Keys, days and members
    "days of providers are deleted": ("DELETE FROM completions_providerday", {PROVIDED, LONG}),
    "a day of a provider is invented": (
        "INSERT INTO completions_providerday (day, provider_id, model_id, service_tier, completions, charged_nanos,"
        " prompt_tokens, cached_tokens, cache_write_tokens, cache_write_1h_tokens, completion_tokens, images, web_searches)"
        " SELECT (now() AT TIME ZONE 'UTC')::date, 'other', 'demo/other', '', 1, 1, 1, 0, 0, 0, 1, 0, 0",
        {PROVIDED},
    ),
    **{
        f"{column} of a provider's day are changed": (f"UPDATE completions_providerday SET {column} = {column} + 1", {PROVIDED})
        for column in (
            *("completions", "charged_nanos", "prompt_tokens", "cached_tokens", "cache_write_tokens", "cache_write_1h_tokens"),
            *("completion_tokens", "images", "web_searches"),
        )
    },
    "a day invents long prompts": (bands("""'{{"9": {{"completions": 1}}}}'"""), {LONG}),
    "a day loses its long prompts": ("UPDATE completions_providerday SET bands = '{{}}' WHERE bands <> '{{}}'", {LONG}),
    "a long prompt counts in a higher band": (
        "UPDATE completions_providerday SET bands = jsonb_build_object('99', bands -> '20') WHERE bands ? '20'",
        {LONG},
    ),
    "a long prompt is said to cost less": (
        """UPDATE completions_providerday SET bands = jsonb_set(bands, '{{20,charged_nanos}}', '1') WHERE bands ? '20'""",
        {LONG},
    ),
    "a day is of another provider": ("UPDATE completions_providerday SET provider_id = 'other'", {PROVIDED, LONG}),
    "a user is gone": ("DELETE FROM billing_user WHERE id = {bobs_user}", {USERS}),
    "a key's day is lowered": ("UPDATE keys_spendingday SET spent_nanos = spent_nanos - 1", {DAYS}),
    "an hour of usage is lowered": ("UPDATE completions_usagehour SET cost_nanos = cost_nanos - 1", {SUMS}),
    "members of two accounts are swapped": (
        "UPDATE billing_membership SET user_id = CASE account_id WHEN {alice} THEN {bobs_user} ELSE {alices_user} END"
        " WHERE account_id IN ({alice}, {bob})",
        {MEMBERS},
    ),
    "a member is added": (
        "INSERT INTO billing_membership (account_id, user_id, role, created_at) VALUES ({alice}, {bobs_user}, 'OWNER', now())",
        {MEMBERS},
    ),
    "a member is removed": ("DELETE FROM billing_membership WHERE account_id = {alice}", {MEMBERS}),
    "a member gets another role": ("UPDATE billing_membership SET role = 'VIEWER' WHERE account_id = {alice}", {MEMBERS}),
    "a record of a member is deleted": ("DELETE FROM billing_membershipchange WHERE account_id = {alice}", {MEMBERS}),
}
