-- Copies of the example: accounts with a key each, entries of their ledgers, and what was booked with these.

INSERT INTO billing_account SELECT (jsonb_populate_record(account, jsonb_build_object('id', uuidv7()))).*
FROM billing_account AS account, generate_series(2, %(accounts)s) WHERE id = %(first)s;

INSERT INTO keys_apikey SELECT (jsonb_populate_record(key, jsonb_build_object(
    'id', left(md5(account.id || key.id), 22), 'digest', md5(account.id || key.id), 'account_id', account.id
))).*
FROM keys_apikey AS key, billing_account AS account
WHERE key.account_id = %(first)s AND account.id NOT IN (%(first)s, %(example)s);

UPDATE billing_account SET created_at = %(began)s;

UPDATE completions_price SET effective_from = %(began)s WHERE id IN (SELECT price_id FROM completions_completion);

-- Accounts take turns. Of an account one entry in 10,000 is a credit, the others are usage. Hashes are filled later.
INSERT INTO billing_ledgerentry SELECT (jsonb_populate_record(example, jsonb_build_object(
    'hash', NULL, 'id', uuidv7(), 'account_id', key.account_id, 'seq', place.seq, 'created_at', place.created_at,
    'balance_after_nanos', place.credits * credit.amount_nanos + (place.seq - place.credits) * debit.amount_nanos
) || CASE WHEN place.is_credit THEN jsonb_build_object('reference', 'support:' || n) ELSE jsonb_build_object(
    'reference', place.id, 'spender', key.id, 'metadata', debit.metadata || jsonb_build_object('completionId', place.id)
) END)).*
FROM generate_series(0, %(completions)s - 1) AS n
CROSS JOIN LATERAL (SELECT %(began)s + n * %(step)s::interval AS created_at, n / %(accounts)s AS before) AS moment
CROSS JOIN LATERAL (
    SELECT created_at, before + 1 AS seq, before / 10000 + 1 AS credits, before %% 10000 = 0 AS is_credit, 'chatcmpl-'
        || lpad(to_hex(floor(extract(epoch FROM created_at) * 1000)::bigint), 12, '0') || lpad(to_hex(n), 20, '0') AS id
) AS place
JOIN (
    SELECT id, account_id, row_number() OVER (ORDER BY id) - 1 AS number FROM keys_apikey WHERE account_id <> %(example)s
) AS key ON number = n %% %(accounts)s
JOIN billing_ledgerentry AS credit ON credit.account_id = %(example)s AND credit.type = 'SUPPORT_CREDIT'
JOIN billing_ledgerentry AS debit ON debit.account_id = %(example)s AND debit.type = 'USAGE_DEBIT'
JOIN billing_ledgerentry AS example ON example.id = CASE WHEN place.is_credit THEN credit.id ELSE debit.id END;

UPDATE billing_account SET (balance_nanos, last_seq) = (
    SELECT balance_after_nanos, seq FROM billing_ledgerentry WHERE account_id = billing_account.id ORDER BY seq DESC LIMIT 1
) WHERE id <> %(example)s;

INSERT INTO billing_manualentry SELECT (jsonb_populate_record(example, jsonb_build_object(
    'entry_id', entry.id, 'account_id', entry.account_id, 'reference', entry.reference, 'created_at', entry.created_at
))).*
FROM billing_manualentry AS example
JOIN billing_ledgerentry AS entry ON entry.type = 'SUPPORT_CREDIT' AND entry.account_id <> %(example)s
WHERE example.account_id = %(example)s;

INSERT INTO billing_hold SELECT (jsonb_populate_record(example, jsonb_build_object(
    'reference', entry.reference, 'account_id', entry.account_id,
    'created_at', entry.created_at, 'expires_at', entry.created_at, 'resolved_at', entry.created_at
))).*
FROM billing_hold AS example
JOIN billing_ledgerentry AS entry ON entry.type = 'USAGE_DEBIT' AND entry.account_id <> %(example)s
WHERE example.account_id = %(example)s;

INSERT INTO completions_completion SELECT (jsonb_populate_record(example, jsonb_build_object(
    'id', reference, 'key_id', spender, 'account_id', entry.account_id, 'spending_day', date(entry.created_at),
    'created_at', entry.created_at, 'finished_at', entry.created_at, 'request_id', 'req_' || md5(reference)
))).*
FROM completions_completion AS example
JOIN billing_ledgerentry AS entry ON entry.type = 'USAGE_DEBIT' AND entry.account_id <> %(example)s;

DELETE FROM keys_spendingday;

INSERT INTO keys_spendingday (key_id, day, spent_nanos, held_nanos, completions, prompt_tokens, completion_tokens)
SELECT key_id, spending_day, sum(cost_nanos), 0, count(*), sum(prompt_tokens), sum(completion_tokens)
FROM completions_completion GROUP BY key_id, spending_day
