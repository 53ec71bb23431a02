-- What the migrations make of an empty database. `make schema` writes this file, and schema_snapshot.py loads it.
SET LOCAL check_function_bodies = false;


CREATE FUNCTION public.activity_delete_old(kept_since timestamp with time zone, rows_max integer) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO '$user', 'public'
    AS $$
    WITH deleted AS (
        DELETE FROM activity_activity WHERE id IN (
            SELECT id FROM (SELECT id, at FROM activity_activity ORDER BY id LIMIT rows_max) AS first WHERE at < kept_since
        ) RETURNING id
    )
    SELECT count(*) FROM deleted
$$;

CREATE FUNCTION public.activity_refuse_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.at < statement_timestamp() - interval '365 days' THEN
            RETURN OLD;
        END IF;
    END IF;
    RAISE EXCEPTION 'the activity log is append-only: % is refused', TG_OP USING ERRCODE = 'check_violation';
END $$;

CREATE FUNCTION public.billing_check_balance() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
    is_entry boolean := starts_with(TG_TABLE_NAME, 'billing_ledgerentry');
    this_id uuid;
    account record;
    last record;
BEGIN
    IF is_entry THEN this_id := NEW.account_id; ELSE this_id := NEW.id; END IF;
    SELECT balance_nanos, last_seq INTO account FROM billing_account WHERE id = this_id;
    IF is_entry THEN
        IF NOT FOUND THEN
            RAISE EXCEPTION 'account % is not there', this_id USING ERRCODE = 'check_violation';
        END IF;
        IF account.last_seq > NEW.seq THEN
            RETURN NULL;
        END IF;
        SELECT NEW.seq, NEW.balance_after_nanos INTO last;
    ELSE
        SELECT seq, balance_after_nanos INTO last
            FROM billing_ledgerentry WHERE account_id = this_id ORDER BY seq DESC LIMIT 1;
    END IF;
    IF account.balance_nanos <> coalesce(last.balance_after_nanos, 0) OR account.last_seq <> coalesce(last.seq, 0) THEN
        RAISE EXCEPTION 'account % says balance % and seq %, its book % and %', this_id, account.balance_nanos,
            account.last_seq, coalesce(last.balance_after_nanos, 0), coalesce(last.seq, 0)
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION public.billing_check_chain() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
    last record;
BEGIN
    SELECT seq, balance_after_nanos, created_at, hash INTO last
        FROM billing_ledgerentry WHERE account_id = NEW.account_id ORDER BY seq DESC LIMIT 1;
    IF NEW.seq <> coalesce(last.seq, 0) + 1 THEN
        RAISE EXCEPTION 'seq % does not follow %', NEW.seq, coalesce(last.seq, 0) USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.balance_after_nanos <> coalesce(last.balance_after_nanos, 0) + NEW.amount_nanos THEN
        RAISE EXCEPTION 'balance % is not % plus %', NEW.balance_after_nanos, coalesce(last.balance_after_nanos, 0),
            NEW.amount_nanos USING ERRCODE = 'check_violation';
    END IF;
    NEW.created_at := greatest(NEW.created_at, last.created_at);
    NEW.hash := sha256(
        CASE WHEN NEW.seq = 1 THEN decode(repeat('00', 32), 'hex') ELSE last.hash END
        || sha256(convert_to(jsonb_build_array(NEW.account_id, NEW.seq, NEW.id, NEW.type, NEW.amount_nanos,
            NEW.balance_after_nanos, to_char(NEW.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
            NEW.reference, NEW.spender, NEW.metadata)::text, 'UTF8')));
    RETURN NEW;
END $$;

CREATE FUNCTION public.billing_check_credit_request() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP = 'DELETE' OR OLD.decision <> '' THEN
        RAISE EXCEPTION 'the credit request % stays as it is: % is refused', OLD.id, TG_OP USING ERRCODE = 'check_violation';
    END IF;
    IF to_jsonb(NEW) - ARRAY['decision', 'decided_by_id', 'decided_at', 'decision_reason', 'entry_id']
        IS DISTINCT FROM to_jsonb(OLD) - ARRAY['decision', 'decided_by_id', 'decided_at', 'decision_reason', 'entry_id']
    THEN
        RAISE EXCEPTION 'the terms of credit request % are fixed', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION public.billing_check_hold() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP = 'DELETE' AND OLD.state <> 'HELD' AND billing_is_archived(OLD.resolved_at) THEN
        RETURN OLD;
    END IF;
    IF TG_OP = 'DELETE' OR OLD.state <> 'HELD' THEN
        RAISE EXCEPTION 'hold % is % and stays so', OLD.reference, OLD.state USING ERRCODE = 'check_violation';
    END IF;
    IF (NEW.reference, NEW.account_id, NEW.amount_nanos) IS DISTINCT FROM (OLD.reference, OLD.account_id, OLD.amount_nanos) THEN
        RAISE EXCEPTION 'the terms of hold % are fixed', OLD.reference USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION public.billing_check_owner_request() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP = 'DELETE' OR OLD.decision <> '' THEN
        RAISE EXCEPTION 'the owner request % stays as it is: % is refused', OLD.id, TG_OP USING ERRCODE = 'check_violation';
    END IF;
    IF to_jsonb(NEW) - ARRAY['decision', 'decided_by_id', 'decided_at', 'decision_reason', 'entry_id']
        IS DISTINCT FROM to_jsonb(OLD) - ARRAY['decision', 'decided_by_id', 'decided_at', 'decision_reason', 'entry_id']
    THEN
        RAISE EXCEPTION 'the terms of owner request % are fixed', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION public.billing_check_refund() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
    credited bigint;
    returned numeric;
BEGIN
    SELECT amount_nanos INTO credited FROM billing_ledgerentry
    WHERE id = (NEW.metadata ->> 'entryId')::uuid AND account_id = NEW.account_id AND amount_nanos > 0;
    SELECT coalesce(sum(-amount_nanos), 0) INTO returned FROM billing_ledgerentry
    WHERE account_id = NEW.account_id AND NOT (type = 'USAGE_DEBIT') AND metadata ->> 'entryId' = NEW.metadata ->> 'entryId';
    IF credited IS NULL OR returned - NEW.amount_nanos > credited THEN
        RAISE EXCEPTION 'a refund of % does not fit entry %, of %, of which % was refunded', -NEW.amount_nanos,
            NEW.metadata ->> 'entryId', credited, returned USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION public.billing_check_second_factor_request() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP = 'DELETE' OR OLD.decision <> '' THEN
        RAISE EXCEPTION 'the second factor request % stays as it is: % is refused', OLD.id, TG_OP USING ERRCODE = 'check_violation';
    END IF;
    IF to_jsonb(NEW) - ARRAY['decision', 'decided_by_id', 'decided_at', 'decision_reason', 'entry_id']
        IS DISTINCT FROM to_jsonb(OLD) - ARRAY['decision', 'decided_by_id', 'decided_at', 'decision_reason', 'entry_id']
    THEN
        RAISE EXCEPTION 'the terms of second factor request % are fixed', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION public.billing_count_address() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    NEW.sessions_generation := greatest(NEW.sessions_generation, OLD.sessions_generation)
        + (NEW.email IS DISTINCT FROM OLD.email)::integer;
    RETURN NEW;
END $$;

CREATE FUNCTION public.billing_is_archived(ended_at timestamp with time zone) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT coalesce(ended_at < max(day + 1)::timestamp AT TIME ZONE 'UTC' + interval '1 hour', false)
    FROM billing_archivedday WHERE written_at IS NOT NULL
$$;

CREATE FUNCTION public.billing_keep_payment() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'a payment is never deleted' USING ERRCODE = 'check_violation';
    END IF;
    IF (NEW.account_id, NEW.amount_cents, NEW.currency, NEW.processor, NEW.is_live)
        IS DISTINCT FROM (OLD.account_id, OLD.amount_cents, OLD.currency, OLD.processor, OLD.is_live) THEN
        RAISE EXCEPTION 'the account, amount and currency of a payment never change' USING ERRCODE = 'check_violation';
    END IF;
    IF OLD.status = 'PAID' AND (NEW.status, NEW.credit_id, NEW.receipt_number, NEW.intent_id)
        IS DISTINCT FROM (OLD.status, OLD.credit_id, OLD.receipt_number, OLD.intent_id) THEN
        RAISE EXCEPTION 'what is paid stays paid' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION public.billing_record_membership() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND (NEW.account_id, NEW.user_id) IS DISTINCT FROM (OLD.account_id, OLD.user_id) THEN
        RAISE EXCEPTION 'a membership stays that of its user and account' USING ERRCODE = 'check_violation';
    END IF;
    IF TG_OP = 'DELETE' THEN
        INSERT INTO billing_membershipchange (account_id, user_id, role) VALUES (OLD.account_id, OLD.user_id, '');
    ELSE
        INSERT INTO billing_membershipchange (account_id, user_id, role) VALUES (NEW.account_id, NEW.user_id, NEW.role);
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION public.billing_refuse_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND starts_with(TG_TABLE_NAME, 'billing_ledgerentry') THEN
        IF OLD.hash IS NULL AND to_jsonb(NEW) - 'hash' = to_jsonb(OLD) - 'hash' THEN
            NEW.hash := sha256(
        CASE WHEN NEW.seq = 1 THEN decode(repeat('00', 32), 'hex') ELSE (SELECT hash FROM billing_ledgerentry WHERE account_id = NEW.account_id AND seq = NEW.seq - 1) END
        || sha256(convert_to(jsonb_build_array(NEW.account_id, NEW.seq, NEW.id, NEW.type, NEW.amount_nanos,
            NEW.balance_after_nanos, to_char(NEW.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
            NEW.reference, NEW.spender, NEW.metadata)::text, 'UTF8')));
            IF NEW.hash IS NOT NULL THEN
                RETURN NEW;
            END IF;
        END IF;
    END IF;
    RAISE EXCEPTION 'the book is append-only: % on % is refused', TG_OP, TG_TABLE_NAME USING ERRCODE = 'check_violation';
END $$;

CREATE FUNCTION public.billing_refuse_event_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'payment events are append-only: % is refused', TG_OP USING ERRCODE = 'check_violation';
END $$;

CREATE FUNCTION public.billing_refuse_membership_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'changes of members are append-only: % is refused', TG_OP USING ERRCODE = 'check_violation';
END $$;

CREATE FUNCTION public.billing_sum_up_events() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    UPDATE billing_payment SET events_digest = (
    SELECT encode(sha256(convert_to(string_agg(
        ROW(event_id, processor, type, outcome, note, extract(epoch FROM received_at))::text,
        ',' ORDER BY event_id, processor COLLATE "C"
    ), 'UTF8')), 'hex')
    FROM billing_paymentevent WHERE payment_id = billing_payment.id
) WHERE id = NEW.payment_id;
    RETURN NULL;
END $$;

CREATE FUNCTION public.completions_check_price_request() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP = 'DELETE' OR OLD.decision <> '' THEN
        RAISE EXCEPTION 'the price request % stays as it is: % is refused', OLD.id, TG_OP USING ERRCODE = 'check_violation';
    END IF;
    IF to_jsonb(NEW) - ARRAY['decision', 'decided_by_id', 'decided_at', 'decision_reason', 'price_id']
        IS DISTINCT FROM to_jsonb(OLD) - ARRAY['decision', 'decided_by_id', 'decided_at', 'decision_reason', 'price_id']
    THEN
        RAISE EXCEPTION 'the terms of price request % are fixed', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION public.completions_keep_rates() RETURNS trigger
    LANGUAGE plpgsql
    AS $_$
BEGIN
    IF NEW.rates IS NULL OR TG_OP = 'UPDATE' AND NEW.rates = OLD.rates AND jsonb_path_query_array(jsonb_build_array(jsonb_build_object('meter', 'input', 'tier', '', 'above', 0, 'nanos', NEW.input_nanos), jsonb_build_object('meter', 'output', 'tier', '', 'above', 0, 'nanos', NEW.output_nanos), jsonb_build_object('meter', 'cached_input', 'tier', '', 'above', 0, 'nanos', NEW.cached_input_nanos), jsonb_build_object('meter', 'cache_write', 'tier', '', 'above', 0, 'nanos', NEW.cache_write_nanos), jsonb_build_object('meter', 'cache_write_1h', 'tier', '', 'above', 0, 'nanos', NEW.cache_write_1h_nanos), jsonb_build_object('meter', 'image', 'tier', '', 'above', 0, 'nanos', NEW.image_nanos), jsonb_build_object('meter', 'web_search', 'tier', '', 'above', 0, 'nanos', NEW.web_search_nanos), jsonb_build_object('meter', 'input', 'tier', 'flex', 'above', 0, 'nanos', NEW.flex_input_nanos), jsonb_build_object('meter', 'output', 'tier', 'flex', 'above', 0, 'nanos', NEW.flex_output_nanos), jsonb_build_object('meter', 'cached_input', 'tier', 'flex', 'above', 0, 'nanos', NEW.flex_cached_input_nanos), jsonb_build_object('meter', 'input', 'tier', 'priority', 'above', 0, 'nanos', NEW.priority_input_nanos), jsonb_build_object('meter', 'output', 'tier', 'priority', 'above', 0, 'nanos', NEW.priority_output_nanos), jsonb_build_object('meter', 'cached_input', 'tier', 'priority', 'above', 0, 'nanos', NEW.priority_cached_input_nanos)), '$[*] ? (@.nanos != null)') <> jsonb_path_query_array(jsonb_build_array(jsonb_build_object('meter', 'input', 'tier', '', 'above', 0, 'nanos', OLD.input_nanos), jsonb_build_object('meter', 'output', 'tier', '', 'above', 0, 'nanos', OLD.output_nanos), jsonb_build_object('meter', 'cached_input', 'tier', '', 'above', 0, 'nanos', OLD.cached_input_nanos), jsonb_build_object('meter', 'cache_write', 'tier', '', 'above', 0, 'nanos', OLD.cache_write_nanos), jsonb_build_object('meter', 'cache_write_1h', 'tier', '', 'above', 0, 'nanos', OLD.cache_write_1h_nanos), jsonb_build_object('meter', 'image', 'tier', '', 'above', 0, 'nanos', OLD.image_nanos), jsonb_build_object('meter', 'web_search', 'tier', '', 'above', 0, 'nanos', OLD.web_search_nanos), jsonb_build_object('meter', 'input', 'tier', 'flex', 'above', 0, 'nanos', OLD.flex_input_nanos), jsonb_build_object('meter', 'output', 'tier', 'flex', 'above', 0, 'nanos', OLD.flex_output_nanos), jsonb_build_object('meter', 'cached_input', 'tier', 'flex', 'above', 0, 'nanos', OLD.flex_cached_input_nanos), jsonb_build_object('meter', 'input', 'tier', 'priority', 'above', 0, 'nanos', OLD.priority_input_nanos), jsonb_build_object('meter', 'output', 'tier', 'priority', 'above', 0, 'nanos', OLD.priority_output_nanos), jsonb_build_object('meter', 'cached_input', 'tier', 'priority', 'above', 0, 'nanos', OLD.priority_cached_input_nanos)), '$[*] ? (@.nanos != null)') THEN
        NEW.rates := jsonb_path_query_array(jsonb_build_array(jsonb_build_object('meter', 'input', 'tier', '', 'above', 0, 'nanos', NEW.input_nanos), jsonb_build_object('meter', 'output', 'tier', '', 'above', 0, 'nanos', NEW.output_nanos), jsonb_build_object('meter', 'cached_input', 'tier', '', 'above', 0, 'nanos', NEW.cached_input_nanos), jsonb_build_object('meter', 'cache_write', 'tier', '', 'above', 0, 'nanos', NEW.cache_write_nanos), jsonb_build_object('meter', 'cache_write_1h', 'tier', '', 'above', 0, 'nanos', NEW.cache_write_1h_nanos), jsonb_build_object('meter', 'image', 'tier', '', 'above', 0, 'nanos', NEW.image_nanos), jsonb_build_object('meter', 'web_search', 'tier', '', 'above', 0, 'nanos', NEW.web_search_nanos), jsonb_build_object('meter', 'input', 'tier', 'flex', 'above', 0, 'nanos', NEW.flex_input_nanos), jsonb_build_object('meter', 'output', 'tier', 'flex', 'above', 0, 'nanos', NEW.flex_output_nanos), jsonb_build_object('meter', 'cached_input', 'tier', 'flex', 'above', 0, 'nanos', NEW.flex_cached_input_nanos), jsonb_build_object('meter', 'input', 'tier', 'priority', 'above', 0, 'nanos', NEW.priority_input_nanos), jsonb_build_object('meter', 'output', 'tier', 'priority', 'above', 0, 'nanos', NEW.priority_output_nanos), jsonb_build_object('meter', 'cached_input', 'tier', 'priority', 'above', 0, 'nanos', NEW.priority_cached_input_nanos)), '$[*] ? (@.nanos != null)');
    ELSE
        NEW.input_nanos := jsonb_path_query_first(NEW.rates, '$[*] ? (@.meter == "input" && @.tier == "" && @.above == 0).nanos')::bigint;
        NEW.output_nanos := jsonb_path_query_first(NEW.rates, '$[*] ? (@.meter == "output" && @.tier == "" && @.above == 0).nanos')::bigint;
        NEW.cached_input_nanos := jsonb_path_query_first(NEW.rates, '$[*] ? (@.meter == "cached_input" && @.tier == "" && @.above == 0).nanos')::bigint;
        NEW.cache_write_nanos := jsonb_path_query_first(NEW.rates, '$[*] ? (@.meter == "cache_write" && @.tier == "" && @.above == 0).nanos')::bigint;
        NEW.cache_write_1h_nanos := jsonb_path_query_first(NEW.rates, '$[*] ? (@.meter == "cache_write_1h" && @.tier == "" && @.above == 0).nanos')::bigint;
        NEW.image_nanos := jsonb_path_query_first(NEW.rates, '$[*] ? (@.meter == "image" && @.tier == "" && @.above == 0).nanos')::bigint;
        NEW.web_search_nanos := jsonb_path_query_first(NEW.rates, '$[*] ? (@.meter == "web_search" && @.tier == "" && @.above == 0).nanos')::bigint;
        NEW.flex_input_nanos := jsonb_path_query_first(NEW.rates, '$[*] ? (@.meter == "input" && @.tier == "flex" && @.above == 0).nanos')::bigint;
        NEW.flex_output_nanos := jsonb_path_query_first(NEW.rates, '$[*] ? (@.meter == "output" && @.tier == "flex" && @.above == 0).nanos')::bigint;
        NEW.flex_cached_input_nanos := jsonb_path_query_first(NEW.rates, '$[*] ? (@.meter == "cached_input" && @.tier == "flex" && @.above == 0).nanos')::bigint;
        NEW.priority_input_nanos := jsonb_path_query_first(NEW.rates, '$[*] ? (@.meter == "input" && @.tier == "priority" && @.above == 0).nanos')::bigint;
        NEW.priority_output_nanos := jsonb_path_query_first(NEW.rates, '$[*] ? (@.meter == "output" && @.tier == "priority" && @.above == 0).nanos')::bigint;
        NEW.priority_cached_input_nanos := jsonb_path_query_first(NEW.rates, '$[*] ? (@.meter == "cached_input" && @.tier == "priority" && @.above == 0).nanos')::bigint;
    END IF;
    RETURN NEW;
END $_$;

CREATE FUNCTION public.completions_note_end() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    NEW.end_set_at := statement_timestamp();
    RETURN NEW;
END $$;

CREATE FUNCTION public.completions_refuse_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN -- of a completion: the trigger of prices is for updates
        IF OLD.settlement IS NOT NULL AND billing_is_archived(OLD.finished_at) THEN
            RETURN OLD;
        END IF;
    END IF;
    RAISE EXCEPTION '% of % is refused: what was charged stays as it is', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'check_violation';
END $$;

CREATE TABLE public.account_emailaddress (
    id integer NOT NULL,
    email character varying(254) NOT NULL,
    verified boolean NOT NULL,
    "primary" boolean NOT NULL,
    user_id bigint NOT NULL
);

ALTER TABLE public.account_emailaddress ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.account_emailaddress_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.account_emailconfirmation (
    id integer NOT NULL,
    created timestamp with time zone NOT NULL,
    sent timestamp with time zone,
    key character varying(64) NOT NULL,
    email_address_id integer NOT NULL
);

ALTER TABLE public.account_emailconfirmation ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.account_emailconfirmation_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.activity_activity (
    id bigint NOT NULL,
    at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    act character varying(30) NOT NULL,
    program character varying(200) DEFAULT ''::character varying NOT NULL,
    account_id uuid,
    object_type character varying(100) NOT NULL,
    object_id character varying(255) NOT NULL,
    object_text character varying(200) NOT NULL,
    summary text NOT NULL,
    before jsonb,
    after jsonb,
    reason text NOT NULL,
    ticket character varying(100) NOT NULL,
    request_id character varying(64) NOT NULL,
    address inet,
    actor_id bigint
);

ALTER TABLE public.activity_activity ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.activity_activity_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.activity_sentform (
    token character varying(22) NOT NULL COLLATE pg_catalog."C",
    at timestamp with time zone DEFAULT statement_timestamp() NOT NULL
);

CREATE TABLE public.auth_group (
    id integer NOT NULL,
    name character varying(150) NOT NULL
);

ALTER TABLE public.auth_group ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_group_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.auth_group_permissions (
    id bigint NOT NULL,
    group_id integer NOT NULL,
    permission_id integer NOT NULL
);

ALTER TABLE public.auth_group_permissions ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_group_permissions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.auth_permission (
    id integer NOT NULL,
    name character varying(255) NOT NULL,
    content_type_id integer NOT NULL,
    codename character varying(100) NOT NULL
);

ALTER TABLE public.auth_permission ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_permission_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.billing_account (
    id uuid NOT NULL,
    name character varying(200) NOT NULL,
    is_active boolean NOT NULL,
    balance_nanos bigint NOT NULL,
    held_nanos bigint NOT NULL,
    last_seq bigint NOT NULL,
    open_holds integer DEFAULT 0 NOT NULL,
    stored_reply_bytes bigint DEFAULT 0 NOT NULL,
    requests_per_minute integer,
    tokens_per_minute integer,
    requests_in_flight_max integer,
    warning_threshold_cents bigint DEFAULT 500,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    has_paid boolean DEFAULT false NOT NULL,
    unpaid_until timestamp with time zone,
    keeps_responses boolean DEFAULT true NOT NULL,
    stored_response_bytes bigint DEFAULT 0 NOT NULL,
    has_budgets boolean DEFAULT false NOT NULL,
    unusual_hour_factor smallint DEFAULT 5,
    data_policy character varying(10) DEFAULT ''::character varying NOT NULL,
    data_regions character varying(2)[],
    key_lifetime_days_max integer,
    has_own_keys boolean DEFAULT false NOT NULL,
    CONSTRAINT a_book_begins_at_zero CHECK ((last_seq >= 0)),
    CONSTRAINT a_warning_threshold_is_a_positive_amount CHECK (((warning_threshold_cents IS NULL) OR ((warning_threshold_cents >= 1) AND (warning_threshold_cents <= '922337203685'::bigint)))),
    CONSTRAINT an_account_may_run_at_least_one_request CHECK (((requests_in_flight_max IS NULL) OR (requests_in_flight_max >= 1))),
    CONSTRAINT an_accounts_open_holds_are_never_negative CHECK ((open_holds >= 0)),
    CONSTRAINT an_accounts_rate_is_at_least_one_a_minute CHECK ((((requests_per_minute IS NULL) OR (requests_per_minute >= 1)) AND ((tokens_per_minute IS NULL) OR (tokens_per_minute >= 1)))),
    CONSTRAINT billing_account_key_lifetime_days_max_check CHECK ((key_lifetime_days_max >= 0)),
    CONSTRAINT billing_account_requests_in_flight_max_check CHECK ((requests_in_flight_max >= 0)),
    CONSTRAINT billing_account_requests_per_minute_check CHECK ((requests_per_minute >= 0)),
    CONSTRAINT billing_account_tokens_per_minute_check CHECK ((tokens_per_minute >= 0)),
    CONSTRAINT held_money_is_never_negative CHECK ((held_nanos >= 0))
);

CREATE TABLE public.billing_accountclosing (
    id uuid NOT NULL,
    closed_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    is_refunded boolean NOT NULL,
    refunded_at timestamp with time zone,
    erase_at timestamp with time zone NOT NULL,
    erased_at timestamp with time zone,
    undone_at timestamp with time zone,
    account_id uuid NOT NULL,
    closed_by_id bigint NOT NULL,
    kept_closed_at timestamp with time zone,
    CONSTRAINT what_is_erased_is_not_undone CHECK (((undone_at IS NULL) OR (erased_at IS NULL)))
);

CREATE TABLE public.billing_accountexport (
    id uuid NOT NULL,
    asked_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    state character varying(10) NOT NULL,
    claimed_until timestamp with time zone,
    size_bytes bigint NOT NULL,
    ready_at timestamp with time zone,
    expires_at timestamp with time zone,
    account_id uuid NOT NULL,
    asked_by_id bigint NOT NULL
);

CREATE TABLE public.billing_accountwarning (
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    kind character varying(20) NOT NULL,
    data jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    prepared_at timestamp with time zone,
    account_id uuid NOT NULL
);

CREATE TABLE public.billing_addresschange (
    id uuid NOT NULL,
    former character varying(254) NOT NULL,
    address character varying(254) NOT NULL,
    asked_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    changed_at timestamp with time zone,
    undone_at timestamp with time zone,
    user_id bigint NOT NULL
);

CREATE TABLE public.billing_archivedday (
    day date NOT NULL,
    files jsonb NOT NULL,
    completions bigint NOT NULL,
    holds bigint NOT NULL,
    written_at timestamp with time zone,
    deleted_at timestamp with time zone,
    restored_at timestamp with time zone
);

CREATE TABLE public.billing_auditedday (
    day date NOT NULL,
    digest character varying(64) NOT NULL COLLATE pg_catalog."C",
    signed_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    checked_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    rows_changed bigint NOT NULL
);

CREATE TABLE public.billing_auditedledger (
    id bigint NOT NULL,
    day date NOT NULL,
    last_seq bigint NOT NULL,
    last_at timestamp with time zone NOT NULL,
    balance_nanos bigint NOT NULL,
    debited_nanos bigint NOT NULL,
    digest character varying(64) NOT NULL COLLATE pg_catalog."C",
    account_id uuid NOT NULL
);

ALTER TABLE public.billing_auditedledger ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.billing_auditedledger_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.billing_billingdetails (
    account_id uuid NOT NULL,
    name character varying(200) NOT NULL,
    address text NOT NULL,
    tax_id character varying(50) NOT NULL
);

CREATE TABLE public.billing_creditrequest (
    id uuid NOT NULL,
    reference character varying(64) NOT NULL COLLATE pg_catalog."C",
    amount_cents bigint NOT NULL,
    reason character varying(500) NOT NULL,
    ticket character varying(100) NOT NULL,
    requested_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    decision character varying(8) NOT NULL,
    decided_at timestamp with time zone,
    decision_reason character varying(500) NOT NULL,
    account_id uuid NOT NULL,
    decided_by_id bigint,
    requested_by_id bigint NOT NULL,
    entry_id uuid,
    kind character varying(20) DEFAULT 'SUPPORT_CREDIT'::character varying NOT NULL,
    payment_id character varying(200) DEFAULT ''::character varying NOT NULL,
    seen jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT a_credit_is_asked_for_in_whole_cents CHECK ((amount_cents >= 1)),
    CONSTRAINT a_credit_waits_until_it_is_decided CHECK ((((decided_at IS NULL) AND (decided_by_id IS NULL) AND ((decision)::text = ''::text)) OR ((decided_at IS NOT NULL) AND (decided_by_id IS NOT NULL) AND ((decision)::text = ANY ((ARRAY['APPROVED'::character varying, 'DECLINED'::character varying])::text[]))))),
    CONSTRAINT a_payment_that_waits_has_the_banks_id CHECK (((((kind)::text = 'SUPPORT_CREDIT'::text) AND ((payment_id)::text = ''::text)) OR (((kind)::text = 'CREDIT_PURCHASE'::text) AND (NOT ((payment_id)::text = ''::text))))),
    CONSTRAINT nobody_approves_what_they_asked_for CHECK (((NOT ((decision)::text = 'APPROVED'::text)) OR (NOT ((decided_by_id = requested_by_id) AND (decided_by_id IS NOT NULL))))),
    CONSTRAINT only_an_approved_credit_is_booked CHECK (((((decision)::text = 'APPROVED'::text) AND (entry_id IS NOT NULL)) OR ((NOT ((decision)::text = 'APPROVED'::text)) AND (entry_id IS NULL))))
);

CREATE TABLE public.billing_emailchoice (
    account_id uuid NOT NULL,
    receipts boolean DEFAULT true NOT NULL,
    credits boolean DEFAULT true NOT NULL,
    refunds boolean DEFAULT true NOT NULL,
    changes boolean DEFAULT true NOT NULL
);

CREATE TABLE public.billing_exportpart (
    id bigint NOT NULL,
    number integer NOT NULL,
    content bytea NOT NULL,
    export_id uuid NOT NULL
);

ALTER TABLE public.billing_exportpart ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.billing_exportpart_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.billing_hold (
    reference character varying(64) NOT NULL COLLATE pg_catalog."C",
    amount_nanos bigint NOT NULL,
    state character varying(10) NOT NULL,
    settled_nanos bigint,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    resolved_at timestamp with time zone,
    account_id uuid NOT NULL,
    CONSTRAINT a_hold_is_never_negative CHECK ((amount_nanos >= 0)),
    CONSTRAINT a_hold_is_open_until_it_is_resolved CHECK ((((resolved_at IS NULL) AND ((state)::text = 'HELD'::text)) OR ((NOT ((state)::text = 'HELD'::text)) AND (resolved_at IS NOT NULL)))),
    CONSTRAINT no_more_is_settled_than_was_held CHECK (((settled_nanos IS NULL) OR ((settled_nanos >= 0) AND (settled_nanos <= amount_nanos)))),
    CONSTRAINT only_a_settled_hold_says_what_it_cost CHECK ((((settled_nanos IS NOT NULL) AND ((state)::text = 'SETTLED'::text)) OR ((NOT ((state)::text = 'SETTLED'::text)) AND (settled_nanos IS NULL))))
);

CREATE TABLE public.billing_invitation (
    id uuid NOT NULL,
    email character varying(254) NOT NULL,
    role character varying(10) NOT NULL,
    digest character varying(64) NOT NULL COLLATE pg_catalog."C",
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    accepted_at timestamp with time zone,
    revoked_at timestamp with time zone,
    account_id uuid NOT NULL,
    invited_by_id bigint NOT NULL,
    CONSTRAINT an_invitation_ends_once CHECK (((accepted_at IS NULL) OR (revoked_at IS NULL))),
    CONSTRAINT an_invitation_is_to_a_role CHECK (((role)::text = ANY ((ARRAY['OWNER'::character varying, 'DEVELOPER'::character varying, 'BILLING'::character varying, 'VIEWER'::character varying])::text[]))),
    CONSTRAINT an_invited_email_is_in_lower_case CHECK (((email)::text = lower((email)::text)))
);

CREATE TABLE public.billing_invoicefile (
    id uuid NOT NULL,
    number character varying(30) NOT NULL,
    content bytea NOT NULL,
    issued_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    account_id uuid NOT NULL
);

CREATE TABLE public.billing_ledgerentry (
    id uuid NOT NULL,
    seq bigint NOT NULL,
    type character varying(20) NOT NULL,
    amount_nanos bigint NOT NULL,
    balance_after_nanos bigint NOT NULL,
    reference character varying(255) NOT NULL COLLATE pg_catalog."C",
    metadata jsonb NOT NULL,
    spender character varying(64),
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    account_id uuid NOT NULL,
    issued_by_id bigint,
    hash bytea,
    CONSTRAINT credits_add_and_debits_take CHECK ((((amount_nanos > 0) AND ((type)::text = ANY ((ARRAY['CREDIT_PURCHASE'::character varying, 'SUPPORT_CREDIT'::character varying])::text[]))) OR ((amount_nanos < 0) AND ((type)::text = 'REFUND_DEBIT'::text)) OR ((amount_nanos <= 0) AND ((type)::text = 'USAGE_DEBIT'::text)))),
    CONSTRAINT only_usage_has_a_spender CHECK (((spender IS NULL) OR ((type)::text = 'USAGE_DEBIT'::text))),
    CONSTRAINT seq_counts_from_one CHECK ((seq >= 1))
);

CREATE TABLE public.billing_ledgerhead (
    leaf bigint NOT NULL,
    root bigint NOT NULL,
    seq bigint NOT NULL,
    hash bytea NOT NULL
);

CREATE TABLE public.billing_ledgerleaf (
    number bigint NOT NULL,
    account_id uuid NOT NULL
);

CREATE TABLE public.billing_ledgerroot (
    number bigint NOT NULL,
    hour timestamp with time zone NOT NULL,
    size bigint NOT NULL,
    statement text NOT NULL,
    signature bytea NOT NULL,
    parts bytea NOT NULL
);

CREATE TABLE public.billing_manualentry (
    entry_id uuid NOT NULL,
    type character varying(20) NOT NULL,
    amount_nanos bigint NOT NULL,
    reference character varying(255) NOT NULL COLLATE pg_catalog."C",
    metadata jsonb NOT NULL,
    operator character varying(200) NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    account_id uuid NOT NULL,
    issued_by_id bigint,
    CONSTRAINT a_manual_entry_names_who_booked_it CHECK ((((issued_by_id IS NOT NULL) AND ((operator)::text = ''::text)) OR ((issued_by_id IS NULL) AND (NOT ((operator)::text = ''::text)))))
);

CREATE TABLE public.billing_membership (
    id bigint NOT NULL,
    role character varying(10) DEFAULT 'OWNER'::character varying NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    account_id uuid NOT NULL,
    user_id bigint NOT NULL,
    CONSTRAINT a_member_has_a_role CHECK (((role)::text = ANY ((ARRAY['OWNER'::character varying, 'DEVELOPER'::character varying, 'BILLING'::character varying, 'VIEWER'::character varying])::text[])))
);

ALTER TABLE public.billing_membership ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.billing_membership_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.billing_membershipchange (
    id bigint NOT NULL,
    account_id uuid NOT NULL,
    user_id bigint NOT NULL,
    role character varying(10) NOT NULL,
    changed_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL
);

ALTER TABLE public.billing_membershipchange ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.billing_membershipchange_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.billing_ownerrequest (
    id uuid NOT NULL,
    reason character varying(500) NOT NULL,
    ticket character varying(100) NOT NULL,
    requested_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    decision character varying(8) NOT NULL,
    decided_at timestamp with time zone,
    decision_reason character varying(500) NOT NULL,
    account_id uuid NOT NULL,
    decided_by_id bigint,
    requested_by_id bigint NOT NULL,
    user_id bigint NOT NULL,
    seen jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT an_owner_waits_until_it_is_decided CHECK ((((decided_at IS NULL) AND (decided_by_id IS NULL) AND ((decision)::text = ''::text)) OR ((decided_at IS NOT NULL) AND (decided_by_id IS NOT NULL) AND ((decision)::text = ANY ((ARRAY['APPROVED'::character varying, 'DECLINED'::character varying])::text[]))))),
    CONSTRAINT nobody_approves_an_owner_they_asked_for CHECK (((NOT ((decision)::text = 'APPROVED'::text)) OR (NOT ((decided_by_id = requested_by_id) AND (decided_by_id IS NOT NULL)))))
);

CREATE TABLE public.billing_passwordlink (
    id uuid NOT NULL,
    digest character varying(64) NOT NULL COLLATE pg_catalog."C",
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    used_at timestamp with time zone,
    revoked_at timestamp with time zone,
    sent_by_id bigint,
    user_id bigint NOT NULL
);

CREATE TABLE public.billing_payment (
    id uuid NOT NULL,
    amount_cents bigint NOT NULL,
    currency character varying(3) NOT NULL,
    processor character varying(20) NOT NULL,
    is_live boolean NOT NULL,
    status character varying(10) NOT NULL,
    failure character varying(300) NOT NULL,
    session_id character varying(255) COLLATE pg_catalog."C",
    intent_id character varying(255) COLLATE pg_catalog."C",
    page_url text NOT NULL,
    refunded_cents bigint NOT NULL,
    disputed_cents bigint NOT NULL,
    debited_cents bigint NOT NULL,
    debits integer NOT NULL,
    revision integer NOT NULL,
    receipt_number integer,
    billed_to jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    paid_at timestamp with time zone,
    asked_at timestamp with time zone,
    account_id uuid NOT NULL,
    created_by_id bigint,
    credit_id uuid,
    disputed_at timestamp with time zone,
    refusal text DEFAULT ''::text NOT NULL,
    events_digest character varying(64),
    CONSTRAINT a_payment_is_of_some_amount CHECK ((amount_cents > 0)),
    CONSTRAINT a_payment_is_paid_when_it_is_credited CHECK ((((credit_id IS NOT NULL) AND (paid_at IS NOT NULL) AND (receipt_number IS NOT NULL) AND ((status)::text = 'PAID'::text)) OR ((NOT ((status)::text = 'PAID'::text)) AND (credit_id IS NULL) AND (paid_at IS NULL) AND (receipt_number IS NULL)))),
    CONSTRAINT a_refund_or_dispute_is_never_negative CHECK (((disputed_cents >= 0) AND (refunded_cents >= 0))),
    CONSTRAINT no_more_is_taken_back_than_was_paid CHECK (((debited_cents >= 0) AND (debited_cents <= amount_cents))),
    CONSTRAINT only_what_was_paid_is_taken_back CHECK ((((status)::text = 'PAID'::text) OR (debited_cents = 0)))
);

CREATE TABLE public.billing_paymentdifference (
    id bigint NOT NULL,
    processor character varying(20) NOT NULL,
    subject character varying(255) NOT NULL COLLATE pg_catalog."C",
    sentence text NOT NULL,
    found_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    gone_at timestamp with time zone,
    payment_id uuid
);

ALTER TABLE public.billing_paymentdifference ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.billing_paymentdifference_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.billing_paymentevent (
    id bigint NOT NULL,
    processor character varying(20) NOT NULL,
    event_id character varying(255) NOT NULL COLLATE pg_catalog."C",
    type character varying(100) NOT NULL,
    outcome character varying(10) NOT NULL,
    note text NOT NULL,
    received_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    payment_id uuid
);

ALTER TABLE public.billing_paymentevent ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.billing_paymentevent_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.billing_retentionmark (
    what character varying(20) NOT NULL,
    since date NOT NULL
);

CREATE TABLE public.billing_rootkey (
    id character varying(43) NOT NULL,
    public_key bytea NOT NULL,
    sealed_secret text NOT NULL,
    made_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL
);

CREATE TABLE public.billing_secondfactorrequest (
    id uuid NOT NULL,
    reason character varying(500) NOT NULL,
    ticket character varying(100) NOT NULL,
    requested_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    decision character varying(8) NOT NULL,
    decided_at timestamp with time zone,
    decision_reason character varying(500) NOT NULL,
    account_id uuid NOT NULL,
    decided_by_id bigint,
    requested_by_id bigint NOT NULL,
    user_id bigint NOT NULL,
    seen jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT a_removal_waits_until_it_is_decided CHECK ((((decided_at IS NULL) AND (decided_by_id IS NULL) AND ((decision)::text = ''::text)) OR ((decided_at IS NOT NULL) AND (decided_by_id IS NOT NULL) AND ((decision)::text = ANY ((ARRAY['APPROVED'::character varying, 'DECLINED'::character varying])::text[]))))),
    CONSTRAINT nobody_approves_a_removal_they_asked_for CHECK (((NOT ((decision)::text = 'APPROVED'::text)) OR (NOT ((decided_by_id = requested_by_id) AND (decided_by_id IS NOT NULL)))))
);

CREATE TABLE public.billing_signinlimit (
    digest character varying(64) NOT NULL COLLATE pg_catalog."C",
    full_at timestamp with time zone NOT NULL,
    email_digest character varying(64) DEFAULT ''::character varying NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE public.billing_topuprule (
    account_id uuid NOT NULL,
    is_on boolean NOT NULL,
    threshold_cents bigint NOT NULL,
    amount_cents bigint NOT NULL,
    month_cents_max bigint NOT NULL,
    base_url character varying(300) DEFAULT ''::character varying NOT NULL,
    processor character varying(20) NOT NULL,
    customer_id character varying(255) NOT NULL,
    method_id character varying(255) NOT NULL,
    card character varying(100) NOT NULL,
    declines integer NOT NULL,
    next_try_at timestamp with time zone,
    stopped_because character varying(300) NOT NULL,
    attempt_id uuid,
    card_payment_id uuid,
    set_by_id bigint NOT NULL,
    card_at timestamp with time zone,
    stop_told character varying(20) DEFAULT ''::character varying NOT NULL,
    stopped_by character varying(20) DEFAULT ''::character varying NOT NULL,
    CONSTRAINT a_top_up_fits_in_its_month CHECK (((amount_cents > 0) AND (month_cents_max >= amount_cents) AND (threshold_cents >= 0))),
    CONSTRAINT a_top_up_that_is_on_has_a_card CHECK (((NOT is_on) OR (NOT ((method_id)::text = ''::text))))
);

CREATE TABLE public.billing_user (
    id bigint NOT NULL,
    password character varying(128) NOT NULL,
    last_login timestamp with time zone,
    is_superuser boolean NOT NULL,
    first_name character varying(150) NOT NULL,
    last_name character varying(150) NOT NULL,
    is_staff boolean NOT NULL,
    is_active boolean NOT NULL,
    date_joined timestamp with time zone NOT NULL,
    email character varying(254) NOT NULL,
    last_code_step bigint DEFAULT 0 NOT NULL,
    links_generation integer DEFAULT 0 NOT NULL,
    sessions_generation integer DEFAULT 0 NOT NULL,
    CONSTRAINT an_email_is_stored_in_lower_case CHECK (((email)::text = lower((email)::text)))
);

CREATE TABLE public.billing_user_groups (
    id bigint NOT NULL,
    user_id bigint NOT NULL,
    group_id integer NOT NULL
);

ALTER TABLE public.billing_user_groups ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.billing_user_groups_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE public.billing_user ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.billing_user_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.billing_user_user_permissions (
    id bigint NOT NULL,
    user_id bigint NOT NULL,
    permission_id integer NOT NULL
);

ALTER TABLE public.billing_user_user_permissions ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.billing_user_user_permissions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.billing_warningdelivery (
    id uuid NOT NULL,
    email character varying(254) NOT NULL,
    state character varying(10) NOT NULL,
    tries integer NOT NULL,
    next_try_at timestamp with time zone,
    attempts jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    warning_id uuid NOT NULL,
    endpoint_id uuid,
    CONSTRAINT a_delivery_has_one_way CHECK (((((email)::text = ''::text) AND (endpoint_id IS NOT NULL)) OR ((endpoint_id IS NULL) AND (NOT ((email)::text = ''::text))))),
    CONSTRAINT only_a_waiting_delivery_is_tried CHECK ((((next_try_at IS NOT NULL) AND ((state)::text = 'WAITING'::text)) OR ((NOT ((state)::text = 'WAITING'::text)) AND (next_try_at IS NULL))))
);

CREATE TABLE public.billing_webhookendpoint (
    id uuid NOT NULL,
    url character varying(500) NOT NULL,
    sealed_secret character varying(500) NOT NULL,
    sealed_previous_secret character varying(500) NOT NULL,
    previous_until timestamp with time zone,
    is_paused boolean NOT NULL,
    failing_since timestamp with time zone,
    disabled_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    account_id uuid NOT NULL
);

CREATE TABLE public.cells_accountplace (
    account_id uuid NOT NULL,
    cell smallint NOT NULL,
    CONSTRAINT cells_accountplace_cell_check CHECK ((cell >= 0))
);

CREATE TABLE public.cells_cell (
    number smallint NOT NULL,
    is_open boolean NOT NULL,
    added_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    CONSTRAINT cells_cell_number_check CHECK ((number >= 0)),
    CONSTRAINT the_first_cell_has_no_row CHECK (((number > 1) AND (number < 3844)))
);

CREATE TABLE public.cells_reference (
    id bigint NOT NULL,
    kind character varying(20) NOT NULL,
    value character varying(255) NOT NULL COLLATE pg_catalog."C",
    account_id uuid NOT NULL
);

ALTER TABLE public.cells_reference ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.cells_reference_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.cells_signedday (
    cell smallint NOT NULL,
    day date NOT NULL,
    digest character varying(64) NOT NULL,
    CONSTRAINT cells_signedday_cell_check CHECK ((cell >= 0))
);

CREATE TABLE public.cells_userplace (
    id bigint NOT NULL,
    cell smallint NOT NULL,
    user_id bigint NOT NULL,
    CONSTRAINT cells_userplace_cell_check CHECK ((cell >= 0))
);

ALTER TABLE public.cells_userplace ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.cells_userplace_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.completions_bill (
    id bigint NOT NULL,
    file_name character varying(200) NOT NULL,
    format character varying(60) NOT NULL,
    sha256 character varying(64) NOT NULL,
    lines bigint NOT NULL,
    total_usd numeric(60,30) NOT NULL,
    rounding_usd numeric(60,30) NOT NULL,
    left_out jsonb NOT NULL,
    begun_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    finished_at timestamp with time zone,
    provider_id character varying(50) NOT NULL,
    days date[] DEFAULT '{}'::date[] NOT NULL
);

ALTER TABLE public.completions_bill ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.completions_bill_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.completions_billcomparison (
    id bigint NOT NULL,
    day date NOT NULL,
    name character varying(300) NOT NULL,
    completions bigint NOT NULL,
    lines bigint NOT NULL,
    charged_nanos bigint NOT NULL,
    expected_nanos bigint,
    billed_usd numeric(60,30) NOT NULL,
    reasons jsonb NOT NULL,
    unexplained_usd numeric(60,30) NOT NULL,
    finding character varying(20) NOT NULL,
    compared_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    bill_id bigint NOT NULL,
    provider_id character varying(50) NOT NULL,
    hours jsonb DEFAULT '[]'::jsonb NOT NULL,
    hours_usd numeric(60,30) DEFAULT 0 NOT NULL,
    CONSTRAINT a_comparison_has_something CHECK (((completions > 0) OR (lines > 0) OR (NOT (charged_nanos = 0))))
);

ALTER TABLE public.completions_billcomparison ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.completions_billcomparison_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.completions_billedmodel (
    id bigint NOT NULL,
    name character varying(300) NOT NULL,
    model_id character varying(200) NOT NULL,
    provider_id character varying(50) NOT NULL
);

ALTER TABLE public.completions_billedmodel ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.completions_billedmodel_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.completions_billline (
    id bigint NOT NULL,
    day date NOT NULL,
    name character varying(300) NOT NULL,
    account character varying(500) NOT NULL,
    request_id character varying(100) NOT NULL,
    tokens bigint,
    cost_usd numeric(60,30) NOT NULL,
    lines bigint NOT NULL,
    first_line bigint NOT NULL,
    bill_id bigint NOT NULL,
    hour smallint,
    CONSTRAINT completions_billline_hour_check CHECK ((hour >= 0))
);

ALTER TABLE public.completions_billline ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.completions_billline_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.completions_catalogproposal (
    id bigint NOT NULL,
    upstream_model character varying(200) NOT NULL,
    kind character varying(20) NOT NULL,
    old jsonb NOT NULL,
    new jsonb NOT NULL,
    state character varying(20) NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    decided_at timestamp with time zone,
    decided_by_id bigint,
    model_id character varying(200),
    provider_id character varying(50) NOT NULL,
    CONSTRAINT a_proposal_is_about_a_model_or_a_new_one CHECK ((((kind)::text = 'new_model'::text) OR (model_id IS NOT NULL))),
    CONSTRAINT a_proposal_waits_until_it_is_decided CHECK ((((decided_at IS NULL) AND ((state)::text = 'pending'::text)) OR ((NOT ((state)::text = 'pending'::text)) AND (decided_at IS NOT NULL))))
);

ALTER TABLE public.completions_catalogproposal ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.completions_catalogproposal_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.completions_completion (
    id character varying(64) NOT NULL COLLATE pg_catalog."C",
    is_stream boolean NOT NULL,
    spending_day date NOT NULL,
    counted_tokens bigint NOT NULL,
    prompt_estimate bigint NOT NULL,
    images integer NOT NULL,
    limit_nanos bigint,
    limit_since date,
    repeats character varying(64),
    charged_before_nanos bigint DEFAULT 0 NOT NULL,
    relayed_bytes bigint,
    checkpointed_at timestamp with time zone,
    settlement character varying(10),
    prompt_tokens bigint,
    cached_tokens bigint,
    cache_write_tokens bigint,
    completion_tokens bigint,
    cost_nanos bigint,
    attempts smallint,
    first_token_ms integer,
    streamed_ms integer,
    failed_attempts jsonb,
    request_id character varying(40) COLLATE pg_catalog."C",
    provider_request_id character varying(100) COLLATE pg_catalog."C",
    end_user character varying(512),
    tags jsonb,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    finished_at timestamp with time zone,
    account_id uuid NOT NULL,
    key_id character varying(22) NOT NULL,
    model_id character varying(200) NOT NULL,
    price_id bigint NOT NULL,
    provider_id character varying(50) NOT NULL,
    cache_write_1h_tokens bigint,
    service_tier character varying(10),
    web_searches bigint,
    held_nanos bigint,
    other_counts jsonb,
    run character varying(100) COLLATE pg_catalog."C",
    run_budget_nanos bigint,
    budgets jsonb,
    data_demanded jsonb,
    data_promised jsonb,
    own_key_fee integer,
    provider_held_nanos bigint DEFAULT 0 NOT NULL,
    provider_nanos bigint,
    counts_price boolean,
    CONSTRAINT a_completion_is_finished_when_it_is_settled CHECK ((((finished_at IS NULL) AND (settlement IS NULL)) OR ((finished_at IS NOT NULL) AND (settlement IS NOT NULL)))),
    CONSTRAINT completions_completion_attempts_check CHECK ((attempts >= 0)),
    CONSTRAINT completions_completion_first_token_ms_check CHECK ((first_token_ms >= 0)),
    CONSTRAINT completions_completion_images_check CHECK ((images >= 0)),
    CONSTRAINT completions_completion_streamed_ms_check CHECK ((streamed_ms >= 0))
);

CREATE TABLE public.completions_completionhour (
    hour timestamp with time zone NOT NULL,
    completions bigint NOT NULL,
    cost_nanos bigint NOT NULL,
    first_token_p50_ms integer,
    first_token_p99_ms integer,
    CONSTRAINT completions_completionhour_first_token_p50_ms_check CHECK ((first_token_p50_ms >= 0)),
    CONSTRAINT completions_completionhour_first_token_p99_ms_check CHECK ((first_token_p99_ms >= 0))
);

CREATE TABLE public.completions_firsttokenhour (
    id bigint NOT NULL,
    hour timestamp with time zone NOT NULL,
    milliseconds integer NOT NULL,
    streams bigint NOT NULL
);

ALTER TABLE public.completions_firsttokenhour ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.completions_firsttokenhour_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.completions_idempotentrequest (
    id bigint NOT NULL,
    key character varying(255) NOT NULL,
    fingerprint character varying(64) NOT NULL,
    is_stream boolean NOT NULL,
    sealed_reply text,
    reply_bytes integer DEFAULT 0 NOT NULL,
    is_too_large boolean NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    account_id uuid NOT NULL,
    completion_id character varying(64) NOT NULL COLLATE pg_catalog."C"
);

ALTER TABLE public.completions_idempotentrequest ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.completions_idempotentrequest_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.completions_incident (
    id bigint NOT NULL,
    title character varying(200) NOT NULL,
    impact character varying(20) NOT NULL,
    began_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT an_incident_ends_after_it_began CHECK (((ended_at IS NULL) OR (ended_at >= began_at)))
);

ALTER TABLE public.completions_incident ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.completions_incident_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.completions_incidentupdate (
    id bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    text text NOT NULL,
    incident_id bigint NOT NULL
);

ALTER TABLE public.completions_incidentupdate ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.completions_incidentupdate_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.completions_labelday (
    id bigint NOT NULL,
    requests bigint NOT NULL,
    errors bigint NOT NULL,
    prompt_tokens bigint NOT NULL,
    completion_tokens bigint NOT NULL,
    cost_nanos bigint NOT NULL,
    first_tokens bigint NOT NULL,
    first_token_ms bigint NOT NULL,
    name character varying(64) NOT NULL COLLATE pg_catalog."C",
    value character varying(512) NOT NULL COLLATE pg_catalog."C",
    day date NOT NULL,
    account_id uuid NOT NULL
);

ALTER TABLE public.completions_labelday ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.completions_labelday_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.completions_labelhour (
    id bigint NOT NULL,
    hour timestamp with time zone NOT NULL,
    requests bigint NOT NULL,
    errors bigint NOT NULL,
    prompt_tokens bigint NOT NULL,
    completion_tokens bigint NOT NULL,
    cost_nanos bigint NOT NULL,
    first_tokens bigint NOT NULL,
    first_token_ms bigint NOT NULL,
    name character varying(64) NOT NULL COLLATE pg_catalog."C",
    value character varying(512) NOT NULL COLLATE pg_catalog."C",
    account_id uuid NOT NULL
);

ALTER TABLE public.completions_labelhour ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.completions_labelhour_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.completions_languagemodel (
    id character varying(200) NOT NULL,
    name character varying(200) NOT NULL,
    maker character varying(100) NOT NULL,
    kind character varying(10) DEFAULT 'chat'::character varying NOT NULL,
    category character varying(20) NOT NULL,
    context_window integer NOT NULL,
    max_output_tokens integer NOT NULL,
    image_support boolean NOT NULL,
    image_tokens_max integer NOT NULL,
    function_calling boolean NOT NULL,
    reasoning boolean,
    requests_in_flight_max integer,
    commercial_use boolean NOT NULL,
    license character varying(100),
    is_enabled boolean NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    ends_on date,
    successor_id character varying(200),
    end_set_at timestamp with time zone,
    CONSTRAINT a_model_may_have_requests_in_flight CHECK (((requests_in_flight_max IS NULL) OR (requests_in_flight_max >= 1))),
    CONSTRAINT a_model_reads_and_writes_something CHECK (((context_window >= 1) AND (max_output_tokens >= 1))),
    CONSTRAINT a_model_writes_within_its_context_window CHECK ((max_output_tokens <= context_window)),
    CONSTRAINT completions_languagemodel_context_window_check CHECK ((context_window >= 0)),
    CONSTRAINT completions_languagemodel_image_tokens_max_check CHECK ((image_tokens_max >= 0)),
    CONSTRAINT completions_languagemodel_max_output_tokens_check CHECK ((max_output_tokens >= 0)),
    CONSTRAINT completions_languagemodel_requests_in_flight_max_check CHECK ((requests_in_flight_max >= 0))
);

CREATE TABLE public.completions_ownkey (
    id uuid NOT NULL,
    sealed_secret text NOT NULL,
    hint character varying(4) NOT NULL,
    model_ids character varying(200)[] NOT NULL,
    falls_back boolean NOT NULL,
    check_words character varying(200) NOT NULL,
    added_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    account_id uuid NOT NULL,
    provider_id character varying(50) NOT NULL,
    counts_price boolean DEFAULT false NOT NULL,
    promised character varying(10) DEFAULT ''::character varying NOT NULL
);

CREATE TABLE public.completions_price (
    id bigint NOT NULL,
    effective_from timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    input_nanos bigint NOT NULL,
    output_nanos bigint NOT NULL,
    cached_input_nanos bigint,
    cache_write_nanos bigint,
    image_nanos bigint,
    model_id character varying(200) NOT NULL,
    cache_write_1h_nanos bigint,
    flex_input_nanos bigint,
    flex_cached_input_nanos bigint,
    flex_output_nanos bigint,
    priority_input_nanos bigint,
    priority_cached_input_nanos bigint,
    priority_output_nanos bigint,
    web_search_nanos bigint,
    rates jsonb NOT NULL,
    CONSTRAINT a_flex_tier_has_whole_prices CHECK ((((flex_cached_input_nanos IS NULL) AND (flex_input_nanos IS NULL) AND (flex_output_nanos IS NULL)) OR ((flex_input_nanos >= 0) AND (flex_input_nanos IS NOT NULL) AND (flex_output_nanos >= 0) AND (flex_output_nanos IS NOT NULL) AND ((flex_cached_input_nanos IS NULL) OR (flex_cached_input_nanos >= 0))))),
    CONSTRAINT a_price_has_rates CHECK (((rates IS NOT NULL) AND (jsonb_typeof(rates) = 'array'::text) AND (rates @? '$[*]?((@."meter" == "input" && @."tier" == "") && @."above" == 0)'::jsonpath) AND (rates @? '$[*]?((@."meter" == "output" && @."tier" == "") && @."above" == 0)'::jsonpath) AND (NOT (rates @? '$[*]?(!(((((((@."meter".type() == "string" && @."tier".type() == "string") && @."nanos".type() == "number") && @."nanos" >= 0) && @."nanos".floor() == @."nanos") && @."above".type() == "number") && @."above" >= 0) && @."above".floor() == @."above"))'::jsonpath)))),
    CONSTRAINT a_price_is_never_negative CHECK (((input_nanos >= 0) AND (output_nanos >= 0) AND ((cached_input_nanos IS NULL) OR (cached_input_nanos >= 0)) AND ((cache_write_nanos IS NULL) OR (cache_write_nanos >= 0)) AND ((image_nanos IS NULL) OR (image_nanos >= 0)))),
    CONSTRAINT a_price_of_a_search_is_never_negative CHECK (((web_search_nanos IS NULL) OR (web_search_nanos >= 0))),
    CONSTRAINT a_price_of_an_hour_is_never_negative CHECK (((cache_write_1h_nanos IS NULL) OR (cache_write_1h_nanos >= 0))),
    CONSTRAINT a_priority_tier_has_whole_prices CHECK ((((priority_cached_input_nanos IS NULL) AND (priority_input_nanos IS NULL) AND (priority_output_nanos IS NULL)) OR ((priority_input_nanos >= 0) AND (priority_input_nanos IS NOT NULL) AND (priority_output_nanos >= 0) AND (priority_output_nanos IS NOT NULL) AND ((priority_cached_input_nanos IS NULL) OR (priority_cached_input_nanos >= 0)))))
);

ALTER TABLE public.completions_price ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.completions_price_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.completions_pricerequest (
    id uuid NOT NULL,
    ticket character varying(100) NOT NULL,
    requested_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    decision character varying(8) NOT NULL,
    decided_at timestamp with time zone,
    decision_reason character varying(500) NOT NULL,
    input_nanos bigint NOT NULL,
    output_nanos bigint NOT NULL,
    cached_input_nanos bigint,
    cache_write_nanos bigint,
    cache_write_1h_nanos bigint,
    flex_input_nanos bigint,
    flex_cached_input_nanos bigint,
    flex_output_nanos bigint,
    priority_input_nanos bigint,
    priority_cached_input_nanos bigint,
    priority_output_nanos bigint,
    image_nanos bigint,
    web_search_nanos bigint,
    reason character varying(500) NOT NULL,
    starts_at timestamp with time zone,
    before_id bigint,
    decided_by_id bigint,
    model_id character varying(200) NOT NULL,
    price_id bigint,
    requested_by_id bigint NOT NULL,
    seen jsonb DEFAULT '{}'::jsonb NOT NULL,
    rates jsonb NOT NULL,
    CONSTRAINT a_price_waits_until_it_is_decided CHECK ((((decided_at IS NULL) AND (decided_by_id IS NULL) AND ((decision)::text = ''::text)) OR ((decided_at IS NOT NULL) AND (decided_by_id IS NOT NULL) AND ((decision)::text = ANY ((ARRAY['APPROVED'::character varying, 'DECLINED'::character varying])::text[]))))),
    CONSTRAINT a_pricerequest_has_rates CHECK (((rates IS NOT NULL) AND (jsonb_typeof(rates) = 'array'::text) AND (rates @? '$[*]?((@."meter" == "input" && @."tier" == "") && @."above" == 0)'::jsonpath) AND (rates @? '$[*]?((@."meter" == "output" && @."tier" == "") && @."above" == 0)'::jsonpath) AND (NOT (rates @? '$[*]?(!(((((((@."meter".type() == "string" && @."tier".type() == "string") && @."nanos".type() == "number") && @."nanos" >= 0) && @."nanos".floor() == @."nanos") && @."above".type() == "number") && @."above" >= 0) && @."above".floor() == @."above"))'::jsonpath)))),
    CONSTRAINT nobody_approves_a_price_they_asked_for CHECK (((NOT ((decision)::text = 'APPROVED'::text)) OR (NOT ((decided_by_id = requested_by_id) AND (decided_by_id IS NOT NULL))))),
    CONSTRAINT only_an_approved_price_is_set CHECK (((((decision)::text = 'APPROVED'::text) AND (price_id IS NOT NULL)) OR ((NOT ((decision)::text = 'APPROVED'::text)) AND (price_id IS NULL))))
);

CREATE TABLE public.completions_provider (
    slug character varying(50) NOT NULL,
    kind character varying(10) NOT NULL,
    base_url character varying(200) NOT NULL,
    api_key_env character varying(100) NOT NULL,
    sealed_api_key text NOT NULL,
    is_enabled boolean NOT NULL,
    connect_seconds integer,
    first_byte_seconds integer,
    idle_seconds integer,
    total_seconds integer,
    cancels boolean DEFAULT false NOT NULL,
    passes_unknown_fields boolean DEFAULT false NOT NULL,
    sync character varying(10) NOT NULL,
    refused_key character varying(64) DEFAULT ''::character varying NOT NULL,
    key_refused_at timestamp with time zone,
    key_refusal character varying(400) DEFAULT ''::character varying NOT NULL,
    access jsonb DEFAULT '{}'::jsonb NOT NULL,
    region character varying(10) DEFAULT ''::character varying NOT NULL,
    retention_days integer,
    trains boolean,
    bill_accounts character varying(500)[] DEFAULT '{}'::character varying(500)[] NOT NULL,
    CONSTRAINT a_provider_has_at_least_a_second CHECK ((((connect_seconds IS NULL) OR (connect_seconds >= 1)) AND ((first_byte_seconds IS NULL) OR (first_byte_seconds >= 1)) AND ((idle_seconds IS NULL) OR (idle_seconds >= 1)) AND ((total_seconds IS NULL) OR (total_seconds >= 1)))),
    CONSTRAINT completions_provider_connect_seconds_check CHECK ((connect_seconds >= 0)),
    CONSTRAINT completions_provider_first_byte_seconds_check CHECK ((first_byte_seconds >= 0)),
    CONSTRAINT completions_provider_idle_seconds_check CHECK ((idle_seconds >= 0)),
    CONSTRAINT completions_provider_retention_days_check CHECK ((retention_days >= 0)),
    CONSTRAINT completions_provider_total_seconds_check CHECK ((total_seconds >= 0))
);

CREATE TABLE public.completions_providerday (
    id bigint NOT NULL,
    day date NOT NULL,
    service_tier character varying(10) NOT NULL,
    completions bigint NOT NULL,
    charged_nanos bigint NOT NULL,
    prompt_tokens bigint NOT NULL,
    cached_tokens bigint NOT NULL,
    cache_write_tokens bigint NOT NULL,
    cache_write_1h_tokens bigint NOT NULL,
    completion_tokens bigint NOT NULL,
    images bigint NOT NULL,
    web_searches bigint NOT NULL,
    model_id character varying(200) NOT NULL,
    provider_id character varying(50) NOT NULL,
    bands jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT a_day_has_bands CHECK (((jsonb_typeof(bands) = 'object'::text) AND (NOT (bands @? '$.keyvalue()?(!(@."key" like_regex "^[0-9]{1,10}$"))'::jsonpath)) AND (NOT (bands @? '$.*?(@.type() != "object")'::jsonpath)) AND (NOT (bands @? '$.*.*?(@.type() != "number")'::jsonpath))))
);

ALTER TABLE public.completions_providerday ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.completions_providerday_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.completions_providerprice (
    id bigint NOT NULL,
    input_nanos bigint NOT NULL,
    output_nanos bigint NOT NULL,
    cached_input_nanos bigint,
    cache_write_nanos bigint,
    cache_write_1h_nanos bigint,
    flex_input_nanos bigint,
    flex_cached_input_nanos bigint,
    flex_output_nanos bigint,
    priority_input_nanos bigint,
    priority_cached_input_nanos bigint,
    priority_output_nanos bigint,
    image_nanos bigint,
    web_search_nanos bigint,
    since date NOT NULL,
    model_id character varying(200) NOT NULL,
    provider_id character varying(50) NOT NULL,
    rates jsonb NOT NULL,
    CONSTRAINT a_providerprice_has_rates CHECK (((rates IS NOT NULL) AND (jsonb_typeof(rates) = 'array'::text) AND (rates @? '$[*]?((@."meter" == "input" && @."tier" == "") && @."above" == 0)'::jsonpath) AND (rates @? '$[*]?((@."meter" == "output" && @."tier" == "") && @."above" == 0)'::jsonpath) AND (NOT (rates @? '$[*]?(!(((((((@."meter".type() == "string" && @."tier".type() == "string") && @."nanos".type() == "number") && @."nanos" >= 0) && @."nanos".floor() == @."nanos") && @."above".type() == "number") && @."above" >= 0) && @."above".floor() == @."above"))'::jsonpath)))),
    CONSTRAINT a_providers_flex_tier_has_whole_prices CHECK ((((flex_cached_input_nanos IS NULL) AND (flex_input_nanos IS NULL) AND (flex_output_nanos IS NULL)) OR ((flex_input_nanos >= 0) AND (flex_input_nanos IS NOT NULL) AND (flex_output_nanos >= 0) AND (flex_output_nanos IS NOT NULL) AND ((flex_cached_input_nanos IS NULL) OR (flex_cached_input_nanos >= 0))))),
    CONSTRAINT a_providers_price_is_never_negative CHECK (((input_nanos >= 0) AND (output_nanos >= 0) AND ((cached_input_nanos IS NULL) OR (cached_input_nanos >= 0)) AND ((cache_write_nanos IS NULL) OR (cache_write_nanos >= 0)) AND ((cache_write_1h_nanos IS NULL) OR (cache_write_1h_nanos >= 0)) AND ((image_nanos IS NULL) OR (image_nanos >= 0)) AND ((web_search_nanos IS NULL) OR (web_search_nanos >= 0)))),
    CONSTRAINT a_providers_priority_tier_has_whole_prices CHECK ((((priority_cached_input_nanos IS NULL) AND (priority_input_nanos IS NULL) AND (priority_output_nanos IS NULL)) OR ((priority_input_nanos >= 0) AND (priority_input_nanos IS NOT NULL) AND (priority_output_nanos >= 0) AND (priority_output_nanos IS NOT NULL) AND ((priority_cached_input_nanos IS NULL) OR (priority_cached_input_nanos >= 0)))))
);

ALTER TABLE public.completions_providerprice ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.completions_providerprice_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.completions_routablealias (
    id character varying(200) NOT NULL,
    model_ids character varying(200)[] NOT NULL,
    qualities double precision[] DEFAULT '{}'::double precision[] NOT NULL,
    ranked_on date,
    updated_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL
);

CREATE TABLE public.completions_route (
    id bigint NOT NULL,
    upstream_model character varying(200) NOT NULL,
    priority smallint NOT NULL,
    weight smallint NOT NULL,
    is_enabled boolean NOT NULL,
    rests_until timestamp with time zone,
    model_id character varying(200) NOT NULL,
    provider_id character varying(50) NOT NULL,
    api character varying(10) DEFAULT 'chat'::character varying NOT NULL,
    rules jsonb DEFAULT '{}'::jsonb NOT NULL,
    unrated_tier character varying(40) DEFAULT ''::character varying NOT NULL,
    unrated_tier_at timestamp with time zone,
    region character varying(10) DEFAULT ''::character varying NOT NULL,
    retention_days integer,
    trains boolean,
    CONSTRAINT a_route_has_a_weight CHECK ((weight >= 1)),
    CONSTRAINT completions_route_priority_check CHECK ((priority >= 0)),
    CONSTRAINT completions_route_retention_days_check CHECK ((retention_days >= 0)),
    CONSTRAINT completions_route_weight_check CHECK ((weight >= 0))
);

ALTER TABLE public.completions_route ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.completions_route_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.completions_storedresponse (
    completion_id character varying(64) NOT NULL COLLATE pg_catalog."C",
    previous_id character varying(64) COLLATE pg_catalog."C",
    sealed_input text,
    sealed_output text,
    sealed_reply text,
    stored_bytes integer DEFAULT 0 NOT NULL,
    is_background boolean DEFAULT false NOT NULL,
    cancelled_at timestamp with time zone,
    expires_at timestamp with time zone NOT NULL,
    account_id uuid NOT NULL
);

CREATE TABLE public.completions_upstreamlist (
    provider_id character varying(50) NOT NULL,
    url character varying(250) NOT NULL,
    etag character varying(200) NOT NULL,
    body text NOT NULL,
    confirmed_at timestamp with time zone,
    failure character varying(200) NOT NULL,
    retry_at timestamp with time zone
);

CREATE TABLE public.completions_uptimesums (
    id bigint NOT NULL,
    is_day boolean NOT NULL,
    since timestamp with time zone NOT NULL,
    kind character varying(10) NOT NULL COLLATE pg_catalog."C",
    subject character varying(200) NOT NULL COLLATE pg_catalog."C",
    answered bigint NOT NULL,
    failed bigint NOT NULL
);

ALTER TABLE public.completions_uptimesums ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.completions_uptimesums_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.completions_usagehour (
    id bigint NOT NULL,
    hour timestamp with time zone NOT NULL,
    requests bigint NOT NULL,
    errors bigint NOT NULL,
    prompt_tokens bigint NOT NULL,
    completion_tokens bigint NOT NULL,
    cost_nanos bigint NOT NULL,
    first_tokens bigint NOT NULL,
    first_token_ms bigint NOT NULL,
    key_id character varying(64) NOT NULL COLLATE pg_catalog."C",
    model_id character varying(200) NOT NULL COLLATE pg_catalog."C",
    account_id uuid NOT NULL
);

ALTER TABLE public.completions_usagehour ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.completions_usagehour_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.completions_usagemark (
    account_id uuid NOT NULL,
    last_seq bigint DEFAULT 0 NOT NULL,
    failures_until timestamp with time zone
);

CREATE TABLE public.django_admin_log (
    id integer NOT NULL,
    action_time timestamp with time zone NOT NULL,
    object_id text,
    object_repr character varying(200) NOT NULL,
    action_flag smallint NOT NULL,
    change_message text NOT NULL,
    content_type_id integer,
    user_id bigint NOT NULL,
    CONSTRAINT django_admin_log_action_flag_check CHECK ((action_flag >= 0))
);

ALTER TABLE public.django_admin_log ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_admin_log_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.django_content_type (
    id integer NOT NULL,
    app_label character varying(100) NOT NULL,
    model character varying(100) NOT NULL
);

ALTER TABLE public.django_content_type ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_content_type_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.django_migrations (
    id bigint NOT NULL,
    app character varying(255) NOT NULL,
    name character varying(255) NOT NULL,
    applied timestamp with time zone NOT NULL
);

ALTER TABLE public.django_migrations ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_migrations_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.django_session (
    session_key character varying(40) NOT NULL,
    session_data text NOT NULL,
    expire_date timestamp with time zone NOT NULL
);

CREATE TABLE public.keys_apikey (
    id character varying(22) NOT NULL,
    name character varying(100) NOT NULL,
    digest character varying(64) NOT NULL,
    last_four character varying(4) NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    paused_at timestamp with time zone,
    former_digests jsonb,
    spending_limit_cents bigint,
    spending_type character varying(10),
    spending_period character varying(10),
    raised_limit_cents bigint,
    raised_until timestamp with time zone,
    requests_per_minute integer,
    tokens_per_minute integer,
    requests_in_flight_max integer,
    requests_full_at timestamp with time zone,
    tokens_full_at timestamp with time zone,
    tokens_owed bigint DEFAULT 0 NOT NULL,
    allowed_models character varying(200)[],
    tags character varying(40)[],
    account_id uuid NOT NULL,
    created_by_id bigint,
    data_policy character varying(10) DEFAULT ''::character varying NOT NULL,
    data_regions character varying(2)[],
    CONSTRAINT a_key_may_run_at_least_one_request CHECK (((requests_in_flight_max IS NULL) OR (requests_in_flight_max >= 1))),
    CONSTRAINT a_limit_fits_in_nanodollars CHECK (((spending_limit_cents IS NULL) OR (spending_limit_cents <= '922337203685'::bigint))),
    CONSTRAINT a_limit_has_a_type_and_only_a_recurring_one_a_period CHECK ((((spending_limit_cents IS NULL) AND (spending_period IS NULL) AND (spending_type IS NULL)) OR ((spending_limit_cents IS NOT NULL) AND ((spending_type)::text = 'FIXED'::text) AND (spending_type IS NOT NULL) AND (spending_period IS NULL)) OR ((spending_limit_cents IS NOT NULL) AND ((spending_type)::text = 'RECURRING'::text) AND (spending_type IS NOT NULL) AND ((spending_period)::text = ANY ((ARRAY['DAILY'::character varying, 'WEEKLY'::character varying, 'MONTHLY'::character varying])::text[])) AND (spending_period IS NOT NULL)))),
    CONSTRAINT a_raise_is_above_the_limit_and_ends CHECK ((((raised_limit_cents IS NULL) AND (raised_until IS NULL)) OR ((raised_limit_cents IS NOT NULL) AND (raised_until IS NOT NULL) AND (spending_limit_cents IS NOT NULL) AND (raised_limit_cents > spending_limit_cents) AND (raised_limit_cents <= '922337203685'::bigint)))),
    CONSTRAINT a_rate_is_at_least_one_a_minute CHECK ((((requests_per_minute IS NULL) OR (requests_per_minute >= 1)) AND ((tokens_per_minute IS NULL) OR (tokens_per_minute >= 1)))),
    CONSTRAINT keys_apikey_requests_in_flight_max_check CHECK ((requests_in_flight_max >= 0)),
    CONSTRAINT keys_apikey_requests_per_minute_check CHECK ((requests_per_minute >= 0)),
    CONSTRAINT keys_apikey_spending_limit_cents_check CHECK ((spending_limit_cents >= 0)),
    CONSTRAINT keys_apikey_tokens_per_minute_check CHECK ((tokens_per_minute >= 0))
);

CREATE TABLE public.keys_budget (
    id character varying(22) NOT NULL,
    scope character varying(10) NOT NULL,
    tag character varying(40) NOT NULL,
    amount_cents bigint NOT NULL,
    action character varying(10) NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    ended_at timestamp with time zone,
    account_id uuid NOT NULL,
    member_id bigint,
    CONSTRAINT a_budget_is_a_positive_amount CHECK (((amount_cents >= 1) AND (amount_cents <= '922337203685'::bigint))),
    CONSTRAINT a_budget_is_of_one_scope CHECK ((((member_id IS NULL) AND ((scope)::text = 'ACCOUNT'::text) AND ((tag)::text = ''::text)) OR ((member_id IS NULL) AND ((scope)::text = 'TAG'::text) AND (NOT ((tag)::text = ''::text))) OR ((member_id IS NOT NULL) AND ((scope)::text = 'MEMBER'::text) AND ((tag)::text = ''::text)))),
    CONSTRAINT a_budget_warns_or_stops CHECK (((action)::text = ANY ((ARRAY['WARN'::character varying, 'STOP'::character varying])::text[])))
);

CREATE TABLE public.keys_budgetmonth (
    id bigint NOT NULL,
    month date NOT NULL,
    amount_cents bigint NOT NULL,
    spent_nanos bigint NOT NULL,
    held_nanos bigint NOT NULL,
    budget_id character varying(22) NOT NULL,
    CONSTRAINT a_budgets_month_begins_with_its_first_day CHECK ((EXTRACT(day FROM month) = (1)::numeric)),
    CONSTRAINT a_budgets_month_is_never_negative CHECK (((held_nanos >= 0) AND (spent_nanos >= 0)))
);

ALTER TABLE public.keys_budgetmonth ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.keys_budgetmonth_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.keys_formersecret (
    id bigint NOT NULL,
    digest character varying(64) NOT NULL,
    last_four character varying(4) NOT NULL,
    rotated_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    ends_at timestamp with time zone NOT NULL,
    key_id character varying(22) NOT NULL
);

ALTER TABLE public.keys_formersecret ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.keys_formersecret_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.keys_managementkey (
    id character varying(22) NOT NULL,
    name character varying(100) NOT NULL,
    digest character varying(64) NOT NULL,
    last_four character varying(4) NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    last_used_at timestamp with time zone,
    revoked_at timestamp with time zone,
    account_id uuid NOT NULL,
    created_by_id bigint
);

CREATE TABLE public.keys_managementreply (
    id bigint NOT NULL,
    idempotency_key character varying(255) NOT NULL,
    fingerprint character varying(64) NOT NULL,
    status smallint NOT NULL,
    sealed_body text NOT NULL,
    at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    management_key_id character varying(22) NOT NULL
);

ALTER TABLE public.keys_managementreply ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.keys_managementreply_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.keys_refusalcount (
    id bigint NOT NULL,
    hour timestamp with time zone NOT NULL,
    status smallint NOT NULL,
    code character varying(50) NOT NULL,
    error character varying(50) NOT NULL,
    number bigint NOT NULL,
    key_id character varying(22) NOT NULL
);

ALTER TABLE public.keys_refusalcount ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.keys_refusalcount_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.keys_refusedrequest (
    id bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    request_id character varying(40) NOT NULL COLLATE pg_catalog."C",
    status smallint NOT NULL,
    code character varying(50) NOT NULL,
    error character varying(50) NOT NULL,
    message character varying(500) NOT NULL,
    model character varying(200) NOT NULL,
    key_id character varying(22) NOT NULL
);

ALTER TABLE public.keys_refusedrequest ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.keys_refusedrequest_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.keys_run (
    id bigint NOT NULL,
    name character varying(100) NOT NULL COLLATE pg_catalog."C",
    budget_nanos bigint NOT NULL,
    deadline timestamp with time zone,
    spent_nanos bigint NOT NULL,
    held_nanos bigint NOT NULL,
    requests bigint NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    key_id character varying(22) NOT NULL,
    CONSTRAINT a_run_stays_within_its_budget CHECK (((held_nanos >= 0) AND (spent_nanos >= 0) AND (budget_nanos >= (spent_nanos + held_nanos))))
);

ALTER TABLE public.keys_run ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.keys_run_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.keys_spendingday (
    id bigint NOT NULL,
    day date NOT NULL,
    spent_nanos bigint NOT NULL,
    held_nanos bigint NOT NULL,
    open_holds integer DEFAULT 0 NOT NULL,
    completions bigint NOT NULL,
    prompt_tokens bigint NOT NULL,
    completion_tokens bigint NOT NULL,
    key_id character varying(22) NOT NULL,
    provider_spent_nanos bigint DEFAULT 0 NOT NULL,
    provider_held_nanos bigint DEFAULT 0 NOT NULL,
    CONSTRAINT a_day_is_never_negative CHECK (((held_nanos >= 0) AND (spent_nanos >= 0))),
    CONSTRAINT a_days_open_holds_are_never_negative CHECK ((open_holds >= 0)),
    CONSTRAINT a_days_provider_prices_are_never_negative CHECK (((provider_held_nanos >= 0) AND (provider_spent_nanos >= 0)))
);

ALTER TABLE public.keys_spendingday ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.keys_spendingday_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.mfa_authenticator (
    id bigint NOT NULL,
    type character varying(20) NOT NULL,
    data jsonb NOT NULL,
    user_id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    last_used_at timestamp with time zone
);

ALTER TABLE public.mfa_authenticator ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.mfa_authenticator_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.monitoring_process (
    id uuid NOT NULL,
    host character varying(255) NOT NULL,
    role character varying(10) NOT NULL,
    pid integer NOT NULL,
    encryption_keys character varying(16)[] NOT NULL,
    peppers character varying(16)[] NOT NULL,
    gauges jsonb NOT NULL,
    seen_at timestamp with time zone NOT NULL
);

CREATE TABLE public.monitoring_taskrun (
    name character varying(100) NOT NULL COLLATE pg_catalog."C",
    finished_at timestamp with time zone NOT NULL,
    result integer
);

CREATE TABLE public.rankings_alias (
    id bigint NOT NULL,
    source character varying(20) NOT NULL,
    key_kind character varying(20) NOT NULL,
    external_key character varying(300) NOT NULL,
    method character varying(10) NOT NULL,
    confidence double precision NOT NULL,
    note text NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    model_id character varying(200),
    CONSTRAINT a_confidence_is_a_share CHECK (((confidence > (0.0)::double precision) AND (confidence <= (1.0)::double precision)))
);

ALTER TABLE public.rankings_alias ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.rankings_alias_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.rankings_dailyrank (
    id bigint NOT NULL,
    source character varying(20) NOT NULL,
    board character varying(20) NOT NULL,
    day date NOT NULL,
    rank integer NOT NULL,
    overall double precision,
    model_id character varying(200) NOT NULL,
    series character varying(40) DEFAULT ''::character varying NOT NULL,
    CONSTRAINT rankings_dailyrank_rank_check CHECK ((rank >= 0))
);

ALTER TABLE public.rankings_dailyrank ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.rankings_dailyrank_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.rankings_entry (
    id bigint NOT NULL,
    source character varying(20) NOT NULL,
    board character varying(20) NOT NULL,
    rank integer NOT NULL,
    board_rank integer NOT NULL,
    change integer NOT NULL,
    overall double precision,
    quality double precision,
    speed double precision,
    cost double precision,
    elo integer,
    mmlu double precision,
    hellaswag double precision,
    human_eval double precision,
    confidence double precision NOT NULL,
    last_updated timestamp with time zone NOT NULL,
    inputs jsonb NOT NULL,
    model_id character varying(200) NOT NULL,
    CONSTRAINT rankings_entry_board_rank_check CHECK ((board_rank >= 0)),
    CONSTRAINT rankings_entry_rank_check CHECK ((rank >= 0))
);

ALTER TABLE public.rankings_entry ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.rankings_entry_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.rankings_profile (
    model_id character varying(200) NOT NULL,
    open_weights boolean NOT NULL,
    hf_repo character varying(200) NOT NULL,
    effort character varying(10) NOT NULL
);

CREATE TABLE public.rankings_publication (
    id bigint NOT NULL,
    number bigint NOT NULL,
    changed_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL
);

ALTER TABLE public.rankings_publication ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.rankings_publication_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.rankings_snapshot (
    id bigint NOT NULL,
    source character varying(20) NOT NULL,
    taken_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    as_of timestamp with time zone NOT NULL,
    fingerprint character varying(64) NOT NULL,
    version character varying(40) NOT NULL,
    attribution text NOT NULL,
    boards jsonb DEFAULT '{}'::jsonb NOT NULL,
    held_because text DEFAULT ''::text NOT NULL,
    notes text DEFAULT ''::text NOT NULL
);

ALTER TABLE public.rankings_snapshot ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.rankings_snapshot_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.rankings_sourcestate (
    source character varying(20) NOT NULL,
    last_success_at timestamp with time zone,
    last_attempt_at timestamp with time zone,
    next_attempt_at timestamp with time zone,
    failures smallint NOT NULL,
    error text NOT NULL,
    is_refused boolean NOT NULL,
    validators jsonb NOT NULL,
    CONSTRAINT rankings_sourcestate_failures_check CHECK ((failures >= 0))
);

CREATE TABLE public.rankings_standing (
    id bigint NOT NULL,
    board character varying(20) NOT NULL,
    external_key character varying(300) NOT NULL,
    key_kind character varying(20) NOT NULL,
    name character varying(300) NOT NULL,
    organization character varying(200) NOT NULL,
    rank integer NOT NULL,
    value double precision NOT NULL,
    facts jsonb NOT NULL,
    snapshot_id bigint NOT NULL,
    CONSTRAINT rankings_standing_rank_check CHECK ((rank >= 0))
);

ALTER TABLE public.rankings_standing ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.rankings_standing_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.socialaccount_socialaccount (
    id integer NOT NULL,
    provider character varying(200) NOT NULL,
    uid character varying(191) NOT NULL,
    last_login timestamp with time zone NOT NULL,
    date_joined timestamp with time zone NOT NULL,
    extra_data jsonb NOT NULL,
    user_id bigint NOT NULL
);

ALTER TABLE public.socialaccount_socialaccount ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.socialaccount_socialaccount_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.socialaccount_socialapp (
    id integer NOT NULL,
    provider character varying(30) NOT NULL,
    name character varying(40) NOT NULL,
    client_id character varying(191) NOT NULL,
    secret character varying(191) NOT NULL,
    key character varying(191) NOT NULL,
    provider_id character varying(200) NOT NULL,
    settings jsonb NOT NULL
);

ALTER TABLE public.socialaccount_socialapp ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.socialaccount_socialapp_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.socialaccount_socialtoken (
    id integer NOT NULL,
    token text NOT NULL,
    token_secret text NOT NULL,
    expires_at timestamp with time zone,
    account_id integer NOT NULL,
    app_id integer
);

ALTER TABLE public.socialaccount_socialtoken ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.socialaccount_socialtoken_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.usersessions_usersession (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    ip inet NOT NULL,
    last_seen_at timestamp with time zone NOT NULL,
    session_key character varying(40) NOT NULL,
    user_agent character varying(200) NOT NULL,
    data jsonb NOT NULL,
    user_id bigint NOT NULL
);

ALTER TABLE public.usersessions_usersession ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.usersessions_usersession_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

INSERT INTO public.auth_group VALUES
	(1, 'Support'),
	(2, 'Support lead'),
	(3, 'Finance'),
	(4, 'Catalogue'),
	(5, 'Operator');

INSERT INTO public.auth_group_permissions VALUES
	(1, 1, 32),
	(2, 1, 4),
	(3, 1, 37),
	(4, 1, 5),
	(5, 1, 36),
	(6, 1, 10),
	(7, 1, 50),
	(8, 1, 27),
	(9, 1, 31),
	(10, 2, 32),
	(11, 2, 2),
	(12, 2, 4),
	(13, 2, 5),
	(14, 2, 6),
	(15, 2, 38),
	(16, 2, 37),
	(17, 2, 9),
	(18, 2, 10),
	(19, 2, 36),
	(20, 2, 42),
	(21, 2, 46),
	(22, 2, 16),
	(23, 2, 50),
	(24, 2, 18),
	(25, 2, 27),
	(26, 2, 31),
	(27, 3, 26),
	(28, 3, 4),
	(29, 3, 37),
	(30, 3, 6),
	(31, 3, 7),
	(32, 3, 8),
	(33, 3, 9),
	(34, 3, 38),
	(35, 3, 36),
	(36, 3, 50),
	(37, 3, 22),
	(38, 3, 54),
	(39, 3, 58),
	(40, 3, 27),
	(41, 3, 31),
	(42, 5, 32),
	(43, 5, 1),
	(44, 5, 4),
	(45, 5, 39),
	(46, 5, 40),
	(47, 5, 41),
	(48, 5, 42),
	(49, 5, 46),
	(50, 5, 14),
	(51, 5, 15),
	(52, 5, 16),
	(53, 5, 18),
	(54, 5, 27),
	(55, 5, 31),
	(56, 1, 64),
	(57, 2, 64),
	(58, 3, 64),
	(59, 3, 65),
	(60, 4, 64),
	(61, 5, 64),
	(62, 5, 65),
	(63, 5, 77),
	(64, 2, 78),
	(65, 5, 78),
	(66, 1, 79),
	(67, 2, 80),
	(68, 2, 79),
	(69, 1, 81),
	(70, 1, 14),
	(71, 2, 81),
	(72, 2, 14),
	(73, 5, 81),
	(74, 1, 98),
	(75, 1, 106),
	(76, 1, 110),
	(77, 1, 114),
	(78, 1, 87),
	(79, 1, 88),
	(80, 1, 89),
	(81, 1, 90),
	(82, 1, 94),
	(83, 2, 98),
	(84, 2, 106),
	(85, 2, 110),
	(86, 2, 114),
	(87, 2, 87),
	(88, 2, 88),
	(89, 2, 89),
	(90, 2, 90),
	(91, 2, 94),
	(92, 5, 98),
	(93, 5, 106),
	(94, 5, 110),
	(95, 5, 114),
	(96, 5, 87),
	(97, 5, 90),
	(98, 5, 94),
	(99, 1, 115),
	(100, 1, 131),
	(101, 1, 139),
	(102, 1, 147),
	(103, 2, 115),
	(104, 2, 131),
	(105, 2, 139),
	(106, 2, 147),
	(107, 3, 115),
	(108, 3, 131),
	(109, 3, 139),
	(110, 3, 147),
	(112, 4, 136),
	(113, 4, 137),
	(114, 4, 139),
	(115, 4, 141),
	(116, 4, 143),
	(117, 4, 144),
	(118, 4, 115),
	(119, 4, 147),
	(120, 4, 119),
	(121, 4, 151),
	(122, 4, 123),
	(123, 4, 124),
	(124, 4, 125),
	(125, 4, 126),
	(126, 4, 127),
	(127, 5, 131),
	(128, 5, 135),
	(129, 5, 139),
	(130, 5, 143),
	(131, 5, 115),
	(132, 5, 147),
	(133, 5, 116),
	(134, 5, 117),
	(135, 5, 119),
	(136, 5, 151),
	(137, 5, 123),
	(138, 5, 125),
	(139, 5, 127),
	(140, 1, 155),
	(141, 1, 159),
	(142, 2, 152),
	(143, 2, 153),
	(144, 2, 155),
	(145, 2, 156),
	(146, 2, 157),
	(147, 2, 159),
	(148, 5, 152),
	(149, 5, 153),
	(150, 5, 155),
	(151, 5, 156),
	(152, 5, 157),
	(153, 5, 159),
	(154, 1, 127),
	(155, 1, 119),
	(156, 2, 127),
	(157, 2, 119),
	(158, 3, 160),
	(159, 3, 161),
	(160, 3, 162),
	(161, 3, 163),
	(162, 3, 164),
	(163, 3, 166),
	(164, 4, 160),
	(165, 4, 161),
	(166, 4, 162),
	(167, 4, 163),
	(168, 4, 164),
	(169, 4, 166),
	(170, 5, 160),
	(171, 5, 162),
	(172, 5, 166),
	(173, 3, 167),
	(174, 3, 168),
	(175, 3, 169),
	(176, 3, 170),
	(177, 3, 171),
	(178, 3, 172),
	(179, 3, 173),
	(180, 3, 174),
	(181, 4, 167),
	(182, 4, 170),
	(183, 4, 171),
	(184, 4, 172),
	(185, 4, 173),
	(186, 4, 174),
	(187, 5, 168),
	(188, 5, 170),
	(189, 5, 174),
	(190, 5, 167),
	(191, 4, 192),
	(192, 4, 193),
	(193, 4, 194),
	(194, 4, 198),
	(195, 4, 202),
	(196, 4, 206),
	(197, 4, 175),
	(198, 4, 176),
	(199, 4, 177),
	(200, 4, 178),
	(201, 4, 182),
	(202, 4, 184),
	(203, 4, 186),
	(204, 4, 190),
	(205, 4, 191),
	(206, 5, 194),
	(207, 5, 198),
	(208, 5, 202),
	(209, 5, 206),
	(210, 5, 178),
	(211, 5, 182),
	(212, 5, 184),
	(213, 5, 186),
	(214, 5, 190),
	(215, 4, 188),
	(216, 5, 188);

INSERT INTO public.auth_permission VALUES
	(1, 'Can add account', 1, 'add_account'),
	(2, 'Can change account', 1, 'change_account'),
	(3, 'Can delete account', 1, 'delete_account'),
	(4, 'Can view account', 1, 'view_account'),
	(5, 'Can issue a SUPPORT_CREDIT', 1, 'issue_support_credit'),
	(6, 'Can correct a credit, once', 1, 'correct_credit'),
	(7, 'Can book a payment by bank transfer', 1, 'book_purchase'),
	(8, 'Can book refunds, and close an account with a refund', 1, 'refund_purchase'),
	(9, 'Can close and reopen an account', 1, 'close_account'),
	(10, 'Can send a member of an account a link to set a password', 1, 'send_password_link'),
	(11, 'Can add sign in limit', 2, 'add_signinlimit'),
	(12, 'Can change sign in limit', 2, 'change_signinlimit'),
	(13, 'Can delete sign in limit', 2, 'delete_signinlimit'),
	(14, 'Can view sign in limit', 2, 'view_signinlimit'),
	(15, 'Can add user', 3, 'add_user'),
	(16, 'Can change user', 3, 'change_user'),
	(17, 'Can delete user', 3, 'delete_user'),
	(18, 'Can view user', 3, 'view_user'),
	(19, 'Can add billing details', 4, 'add_billingdetails'),
	(20, 'Can change billing details', 4, 'change_billingdetails'),
	(21, 'Can delete billing details', 4, 'delete_billingdetails'),
	(22, 'Can view billing details', 4, 'view_billingdetails'),
	(23, 'Can add top up rule', 5, 'add_topuprule'),
	(24, 'Can change top up rule', 5, 'change_topuprule'),
	(25, 'Can delete top up rule', 5, 'delete_topuprule'),
	(26, 'Can view top up rule', 5, 'view_topuprule'),
	(27, 'Can view account warning', 6, 'view_accountwarning'),
	(28, 'Can add hold', 7, 'add_hold'),
	(29, 'Can change hold', 7, 'change_hold'),
	(30, 'Can delete hold', 7, 'delete_hold'),
	(31, 'Can view hold', 7, 'view_hold'),
	(32, 'Can view invitation', 8, 'view_invitation'),
	(33, 'Can add ledger entry', 9, 'add_ledgerentry'),
	(34, 'Can change ledger entry', 9, 'change_ledgerentry'),
	(35, 'Can delete ledger entry', 9, 'delete_ledgerentry'),
	(36, 'Can view ledger entry', 9, 'view_ledgerentry'),
	(37, 'Can view credit request', 10, 'view_creditrequest'),
	(38, 'Can approve a SUPPORT_CREDIT that somebody else asks for', 10, 'approve_support_credit'),
	(39, 'Can add membership', 11, 'add_membership'),
	(40, 'Can change membership', 11, 'change_membership'),
	(41, 'Can delete membership', 11, 'delete_membership'),
	(42, 'Can view membership', 11, 'view_membership'),
	(43, 'Can add password link', 12, 'add_passwordlink'),
	(44, 'Can change password link', 12, 'change_passwordlink'),
	(45, 'Can delete password link', 12, 'delete_passwordlink'),
	(46, 'Can view password link', 12, 'view_passwordlink'),
	(47, 'Can add payment', 13, 'add_payment'),
	(48, 'Can change payment', 13, 'change_payment'),
	(49, 'Can delete payment', 13, 'delete_payment'),
	(50, 'Can view payment', 13, 'view_payment'),
	(51, 'Can add payment difference', 14, 'add_paymentdifference'),
	(52, 'Can change payment difference', 14, 'change_paymentdifference'),
	(53, 'Can delete payment difference', 14, 'delete_paymentdifference'),
	(54, 'Can view payment difference', 14, 'view_paymentdifference'),
	(55, 'Can add payment event', 15, 'add_paymentevent'),
	(56, 'Can change payment event', 15, 'change_paymentevent'),
	(57, 'Can delete payment event', 15, 'delete_paymentevent'),
	(58, 'Can view payment event', 15, 'view_paymentevent'),
	(59, 'Can view webhook endpoint', 16, 'view_webhookendpoint'),
	(60, 'Can view warning delivery', 17, 'view_warningdelivery'),
	(61, 'Can add act', 18, 'add_activity'),
	(62, 'Can change act', 18, 'change_activity'),
	(63, 'Can delete act', 18, 'delete_activity'),
	(64, 'Can view act', 18, 'view_activity'),
	(65, 'Can download the activity log', 18, 'export_activity'),
	(66, 'Can add sent form', 19, 'add_sentform'),
	(67, 'Can change sent form', 19, 'change_sentform'),
	(68, 'Can delete sent form', 19, 'delete_sentform'),
	(69, 'Can view sent form', 19, 'view_sentform'),
	(70, 'Can add permission', 20, 'add_permission'),
	(71, 'Can change permission', 20, 'change_permission'),
	(72, 'Can delete permission', 20, 'delete_permission'),
	(73, 'Can view permission', 20, 'view_permission'),
	(74, 'Can add group', 21, 'add_group'),
	(75, 'Can change group', 21, 'change_group'),
	(76, 'Can delete group', 21, 'delete_group'),
	(77, 'Can view group', 21, 'view_group'),
	(78, 'Can view owner request', 23, 'view_ownerrequest'),
	(79, 'Can view second factor request', 30, 'view_secondfactorrequest'),
	(80, 'Can approve the removal of somebody''s two-factor authentication', 30, 'remove_second_factor'),
	(81, 'Can unblock a sign-in after too many attempts', 2, 'unblock_sign_in'),
	(82, 'Can view account export', 32, 'view_accountexport'),
	(83, 'Can view account closing', 34, 'view_accountclosing'),
	(84, 'Can add API key', 36, 'add_apikey'),
	(85, 'Can change API key', 36, 'change_apikey'),
	(86, 'Can delete API key', 36, 'delete_apikey'),
	(87, 'Can view API key', 36, 'view_apikey'),
	(88, 'Can set or clear a key''s spending limit', 36, 'set_spending_limit'),
	(89, 'Can set how many requests and tokens a key may send', 36, 'set_rates'),
	(90, 'Can revoke a key', 36, 'revoke_apikey'),
	(91, 'Can add former secret', 37, 'add_formersecret'),
	(92, 'Can change former secret', 37, 'change_formersecret'),
	(93, 'Can delete former secret', 37, 'delete_formersecret'),
	(94, 'Can view former secret', 37, 'view_formersecret'),
	(95, 'Can add management key', 38, 'add_managementkey'),
	(96, 'Can change management key', 38, 'change_managementkey'),
	(97, 'Can delete management key', 38, 'delete_managementkey'),
	(98, 'Can view management key', 38, 'view_managementkey'),
	(99, 'Can add management reply', 39, 'add_managementreply'),
	(100, 'Can change management reply', 39, 'change_managementreply'),
	(101, 'Can delete management reply', 39, 'delete_managementreply'),
	(102, 'Can view management reply', 39, 'view_managementreply'),
	(103, 'Can add refusal count', 40, 'add_refusalcount'),
	(104, 'Can change refusal count', 40, 'change_refusalcount'),
	(105, 'Can delete refusal count', 40, 'delete_refusalcount'),
	(106, 'Can view refusal count', 40, 'view_refusalcount'),
	(107, 'Can add refused request', 41, 'add_refusedrequest'),
	(108, 'Can change refused request', 41, 'change_refusedrequest'),
	(109, 'Can delete refused request', 41, 'delete_refusedrequest'),
	(110, 'Can view refused request', 41, 'view_refusedrequest'),
	(111, 'Can add spending day', 42, 'add_spendingday'),
	(112, 'Can change spending day', 42, 'change_spendingday'),
	(113, 'Can delete spending day', 42, 'delete_spendingday'),
	(114, 'Can view spending day', 42, 'view_spendingday'),
	(115, 'Can view hour of completions', 43, 'view_completionhour'),
	(116, 'Can add provider', 44, 'add_provider'),
	(117, 'Can change provider', 44, 'change_provider'),
	(118, 'Can delete provider', 44, 'delete_provider'),
	(119, 'Can view provider', 44, 'view_provider'),
	(120, 'Can add routable alias', 45, 'add_routablealias'),
	(121, 'Can change routable alias', 45, 'change_routablealias'),
	(122, 'Can delete routable alias', 45, 'delete_routablealias'),
	(123, 'Can view routable alias', 45, 'view_routablealias'),
	(124, 'Can add route', 46, 'add_route'),
	(125, 'Can change route', 46, 'change_route'),
	(126, 'Can delete route', 46, 'delete_route'),
	(127, 'Can view route', 46, 'view_route'),
	(128, 'Can add completion', 49, 'add_completion'),
	(129, 'Can change completion', 49, 'change_completion'),
	(130, 'Can delete completion', 49, 'delete_completion'),
	(131, 'Can view completion', 49, 'view_completion'),
	(132, 'Can add idempotent request', 50, 'add_idempotentrequest'),
	(133, 'Can change idempotent request', 50, 'change_idempotentrequest'),
	(134, 'Can delete idempotent request', 50, 'delete_idempotentrequest'),
	(135, 'Can view idempotent request', 50, 'view_idempotentrequest'),
	(136, 'Can add language model', 52, 'add_languagemodel'),
	(137, 'Can change language model', 52, 'change_languagemodel'),
	(138, 'Can delete language model', 52, 'delete_languagemodel'),
	(139, 'Can view language model', 52, 'view_languagemodel'),
	(140, 'Can add catalog proposal', 53, 'add_catalogproposal'),
	(141, 'Can change catalog proposal', 53, 'change_catalogproposal'),
	(142, 'Can delete catalog proposal', 53, 'delete_catalogproposal'),
	(143, 'Can view catalog proposal', 53, 'view_catalogproposal'),
	(144, 'Can add price', 54, 'add_price'),
	(145, 'Can change price', 54, 'change_price'),
	(146, 'Can delete price', 54, 'delete_price'),
	(147, 'Can view price', 54, 'view_price'),
	(148, 'Can add upstream list', 55, 'add_upstreamlist'),
	(149, 'Can change upstream list', 55, 'change_upstreamlist'),
	(150, 'Can delete upstream list', 55, 'delete_upstreamlist'),
	(151, 'Can view upstream list', 55, 'view_upstreamlist'),
	(152, 'Can add incident', 58, 'add_incident'),
	(153, 'Can change incident', 58, 'change_incident'),
	(154, 'Can delete incident', 58, 'delete_incident'),
	(155, 'Can view incident', 58, 'view_incident'),
	(156, 'Can add update', 59, 'add_incidentupdate'),
	(157, 'Can change update', 59, 'change_incidentupdate'),
	(158, 'Can delete update', 59, 'delete_incidentupdate'),
	(159, 'Can view update', 59, 'view_incidentupdate'),
	(160, 'Can view price request', 62, 'view_pricerequest'),
	(161, 'Can approve a price that somebody else asks for', 62, 'approve_price'),
	(162, 'Can view margin', 63, 'view_providerday'),
	(163, 'Can add provider price', 64, 'add_providerprice'),
	(164, 'Can change provider price', 64, 'change_providerprice'),
	(165, 'Can delete provider price', 64, 'delete_providerprice'),
	(166, 'Can view provider price', 64, 'view_providerprice'),
	(167, 'Can view bill', 65, 'view_bill'),
	(168, 'Can add bill', 65, 'add_bill'),
	(169, 'Can delete bill', 65, 'delete_bill'),
	(170, 'Can view bill comparison', 66, 'view_billcomparison'),
	(171, 'Can add name on bills', 68, 'add_billedmodel'),
	(172, 'Can change name on bills', 68, 'change_billedmodel'),
	(173, 'Can delete name on bills', 68, 'delete_billedmodel'),
	(174, 'Can view name on bills', 68, 'view_billedmodel'),
	(175, 'Can add profile', 70, 'add_profile'),
	(176, 'Can change profile', 70, 'change_profile'),
	(177, 'Can delete profile', 70, 'delete_profile'),
	(178, 'Can view profile', 70, 'view_profile'),
	(179, 'Can add publication', 71, 'add_publication'),
	(180, 'Can change publication', 71, 'change_publication'),
	(181, 'Can delete publication', 71, 'delete_publication'),
	(182, 'Can view publication', 71, 'view_publication'),
	(183, 'Can add source state', 72, 'add_sourcestate'),
	(184, 'Can change source state', 72, 'change_sourcestate'),
	(185, 'Can delete source state', 72, 'delete_sourcestate'),
	(186, 'Can view source state', 72, 'view_sourcestate'),
	(187, 'Can add snapshot', 73, 'add_snapshot'),
	(188, 'Can change snapshot', 73, 'change_snapshot'),
	(189, 'Can delete snapshot', 73, 'delete_snapshot'),
	(190, 'Can view snapshot', 73, 'view_snapshot'),
	(191, 'Can add alias', 74, 'add_alias'),
	(192, 'Can change alias', 74, 'change_alias'),
	(193, 'Can delete alias', 74, 'delete_alias'),
	(194, 'Can view alias', 74, 'view_alias'),
	(195, 'Can add daily rank', 75, 'add_dailyrank'),
	(196, 'Can change daily rank', 75, 'change_dailyrank'),
	(197, 'Can delete daily rank', 75, 'delete_dailyrank'),
	(198, 'Can view daily rank', 75, 'view_dailyrank'),
	(199, 'Can add entry', 76, 'add_entry'),
	(200, 'Can change entry', 76, 'change_entry'),
	(201, 'Can delete entry', 76, 'delete_entry'),
	(202, 'Can view entry', 76, 'view_entry'),
	(203, 'Can add standing', 77, 'add_standing'),
	(204, 'Can change standing', 77, 'change_standing'),
	(205, 'Can delete standing', 77, 'delete_standing'),
	(206, 'Can view standing', 77, 'view_standing'),
	(207, 'Can add log entry', 78, 'add_logentry'),
	(208, 'Can change log entry', 78, 'change_logentry'),
	(209, 'Can delete log entry', 78, 'delete_logentry'),
	(210, 'Can view log entry', 78, 'view_logentry'),
	(211, 'Can add content type', 79, 'add_contenttype'),
	(212, 'Can change content type', 79, 'change_contenttype'),
	(213, 'Can delete content type', 79, 'delete_contenttype'),
	(214, 'Can view content type', 79, 'view_contenttype'),
	(215, 'Can add session', 80, 'add_session'),
	(216, 'Can change session', 80, 'change_session'),
	(217, 'Can delete session', 80, 'delete_session'),
	(218, 'Can view session', 80, 'view_session'),
	(219, 'Can add email address', 81, 'add_emailaddress'),
	(220, 'Can change email address', 81, 'change_emailaddress'),
	(221, 'Can delete email address', 81, 'delete_emailaddress'),
	(222, 'Can view email address', 81, 'view_emailaddress'),
	(223, 'Can add email confirmation', 82, 'add_emailconfirmation'),
	(224, 'Can change email confirmation', 82, 'change_emailconfirmation'),
	(225, 'Can delete email confirmation', 82, 'delete_emailconfirmation'),
	(226, 'Can view email confirmation', 82, 'view_emailconfirmation'),
	(227, 'Can add authenticator', 83, 'add_authenticator'),
	(228, 'Can change authenticator', 83, 'change_authenticator'),
	(229, 'Can delete authenticator', 83, 'delete_authenticator'),
	(230, 'Can view authenticator', 83, 'view_authenticator'),
	(231, 'Can add social account', 84, 'add_socialaccount'),
	(232, 'Can change social account', 84, 'change_socialaccount'),
	(233, 'Can delete social account', 84, 'delete_socialaccount'),
	(234, 'Can view social account', 84, 'view_socialaccount'),
	(235, 'Can add social application', 85, 'add_socialapp'),
	(236, 'Can change social application', 85, 'change_socialapp'),
	(237, 'Can delete social application', 85, 'delete_socialapp'),
	(238, 'Can view social application', 85, 'view_socialapp'),
	(239, 'Can add social application token', 86, 'add_socialtoken'),
	(240, 'Can change social application token', 86, 'change_socialtoken'),
	(241, 'Can delete social application token', 86, 'delete_socialtoken'),
	(242, 'Can view social application token', 86, 'view_socialtoken'),
	(243, 'Can add user session', 87, 'add_usersession'),
	(244, 'Can change user session', 87, 'change_usersession'),
	(245, 'Can delete user session', 87, 'delete_usersession'),
	(246, 'Can view user session', 87, 'view_usersession'),
	(247, 'Can add account place', 88, 'add_accountplace'),
	(248, 'Can change account place', 88, 'change_accountplace'),
	(249, 'Can delete account place', 88, 'delete_accountplace'),
	(250, 'Can view account place', 88, 'view_accountplace'),
	(251, 'Can add cell', 89, 'add_cell'),
	(252, 'Can change cell', 89, 'change_cell'),
	(253, 'Can delete cell', 89, 'delete_cell'),
	(254, 'Can view cell', 89, 'view_cell'),
	(255, 'Can add signed day', 90, 'add_signedday'),
	(256, 'Can change signed day', 90, 'change_signedday'),
	(257, 'Can delete signed day', 90, 'delete_signedday'),
	(258, 'Can view signed day', 90, 'view_signedday'),
	(259, 'Can add reference', 91, 'add_reference'),
	(260, 'Can change reference', 91, 'change_reference'),
	(261, 'Can delete reference', 91, 'delete_reference'),
	(262, 'Can view reference', 91, 'view_reference'),
	(263, 'Can add user place', 92, 'add_userplace'),
	(264, 'Can change user place', 92, 'change_userplace'),
	(265, 'Can delete user place', 92, 'delete_userplace'),
	(266, 'Can view user place', 92, 'view_userplace');

INSERT INTO public.django_content_type VALUES
	(1, 'billing', 'account'),
	(2, 'billing', 'signinlimit'),
	(3, 'billing', 'user'),
	(4, 'billing', 'billingdetails'),
	(5, 'billing', 'topuprule'),
	(7, 'billing', 'hold'),
	(8, 'billing', 'invitation'),
	(9, 'billing', 'ledgerentry'),
	(10, 'billing', 'creditrequest'),
	(11, 'billing', 'membership'),
	(12, 'billing', 'passwordlink'),
	(13, 'billing', 'payment'),
	(14, 'billing', 'paymentdifference'),
	(15, 'billing', 'paymentevent'),
	(16, 'billing', 'webhookendpoint'),
	(18, 'activity', 'activity'),
	(19, 'activity', 'sentform'),
	(20, 'auth', 'permission'),
	(21, 'auth', 'group'),
	(22, 'billing', 'addresschange'),
	(23, 'billing', 'ownerrequest'),
	(24, 'billing', 'membershipchange'),
	(25, 'billing', 'manualentry'),
	(26, 'billing', 'archivedday'),
	(27, 'billing', 'auditedday'),
	(28, 'billing', 'retentionmark'),
	(29, 'billing', 'auditedledger'),
	(30, 'billing', 'secondfactorrequest'),
	(31, 'billing', 'emailchoice'),
	(32, 'billing', 'accountexport'),
	(33, 'billing', 'exportpart'),
	(34, 'billing', 'accountclosing'),
	(35, 'billing', 'invoicefile'),
	(6, 'billing', 'accountalert'),
	(17, 'billing', 'alertdelivery'),
	(36, 'keys', 'apikey'),
	(37, 'keys', 'formersecret'),
	(38, 'keys', 'managementkey'),
	(39, 'keys', 'managementreply'),
	(40, 'keys', 'refusalcount'),
	(41, 'keys', 'refusedrequest'),
	(42, 'keys', 'spendingday'),
	(43, 'completions', 'completionhour'),
	(44, 'completions', 'provider'),
	(45, 'completions', 'routablealias'),
	(46, 'completions', 'route'),
	(47, 'completions', 'usagehour'),
	(48, 'completions', 'usagemark'),
	(49, 'completions', 'completion'),
	(50, 'completions', 'idempotentrequest'),
	(51, 'completions', 'labelhour'),
	(52, 'completions', 'languagemodel'),
	(53, 'completions', 'catalogproposal'),
	(54, 'completions', 'price'),
	(55, 'completions', 'upstreamlist'),
	(56, 'completions', 'storedresponse'),
	(57, 'completions', 'labelday'),
	(58, 'completions', 'incident'),
	(59, 'completions', 'incidentupdate'),
	(60, 'completions', 'uptimesums'),
	(61, 'completions', 'firsttokenhour'),
	(62, 'completions', 'pricerequest'),
	(63, 'completions', 'providerday'),
	(64, 'completions', 'providerprice'),
	(65, 'completions', 'bill'),
	(66, 'completions', 'billcomparison'),
	(67, 'completions', 'billday'),
	(68, 'completions', 'billedmodel'),
	(69, 'completions', 'billline'),
	(70, 'rankings', 'profile'),
	(71, 'rankings', 'publication'),
	(72, 'rankings', 'sourcestate'),
	(73, 'rankings', 'snapshot'),
	(74, 'rankings', 'alias'),
	(75, 'rankings', 'dailyrank'),
	(76, 'rankings', 'entry'),
	(77, 'rankings', 'standing'),
	(78, 'admin', 'logentry'),
	(79, 'contenttypes', 'contenttype'),
	(80, 'sessions', 'session'),
	(81, 'account', 'emailaddress'),
	(82, 'account', 'emailconfirmation'),
	(83, 'mfa', 'authenticator'),
	(84, 'socialaccount', 'socialaccount'),
	(85, 'socialaccount', 'socialapp'),
	(86, 'socialaccount', 'socialtoken'),
	(87, 'usersessions', 'usersession'),
	(88, 'cells', 'accountplace'),
	(89, 'cells', 'cell'),
	(90, 'cells', 'signedday'),
	(91, 'cells', 'reference'),
	(92, 'cells', 'userplace'),
	(93, 'monitoring', 'process'),
	(94, 'monitoring', 'taskrun'),
	(95, 'billing', 'rootkey'),
	(96, 'billing', 'ledgerroot'),
	(97, 'billing', 'ledgerleaf'),
	(98, 'billing', 'ledgerhead'),
	(99, 'keys', 'budget'),
	(100, 'keys', 'budgetmonth'),
	(101, 'keys', 'run'),
	(102, 'completions', 'ownkey');

SELECT pg_catalog.setval('public.auth_group_id_seq', 5, true);

SELECT pg_catalog.setval('public.auth_group_permissions_id_seq', 216, true);

SELECT pg_catalog.setval('public.auth_permission_id_seq', 266, true);

SELECT pg_catalog.setval('public.django_content_type_id_seq', 102, true);

ALTER TABLE ONLY public.keys_budgetmonth
    ADD CONSTRAINT a_budget_has_one_row_a_month UNIQUE (budget_id, month);

ALTER TABLE ONLY public.completions_providerday
    ADD CONSTRAINT a_day_of_a_provider_is_summed_up_once UNIQUE (day, provider_id, model_id, service_tier);

ALTER TABLE ONLY public.keys_spendingday
    ADD CONSTRAINT a_key_has_one_row_a_day UNIQUE (key_id, day);

ALTER TABLE ONLY public.keys_run
    ADD CONSTRAINT a_key_has_one_run_of_a_name UNIQUE (key_id, name);

ALTER TABLE ONLY public.billing_auditedledger
    ADD CONSTRAINT a_ledgers_day_is_signed_once UNIQUE (account_id, day);

ALTER TABLE ONLY public.keys_managementreply
    ADD CONSTRAINT a_management_request_has_one_reply UNIQUE (management_key_id, idempotency_key);

ALTER TABLE ONLY public.completions_price
    ADD CONSTRAINT a_model_has_one_price_at_a_time UNIQUE (model_id, effective_from);

ALTER TABLE ONLY public.rankings_dailyrank
    ADD CONSTRAINT a_model_has_one_rank_a_day UNIQUE (source, board, model_id, day);

ALTER TABLE ONLY public.completions_billcomparison
    ADD CONSTRAINT a_model_is_compared_once_a_day UNIQUE (provider_id, day, name);

ALTER TABLE ONLY public.rankings_entry
    ADD CONSTRAINT a_model_is_listed_once_on_a_board UNIQUE (source, board, model_id);

ALTER TABLE ONLY public.rankings_standing
    ADD CONSTRAINT a_model_stands_once_on_a_board UNIQUE (snapshot_id, board, external_key);

ALTER TABLE ONLY public.rankings_alias
    ADD CONSTRAINT a_name_means_one_model UNIQUE (source, key_kind, external_key);

ALTER TABLE ONLY public.completions_billedmodel
    ADD CONSTRAINT a_name_on_bills_has_one_meaning UNIQUE (provider_id, name);

ALTER TABLE ONLY public.billing_exportpart
    ADD CONSTRAINT a_part_of_a_file_has_a_place UNIQUE (export_id, number);

ALTER TABLE ONLY public.billing_membership
    ADD CONSTRAINT a_person_joins_an_account_once UNIQUE (account_id, user_id);

ALTER TABLE ONLY public.billing_ledgerentry
    ADD CONSTRAINT a_place_in_the_book_is_taken_once UNIQUE (account_id, seq);

ALTER TABLE ONLY public.completions_providerprice
    ADD CONSTRAINT a_provider_has_one_price_at_a_time UNIQUE (model_id, provider_id, since);

ALTER TABLE ONLY public.billing_payment
    ADD CONSTRAINT a_receipts_number_is_used_once UNIQUE (account_id, receipt_number);

ALTER TABLE ONLY public.cells_reference
    ADD CONSTRAINT a_reference_has_one_account UNIQUE (kind, value);

ALTER TABLE ONLY public.completions_route
    ADD CONSTRAINT a_route_is_declared_once UNIQUE (model_id, provider_id, upstream_model);

ALTER TABLE ONLY public.cells_userplace
    ADD CONSTRAINT a_user_is_once_in_a_cell UNIQUE (user_id, cell);

ALTER TABLE ONLY public.billing_warningdelivery
    ADD CONSTRAINT a_warning_goes_to_an_endpoint_once UNIQUE (warning_id, endpoint_id);

ALTER TABLE ONLY public.account_emailaddress
    ADD CONSTRAINT account_emailaddress_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.account_emailaddress
    ADD CONSTRAINT account_emailaddress_user_id_email_987c8728_uniq UNIQUE (user_id, email);

ALTER TABLE ONLY public.account_emailconfirmation
    ADD CONSTRAINT account_emailconfirmation_key_key UNIQUE (key);

ALTER TABLE ONLY public.account_emailconfirmation
    ADD CONSTRAINT account_emailconfirmation_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.activity_activity
    ADD CONSTRAINT activity_activity_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.activity_sentform
    ADD CONSTRAINT activity_sentform_pkey PRIMARY KEY (token);

ALTER TABLE ONLY public.completions_ownkey
    ADD CONSTRAINT an_account_has_a_key_of_a_provider_once UNIQUE (account_id, provider_id);

ALTER TABLE ONLY public.completions_idempotentrequest
    ADD CONSTRAINT an_account_uses_a_key_for_one_request UNIQUE (account_id, key);

ALTER TABLE ONLY public.billing_paymentevent
    ADD CONSTRAINT an_event_is_kept_once UNIQUE (processor, event_id);

ALTER TABLE ONLY public.billing_invoicefile
    ADD CONSTRAINT an_invoice_is_issued_once UNIQUE (account_id, number);

ALTER TABLE ONLY public.auth_group
    ADD CONSTRAINT auth_group_name_key UNIQUE (name);

ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_group_id_permission_id_0cd325b0_uniq UNIQUE (group_id, permission_id);

ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.auth_group
    ADD CONSTRAINT auth_group_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_content_type_id_codename_01ab375a_uniq UNIQUE (content_type_id, codename);

ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.billing_account
    ADD CONSTRAINT billing_account_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.billing_accountclosing
    ADD CONSTRAINT billing_accountclosing_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.billing_accountexport
    ADD CONSTRAINT billing_accountexport_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.billing_accountwarning
    ADD CONSTRAINT billing_accountwarning_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.billing_addresschange
    ADD CONSTRAINT billing_addresschange_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.billing_archivedday
    ADD CONSTRAINT billing_archivedday_pkey PRIMARY KEY (day);

ALTER TABLE ONLY public.billing_auditedday
    ADD CONSTRAINT billing_auditedday_pkey PRIMARY KEY (day);

ALTER TABLE ONLY public.billing_auditedledger
    ADD CONSTRAINT billing_auditedledger_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.billing_billingdetails
    ADD CONSTRAINT billing_billingdetails_pkey PRIMARY KEY (account_id);

ALTER TABLE ONLY public.billing_creditrequest
    ADD CONSTRAINT billing_creditrequest_entry_id_key UNIQUE (entry_id);

ALTER TABLE ONLY public.billing_creditrequest
    ADD CONSTRAINT billing_creditrequest_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.billing_creditrequest
    ADD CONSTRAINT billing_creditrequest_reference_key UNIQUE (reference);

ALTER TABLE ONLY public.billing_emailchoice
    ADD CONSTRAINT billing_emailchoice_pkey PRIMARY KEY (account_id);

ALTER TABLE ONLY public.billing_exportpart
    ADD CONSTRAINT billing_exportpart_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.billing_hold
    ADD CONSTRAINT billing_hold_pkey PRIMARY KEY (reference);

ALTER TABLE ONLY public.billing_invitation
    ADD CONSTRAINT billing_invitation_digest_key UNIQUE (digest);

ALTER TABLE ONLY public.billing_invitation
    ADD CONSTRAINT billing_invitation_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.billing_invoicefile
    ADD CONSTRAINT billing_invoicefile_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.billing_ledgerentry
    ADD CONSTRAINT billing_ledgerentry_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.billing_ledgerentry
    ADD CONSTRAINT billing_ledgerentry_reference_key UNIQUE (reference);

ALTER TABLE ONLY public.billing_ledgerhead
    ADD CONSTRAINT billing_ledgerhead_pkey PRIMARY KEY (leaf, root);

ALTER TABLE ONLY public.billing_ledgerleaf
    ADD CONSTRAINT billing_ledgerleaf_account_id_key UNIQUE (account_id);

ALTER TABLE ONLY public.billing_ledgerleaf
    ADD CONSTRAINT billing_ledgerleaf_pkey PRIMARY KEY (number);

ALTER TABLE ONLY public.billing_ledgerroot
    ADD CONSTRAINT billing_ledgerroot_hour_key UNIQUE (hour);

ALTER TABLE ONLY public.billing_ledgerroot
    ADD CONSTRAINT billing_ledgerroot_pkey PRIMARY KEY (number);

ALTER TABLE ONLY public.billing_manualentry
    ADD CONSTRAINT billing_manualentry_pkey PRIMARY KEY (entry_id);

ALTER TABLE ONLY public.billing_membership
    ADD CONSTRAINT billing_membership_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.billing_membershipchange
    ADD CONSTRAINT billing_membershipchange_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.billing_ownerrequest
    ADD CONSTRAINT billing_ownerrequest_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.billing_passwordlink
    ADD CONSTRAINT billing_passwordlink_digest_key UNIQUE (digest);

ALTER TABLE ONLY public.billing_passwordlink
    ADD CONSTRAINT billing_passwordlink_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.billing_payment
    ADD CONSTRAINT billing_payment_credit_id_key UNIQUE (credit_id);

ALTER TABLE ONLY public.billing_payment
    ADD CONSTRAINT billing_payment_intent_id_key UNIQUE (intent_id);

ALTER TABLE ONLY public.billing_payment
    ADD CONSTRAINT billing_payment_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.billing_payment
    ADD CONSTRAINT billing_payment_session_id_key UNIQUE (session_id);

ALTER TABLE ONLY public.billing_paymentdifference
    ADD CONSTRAINT billing_paymentdifference_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.billing_paymentevent
    ADD CONSTRAINT billing_paymentevent_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.billing_retentionmark
    ADD CONSTRAINT billing_retentionmark_pkey PRIMARY KEY (what);

ALTER TABLE ONLY public.billing_rootkey
    ADD CONSTRAINT billing_rootkey_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.billing_secondfactorrequest
    ADD CONSTRAINT billing_secondfactorrequest_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.billing_signinlimit
    ADD CONSTRAINT billing_signinlimit_pkey PRIMARY KEY (digest);

ALTER TABLE ONLY public.billing_topuprule
    ADD CONSTRAINT billing_topuprule_attempt_id_key UNIQUE (attempt_id);

ALTER TABLE ONLY public.billing_topuprule
    ADD CONSTRAINT billing_topuprule_card_payment_id_key UNIQUE (card_payment_id);

ALTER TABLE ONLY public.billing_topuprule
    ADD CONSTRAINT billing_topuprule_pkey PRIMARY KEY (account_id);

ALTER TABLE ONLY public.billing_user
    ADD CONSTRAINT billing_user_email_key UNIQUE (email);

ALTER TABLE ONLY public.billing_user_groups
    ADD CONSTRAINT billing_user_groups_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.billing_user_groups
    ADD CONSTRAINT billing_user_groups_user_id_group_id_af6b9d11_uniq UNIQUE (user_id, group_id);

ALTER TABLE ONLY public.billing_user
    ADD CONSTRAINT billing_user_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.billing_user_user_permissions
    ADD CONSTRAINT billing_user_user_permis_user_id_permission_id_78bf0dc2_uniq UNIQUE (user_id, permission_id);

ALTER TABLE ONLY public.billing_user_user_permissions
    ADD CONSTRAINT billing_user_user_permissions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.billing_warningdelivery
    ADD CONSTRAINT billing_warningdelivery_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.billing_webhookendpoint
    ADD CONSTRAINT billing_webhookendpoint_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.cells_accountplace
    ADD CONSTRAINT cells_accountplace_pkey PRIMARY KEY (account_id);

ALTER TABLE ONLY public.cells_cell
    ADD CONSTRAINT cells_cell_pkey PRIMARY KEY (number);

ALTER TABLE ONLY public.cells_reference
    ADD CONSTRAINT cells_reference_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.cells_signedday
    ADD CONSTRAINT cells_signedday_pkey PRIMARY KEY (cell);

ALTER TABLE ONLY public.cells_userplace
    ADD CONSTRAINT cells_userplace_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.completions_bill
    ADD CONSTRAINT completions_bill_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.completions_billcomparison
    ADD CONSTRAINT completions_billcomparison_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.completions_billedmodel
    ADD CONSTRAINT completions_billedmodel_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.completions_billline
    ADD CONSTRAINT completions_billline_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.completions_catalogproposal
    ADD CONSTRAINT completions_catalogproposal_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.completions_completion
    ADD CONSTRAINT completions_completion_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.completions_completionhour
    ADD CONSTRAINT completions_completionhour_pkey PRIMARY KEY (hour);

ALTER TABLE ONLY public.completions_firsttokenhour
    ADD CONSTRAINT completions_firsttokenhour_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.completions_idempotentrequest
    ADD CONSTRAINT completions_idempotentrequest_completion_id_key UNIQUE (completion_id);

ALTER TABLE ONLY public.completions_idempotentrequest
    ADD CONSTRAINT completions_idempotentrequest_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.completions_incident
    ADD CONSTRAINT completions_incident_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.completions_incidentupdate
    ADD CONSTRAINT completions_incidentupdate_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.completions_labelday
    ADD CONSTRAINT completions_labelday_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.completions_labelhour
    ADD CONSTRAINT completions_labelhour_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.completions_languagemodel
    ADD CONSTRAINT completions_languagemodel_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.completions_ownkey
    ADD CONSTRAINT completions_ownkey_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.completions_price
    ADD CONSTRAINT completions_price_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.completions_pricerequest
    ADD CONSTRAINT completions_pricerequest_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.completions_provider
    ADD CONSTRAINT completions_provider_pkey PRIMARY KEY (slug);

ALTER TABLE ONLY public.completions_providerday
    ADD CONSTRAINT completions_providerday_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.completions_providerprice
    ADD CONSTRAINT completions_providerprice_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.completions_routablealias
    ADD CONSTRAINT completions_routablealias_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.completions_route
    ADD CONSTRAINT completions_route_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.completions_storedresponse
    ADD CONSTRAINT completions_storedresponse_pkey PRIMARY KEY (completion_id);

ALTER TABLE ONLY public.completions_upstreamlist
    ADD CONSTRAINT completions_upstreamlist_pkey PRIMARY KEY (provider_id);

ALTER TABLE ONLY public.completions_uptimesums
    ADD CONSTRAINT completions_uptimesums_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.completions_usagehour
    ADD CONSTRAINT completions_usagehour_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.completions_usagemark
    ADD CONSTRAINT completions_usagemark_pkey PRIMARY KEY (account_id);

ALTER TABLE ONLY public.django_admin_log
    ADD CONSTRAINT django_admin_log_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.django_content_type
    ADD CONSTRAINT django_content_type_app_label_model_76bd3d3b_uniq UNIQUE (app_label, model);

ALTER TABLE ONLY public.django_content_type
    ADD CONSTRAINT django_content_type_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.django_migrations
    ADD CONSTRAINT django_migrations_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.django_session
    ADD CONSTRAINT django_session_pkey PRIMARY KEY (session_key);

ALTER TABLE ONLY public.keys_apikey
    ADD CONSTRAINT keys_apikey_digest_key UNIQUE (digest);

ALTER TABLE ONLY public.keys_apikey
    ADD CONSTRAINT keys_apikey_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.keys_budget
    ADD CONSTRAINT keys_budget_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.keys_budgetmonth
    ADD CONSTRAINT keys_budgetmonth_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.keys_formersecret
    ADD CONSTRAINT keys_formersecret_digest_key UNIQUE (digest);

ALTER TABLE ONLY public.keys_formersecret
    ADD CONSTRAINT keys_formersecret_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.keys_managementkey
    ADD CONSTRAINT keys_managementkey_digest_key UNIQUE (digest);

ALTER TABLE ONLY public.keys_managementkey
    ADD CONSTRAINT keys_managementkey_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.keys_managementreply
    ADD CONSTRAINT keys_managementreply_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.keys_refusalcount
    ADD CONSTRAINT keys_refusalcount_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.keys_refusedrequest
    ADD CONSTRAINT keys_refusedrequest_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.keys_refusedrequest
    ADD CONSTRAINT keys_refusedrequest_request_id_key UNIQUE (request_id);

ALTER TABLE ONLY public.keys_run
    ADD CONSTRAINT keys_run_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.keys_spendingday
    ADD CONSTRAINT keys_spendingday_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.completions_labelday
    ADD CONSTRAINT labels_are_in_their_day_once UNIQUE (account_id, name, day, value);

ALTER TABLE ONLY public.completions_labelhour
    ADD CONSTRAINT labels_are_summed_up_once UNIQUE NULLS NOT DISTINCT (account_id, hour, name, value);

ALTER TABLE ONLY public.mfa_authenticator
    ADD CONSTRAINT mfa_authenticator_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.monitoring_process
    ADD CONSTRAINT monitoring_process_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.monitoring_taskrun
    ADD CONSTRAINT monitoring_taskrun_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.rankings_alias
    ADD CONSTRAINT rankings_alias_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.rankings_dailyrank
    ADD CONSTRAINT rankings_dailyrank_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.rankings_entry
    ADD CONSTRAINT rankings_entry_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.rankings_profile
    ADD CONSTRAINT rankings_profile_pkey PRIMARY KEY (model_id);

ALTER TABLE ONLY public.rankings_publication
    ADD CONSTRAINT rankings_publication_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.rankings_snapshot
    ADD CONSTRAINT rankings_snapshot_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.rankings_sourcestate
    ADD CONSTRAINT rankings_sourcestate_pkey PRIMARY KEY (source);

ALTER TABLE ONLY public.rankings_standing
    ADD CONSTRAINT rankings_standing_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.keys_refusalcount
    ADD CONSTRAINT refusals_of_an_hour_are_counted_once UNIQUE (key_id, hour, error, code);

ALTER TABLE ONLY public.socialaccount_socialaccount
    ADD CONSTRAINT socialaccount_socialaccount_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.socialaccount_socialaccount
    ADD CONSTRAINT socialaccount_socialaccount_provider_uid_fc810c6e_uniq UNIQUE (provider, uid);

ALTER TABLE ONLY public.socialaccount_socialapp
    ADD CONSTRAINT socialaccount_socialapp_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.socialaccount_socialtoken
    ADD CONSTRAINT socialaccount_socialtoken_app_id_account_id_fca4e0ac_uniq UNIQUE (app_id, account_id);

ALTER TABLE ONLY public.socialaccount_socialtoken
    ADD CONSTRAINT socialaccount_socialtoken_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.completions_firsttokenhour
    ADD CONSTRAINT streams_are_counted_by_their_time UNIQUE (hour, milliseconds);

ALTER TABLE ONLY public.completions_uptimesums
    ADD CONSTRAINT uptime_is_summed_up_once UNIQUE (is_day, since, kind, subject);

ALTER TABLE ONLY public.completions_usagehour
    ADD CONSTRAINT usage_is_summed_up_once UNIQUE (account_id, hour, key_id, model_id);

ALTER TABLE ONLY public.usersessions_usersession
    ADD CONSTRAINT usersessions_usersession_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.usersessions_usersession
    ADD CONSTRAINT usersessions_usersession_session_key_key UNIQUE (session_key);

CREATE UNIQUE INDEX a_bill_is_imported_once ON public.completions_bill USING btree (provider_id, sha256) WHERE (finished_at IS NOT NULL);

CREATE UNIQUE INDEX a_difference_is_open_once ON public.billing_paymentdifference USING btree (processor, subject) WHERE (gone_at IS NULL);

CREATE UNIQUE INDEX a_difference_is_proposed_once ON public.completions_catalogproposal USING btree (provider_id, kind, upstream_model, model_id) NULLS NOT DISTINCT WHERE ((state)::text = 'pending'::text);

CREATE UNIQUE INDEX a_price_is_asked_for_once_at_a_time ON public.completions_pricerequest USING btree (model_id) WHERE ((decision)::text = ''::text);

CREATE UNIQUE INDEX a_removal_is_asked_for_once_at_a_time ON public.billing_secondfactorrequest USING btree (user_id) WHERE ((decision)::text = ''::text);

CREATE UNIQUE INDEX a_run_is_repeated_once ON public.completions_completion USING btree (repeats) WHERE (repeats IS NOT NULL);

CREATE UNIQUE INDEX a_scope_has_one_budget ON public.keys_budget USING btree (account_id, scope, tag, member_id) NULLS NOT DISTINCT WHERE (ended_at IS NULL);

CREATE UNIQUE INDEX a_user_asks_for_one_change_of_address ON public.billing_addresschange USING btree (user_id) WHERE ((changed_at IS NULL) AND (undone_at IS NULL));

CREATE UNIQUE INDEX a_warning_is_mailed_to_a_person_once ON public.billing_warningdelivery USING btree (warning_id, email) WHERE (endpoint_id IS NULL);

CREATE INDEX account_emailaddress_email_03be32b2 ON public.account_emailaddress USING btree (email);

CREATE INDEX account_emailaddress_email_03be32b2_like ON public.account_emailaddress USING btree (email varchar_pattern_ops);

CREATE INDEX account_emailaddress_user_id_2c513194 ON public.account_emailaddress USING btree (user_id);

CREATE INDEX account_emailconfirmation_email_address_id_5b7f8c58 ON public.account_emailconfirmation USING btree (email_address_id);

CREATE INDEX account_emailconfirmation_key_f43612bd_like ON public.account_emailconfirmation USING btree (key varchar_pattern_ops);

CREATE INDEX accounts_by_end_of_id ON public.billing_account USING btree ("right"((id)::text, 8));

CREATE INDEX accounts_by_words_of_name ON public.billing_account USING gin (to_tsvector('simple'::regconfig, (COALESCE(name, ''::character varying))::text));

CREATE INDEX activity_beside_accounts ON public.activity_activity USING btree (id DESC) WHERE (account_id IS NULL);

CREATE INDEX activity_by_account ON public.activity_activity USING btree (account_id, id DESC) WHERE (account_id IS NOT NULL);

CREATE INDEX activity_by_actor ON public.activity_activity USING btree (actor_id, id DESC);

CREATE INDEX activity_by_object ON public.activity_activity USING btree (object_type, object_id, id DESC);

CREATE INDEX activity_sentform_token_c70ec3be_like ON public.activity_sentform USING btree (token varchar_pattern_ops);

CREATE UNIQUE INDEX an_account_is_closed_once_at_a_time ON public.billing_accountclosing USING btree (account_id) WHERE ((erased_at IS NULL) AND (undone_at IS NULL));

CREATE UNIQUE INDEX an_address_is_invited_once ON public.billing_invitation USING btree (account_id, email) WHERE ((accepted_at IS NULL) AND (revoked_at IS NULL));

CREATE UNIQUE INDEX an_export_is_made_once_at_a_time ON public.billing_accountexport USING btree (account_id) WHERE ((state)::text = 'WAITING'::text);

CREATE UNIQUE INDEX an_owner_is_asked_for_once_at_a_time ON public.billing_ownerrequest USING btree (account_id, user_id) WHERE ((decision)::text = ''::text);

CREATE INDEX audited_ledgers_by_day ON public.billing_auditedledger USING btree (day);

CREATE INDEX auth_group_name_a6ea08ec_like ON public.auth_group USING btree (name varchar_pattern_ops);

CREATE INDEX auth_group_permissions_group_id_b120cbf9 ON public.auth_group_permissions USING btree (group_id);

CREATE INDEX auth_group_permissions_permission_id_84c5c92e ON public.auth_group_permissions USING btree (permission_id);

CREATE INDEX auth_permission_content_type_id_2f476e4b ON public.auth_permission USING btree (content_type_id);

CREATE INDEX billing_accountclosing_account_id_d3105ef8 ON public.billing_accountclosing USING btree (account_id);

CREATE INDEX billing_accountclosing_closed_by_id_ee3a807d ON public.billing_accountclosing USING btree (closed_by_id);

CREATE INDEX billing_accountexport_account_id_a254be94 ON public.billing_accountexport USING btree (account_id);

CREATE INDEX billing_accountexport_asked_by_id_8117ebe2 ON public.billing_accountexport USING btree (asked_by_id);

CREATE INDEX billing_addresschange_user_id_689ce421 ON public.billing_addresschange USING btree (user_id);

CREATE INDEX billing_creditrequest_account_id_fec46d1f ON public.billing_creditrequest USING btree (account_id);

CREATE INDEX billing_creditrequest_decided_by_id_bea49604 ON public.billing_creditrequest USING btree (decided_by_id);

CREATE INDEX billing_creditrequest_reference_3e3c09b4_like ON public.billing_creditrequest USING btree (reference varchar_pattern_ops);

CREATE INDEX billing_creditrequest_requested_by_id_cf386c4e ON public.billing_creditrequest USING btree (requested_by_id);

CREATE INDEX billing_invitation_digest_e1a630f8_like ON public.billing_invitation USING btree (digest varchar_pattern_ops);

CREATE INDEX billing_invitation_invited_by_id_acbc0e40 ON public.billing_invitation USING btree (invited_by_id);

CREATE INDEX billing_membership_account_id_a4c0f492 ON public.billing_membership USING btree (account_id);

CREATE INDEX billing_membership_user_id_bcd9f89b ON public.billing_membership USING btree (user_id);

CREATE INDEX billing_ownerrequest_account_id_3ee666fd ON public.billing_ownerrequest USING btree (account_id);

CREATE INDEX billing_ownerrequest_decided_by_id_fae48a66 ON public.billing_ownerrequest USING btree (decided_by_id);

CREATE INDEX billing_ownerrequest_requested_by_id_29dead38 ON public.billing_ownerrequest USING btree (requested_by_id);

CREATE INDEX billing_ownerrequest_user_id_98ccb2e0 ON public.billing_ownerrequest USING btree (user_id);

CREATE INDEX billing_passwordlink_digest_ca0ca51c_like ON public.billing_passwordlink USING btree (digest varchar_pattern_ops);

CREATE INDEX billing_passwordlink_sent_by_id_22159291 ON public.billing_passwordlink USING btree (sent_by_id);

CREATE INDEX billing_passwordlink_user_id_e49655c2 ON public.billing_passwordlink USING btree (user_id);

CREATE INDEX billing_payment_intent_id_796c9ce7_like ON public.billing_payment USING btree (intent_id varchar_pattern_ops);

CREATE INDEX billing_payment_session_id_be4084ef_like ON public.billing_payment USING btree (session_id varchar_pattern_ops);

CREATE INDEX billing_paymentdifference_payment_id_b6dde51f ON public.billing_paymentdifference USING btree (payment_id);

CREATE INDEX billing_paymentevent_payment_id_463d0f0d ON public.billing_paymentevent USING btree (payment_id);

CREATE INDEX billing_retentionmark_what_56cfeed3_like ON public.billing_retentionmark USING btree (what varchar_pattern_ops);

CREATE INDEX billing_rootkey_id_4c219190_like ON public.billing_rootkey USING btree (id varchar_pattern_ops);

CREATE INDEX billing_secondfactorrequest_account_id_8e3d7879 ON public.billing_secondfactorrequest USING btree (account_id);

CREATE INDEX billing_secondfactorrequest_decided_by_id_8e8d915e ON public.billing_secondfactorrequest USING btree (decided_by_id);

CREATE INDEX billing_secondfactorrequest_requested_by_id_f5d016ff ON public.billing_secondfactorrequest USING btree (requested_by_id);

CREATE INDEX billing_secondfactorrequest_user_id_d82eb8c0 ON public.billing_secondfactorrequest USING btree (user_id);

CREATE INDEX billing_signinlimit_digest_438ba7e6_like ON public.billing_signinlimit USING btree (digest varchar_pattern_ops);

CREATE INDEX billing_signinlimit_full_at_fd81f7e7 ON public.billing_signinlimit USING btree (full_at);

CREATE INDEX billing_topuprule_set_by_id_2d3612e0 ON public.billing_topuprule USING btree (set_by_id);

CREATE INDEX billing_user_email_de7438c0_like ON public.billing_user USING btree (email varchar_pattern_ops);

CREATE INDEX billing_user_groups_group_id_2b1dc023 ON public.billing_user_groups USING btree (group_id);

CREATE INDEX billing_user_groups_user_id_4385cb5c ON public.billing_user_groups USING btree (user_id);

CREATE INDEX billing_user_user_permissions_permission_id_0e45bb97 ON public.billing_user_user_permissions USING btree (permission_id);

CREATE INDEX billing_user_user_permissions_user_id_65bb214f ON public.billing_user_user_permissions USING btree (user_id);

CREATE INDEX billing_warningdelivery_endpoint_id_68eab7e4 ON public.billing_warningdelivery USING btree (endpoint_id);

CREATE INDEX billing_webhookendpoint_account_id_c4eb9efa ON public.billing_webhookendpoint USING btree (account_id);

CREATE INDEX cells_reference_account_id_3a422d72 ON public.cells_reference USING btree (account_id);

CREATE INDEX cells_userplace_user_id_fa851785 ON public.cells_userplace USING btree (user_id);

CREATE INDEX changes_by_membership ON public.billing_membershipchange USING btree (account_id, user_id, id DESC);

CREATE INDEX comparisons_by_size ON public.completions_billcomparison USING btree (GREATEST(abs(unexplained_usd), hours_usd) DESC);

CREATE INDEX completions_billcomparison_bill_id_d45aa7bb ON public.completions_billcomparison USING btree (bill_id);

CREATE INDEX completions_by_key ON public.completions_completion USING btree (key_id, id DESC);

CREATE INDEX completions_by_provider_request ON public.completions_completion USING brin (provider_request_id text_bloom_ops) WITH (autosummarize='on');

CREATE INDEX completions_by_request ON public.completions_completion USING btree (request_id);

CREATE INDEX completions_by_run ON public.completions_completion USING btree (key_id, run) WHERE (run IS NOT NULL);

CREATE INDEX completions_catalogproposal_decided_by_id_7b2cbf8b ON public.completions_catalogproposal USING btree (decided_by_id);

CREATE INDEX completions_catalogproposal_model_id_12bf5308 ON public.completions_catalogproposal USING btree (model_id);

CREATE INDEX completions_catalogproposal_model_id_12bf5308_like ON public.completions_catalogproposal USING btree (model_id varchar_pattern_ops);

CREATE INDEX completions_completion_account_id_ae3925eb ON public.completions_completion USING btree (account_id);

CREATE INDEX completions_idempotentrequest_expires_at_c90daf59 ON public.completions_idempotentrequest USING btree (expires_at);

CREATE INDEX completions_incidentupdate_incident_id_844e4d48 ON public.completions_incidentupdate USING btree (incident_id);

CREATE INDEX completions_languagemodel_id_4f24a321_like ON public.completions_languagemodel USING btree (id varchar_pattern_ops);

CREATE INDEX completions_pricerequest_before_id_729520d7 ON public.completions_pricerequest USING btree (before_id);

CREATE INDEX completions_pricerequest_decided_by_id_f8305ffe ON public.completions_pricerequest USING btree (decided_by_id);

CREATE INDEX completions_pricerequest_model_id_d6830426 ON public.completions_pricerequest USING btree (model_id);

CREATE INDEX completions_pricerequest_model_id_d6830426_like ON public.completions_pricerequest USING btree (model_id varchar_pattern_ops);

CREATE INDEX completions_pricerequest_requested_by_id_216b6699 ON public.completions_pricerequest USING btree (requested_by_id);

CREATE INDEX completions_provider_slug_4371c7d1_like ON public.completions_provider USING btree (slug varchar_pattern_ops);

CREATE INDEX completions_providerprice_provider_id_5c391d90 ON public.completions_providerprice USING btree (provider_id);

CREATE INDEX completions_providerprice_provider_id_5c391d90_like ON public.completions_providerprice USING btree (provider_id varchar_pattern_ops);

CREATE INDEX completions_routablealias_id_ed31493f_like ON public.completions_routablealias USING btree (id varchar_pattern_ops);

CREATE INDEX completions_route_provider_id_cd31a2b4 ON public.completions_route USING btree (provider_id);

CREATE INDEX completions_route_provider_id_cd31a2b4_like ON public.completions_route USING btree (provider_id varchar_pattern_ops);

CREATE INDEX completions_storedresponse_completion_id_d601ccc5_like ON public.completions_storedresponse USING btree (completion_id varchar_pattern_ops);

CREATE INDEX completions_storedresponse_expires_at_2997666e ON public.completions_storedresponse USING btree (expires_at);

CREATE INDEX completions_upstreamlist_provider_id_7efbf29f_like ON public.completions_upstreamlist USING btree (provider_id varchar_pattern_ops);

CREATE INDEX deliveries_by_next_try ON public.billing_warningdelivery USING btree (next_try_at) WHERE ((state)::text = 'WAITING'::text);

CREATE INDEX disputed_payments ON public.billing_payment USING btree (account_id) WHERE (disputed_cents > 0);

CREATE INDEX django_admin_log_content_type_id_c4bce8eb ON public.django_admin_log USING btree (content_type_id);

CREATE INDEX django_admin_log_user_id_c564eba6 ON public.django_admin_log USING btree (user_id);

CREATE INDEX django_session_expire_date_a5c62663 ON public.django_session USING btree (expire_date);

CREATE INDEX django_session_session_key_c0390e0f_like ON public.django_session USING btree (session_key varchar_pattern_ops);

CREATE INDEX entries_beside_usage ON public.billing_ledgerentry USING btree (account_id, type, seq) WHERE (NOT ((type)::text = 'USAGE_DEBIT'::text));

CREATE INDEX entries_beside_usage_by_time ON public.billing_ledgerentry USING btree (id) WHERE (NOT ((type)::text = 'USAGE_DEBIT'::text));

CREATE INDEX entries_by_issuer ON public.billing_ledgerentry USING btree (issued_by_id) WHERE (issued_by_id IS NOT NULL);

CREATE INDEX entries_by_metadata ON public.billing_ledgerentry USING gin (metadata) WHERE (NOT ((type)::text = 'USAGE_DEBIT'::text));

CREATE INDEX entries_by_spender ON public.billing_ledgerentry USING btree (account_id, spender, seq) WHERE (spender IS NOT NULL);

CREATE INDEX failed_completions_by_key ON public.completions_completion USING btree (key_id, id DESC) WHERE (failed_attempts IS NOT NULL);

CREATE INDEX failed_holds_by_time ON public.billing_hold USING btree (account_id, resolved_at) WHERE ((state)::text = ANY ((ARRAY['RELEASED'::character varying, 'EXPIRED'::character varying])::text[]));

CREATE INDEX keys_apikey_account_id_8cc4a3e9 ON public.keys_apikey USING btree (account_id);

CREATE INDEX keys_apikey_created_by_id_3a799a08 ON public.keys_apikey USING btree (created_by_id);

CREATE INDEX keys_apikey_digest_34ac1a27_like ON public.keys_apikey USING btree (digest varchar_pattern_ops);

CREATE INDEX keys_apikey_id_abc1cc74_like ON public.keys_apikey USING btree (id varchar_pattern_ops);

CREATE INDEX keys_budget_id_9e32d251_like ON public.keys_budget USING btree (id varchar_pattern_ops);

CREATE INDEX keys_budget_member_id_595a4473 ON public.keys_budget USING btree (member_id);

CREATE INDEX keys_by_last_four ON public.keys_apikey USING btree (last_four);

CREATE INDEX keys_formersecret_digest_2436aac6_like ON public.keys_formersecret USING btree (digest varchar_pattern_ops);

CREATE INDEX keys_formersecret_key_id_2846c332 ON public.keys_formersecret USING btree (key_id);

CREATE INDEX keys_formersecret_key_id_2846c332_like ON public.keys_formersecret USING btree (key_id varchar_pattern_ops);

CREATE INDEX keys_formersecret_last_four_90221266 ON public.keys_formersecret USING btree (last_four);

CREATE INDEX keys_formersecret_last_four_90221266_like ON public.keys_formersecret USING btree (last_four varchar_pattern_ops);

CREATE INDEX keys_managementkey_account_id_5e78d196 ON public.keys_managementkey USING btree (account_id);

CREATE INDEX keys_managementkey_created_by_id_89e77a3b ON public.keys_managementkey USING btree (created_by_id);

CREATE INDEX keys_managementkey_digest_f76e88ac_like ON public.keys_managementkey USING btree (digest varchar_pattern_ops);

CREATE INDEX keys_managementkey_id_f4fee25a_like ON public.keys_managementkey USING btree (id varchar_pattern_ops);

CREATE INDEX keys_managementreply_at_397e1e03 ON public.keys_managementreply USING btree (at);

CREATE INDEX keys_refusedrequest_request_id_3d12c5de_like ON public.keys_refusedrequest USING btree (request_id varchar_pattern_ops);

CREATE INDEX labels_by_hour ON public.completions_labelhour USING btree (hour);

CREATE INDEX labels_by_name ON public.completions_labelhour USING btree (account_id, name, hour);

CREATE INDEX limits_on_known_devices ON public.billing_signinlimit USING btree (email_digest) WHERE (NOT ((email_digest)::text = ''::text));

CREATE INDEX lines_of_a_bill_by_day ON public.completions_billline USING btree (bill_id, day);

CREATE INDEX mfa_authenticator_user_id_0c3a50c0 ON public.mfa_authenticator USING btree (user_id);

CREATE INDEX monitoring_taskrun_name_e5a8b1cd_like ON public.monitoring_taskrun USING btree (name varchar_pattern_ops);

CREATE INDEX open_holds_by_account ON public.billing_hold USING btree (account_id) WHERE ((state)::text = 'HELD'::text);

CREATE INDEX open_holds_by_expiry ON public.billing_hold USING btree (expires_at) WHERE ((state)::text = 'HELD'::text);

CREATE INDEX payments_by_account ON public.billing_payment USING btree (account_id, id DESC);

CREATE INDEX payments_by_receipt ON public.billing_payment USING btree ("right"((account_id)::text, 8), receipt_number);

CREATE INDEX payments_by_time ON public.billing_payment USING btree (created_at);

CREATE INDEX places_by_cell ON public.cells_accountplace USING btree (cell);

CREATE INDEX rankings_alias_model_id_9ef58444 ON public.rankings_alias USING btree (model_id);

CREATE INDEX rankings_alias_model_id_9ef58444_like ON public.rankings_alias USING btree (model_id varchar_pattern_ops);

CREATE INDEX rankings_dailyrank_model_id_27f77b8a ON public.rankings_dailyrank USING btree (model_id);

CREATE INDEX rankings_dailyrank_model_id_27f77b8a_like ON public.rankings_dailyrank USING btree (model_id varchar_pattern_ops);

CREATE INDEX rankings_entry_model_id_4a160391 ON public.rankings_entry USING btree (model_id);

CREATE INDEX rankings_entry_model_id_4a160391_like ON public.rankings_entry USING btree (model_id varchar_pattern_ops);

CREATE INDEX rankings_profile_model_id_42e4e9d8_like ON public.rankings_profile USING btree (model_id varchar_pattern_ops);

CREATE INDEX rankings_sourcestate_source_53b7d90c_like ON public.rankings_sourcestate USING btree (source varchar_pattern_ops);

CREATE INDEX rankings_standing_snapshot_id_911f50ca ON public.rankings_standing USING btree (snapshot_id);

CREATE INDEX refusal_counts_by_hour ON public.keys_refusalcount USING btree (hour);

CREATE INDEX refused_requests_by_key ON public.keys_refusedrequest USING btree (key_id, at DESC);

CREATE INDEX refused_requests_by_time ON public.keys_refusedrequest USING btree (at);

CREATE INDEX snapshots_by_source ON public.rankings_snapshot USING btree (source, id DESC);

CREATE INDEX socialaccount_socialaccount_user_id_8146e70c ON public.socialaccount_socialaccount USING btree (user_id);

CREATE INDEX socialaccount_socialtoken_account_id_951f210e ON public.socialaccount_socialtoken USING btree (account_id);

CREATE INDEX socialaccount_socialtoken_app_id_636a42d7 ON public.socialaccount_socialtoken USING btree (app_id);

CREATE INDEX stored_replies_by_age ON public.completions_idempotentrequest USING btree (account_id, expires_at, id) WHERE (reply_bytes > 0);

CREATE INDEX stored_responses_by_age ON public.completions_storedresponse USING btree (account_id, expires_at, completion_id) WHERE (stored_bytes > 0);

CREATE UNIQUE INDEX unique_authenticator_type ON public.mfa_authenticator USING btree (user_id, type) WHERE ((type)::text = ANY ((ARRAY['totp'::character varying, 'recovery_codes'::character varying])::text[]));

CREATE UNIQUE INDEX unique_primary_email ON public.account_emailaddress USING btree (user_id, "primary") WHERE "primary";

CREATE UNIQUE INDEX unique_verified_email ON public.account_emailaddress USING btree (email) WHERE verified;

CREATE INDEX unreplied_responses_by_age ON public.completions_storedresponse USING btree (account_id, expires_at, completion_id) WHERE (stored_bytes = 0);

CREATE INDEX usage_by_hour ON public.completions_usagehour USING btree (hour);

CREATE INDEX usersessions_usersession_session_key_fd35de43_like ON public.usersessions_usersession USING btree (session_key varchar_pattern_ops);

CREATE INDEX usersessions_usersession_user_id_af5e0a6d ON public.usersessions_usersession USING btree (user_id);

CREATE INDEX waiting_credits_by_requester ON public.billing_creditrequest USING btree (requested_by_id) WHERE ((decision)::text = ''::text);

CREATE INDEX warnings_by_account ON public.billing_accountwarning USING btree (account_id, created_at DESC);

CREATE INDEX warnings_by_model ON public.billing_accountwarning USING btree (((data ->> 'model'::text))) WHERE ((kind)::text = ANY ((ARRAY['PRICE_CHANGED'::character varying, 'MODEL_ENDS'::character varying])::text[]));

CREATE INDEX warnings_by_time ON public.billing_accountwarning USING btree (created_at);

CREATE INDEX warnings_to_prepare ON public.billing_accountwarning USING btree (created_at) WHERE (prepared_at IS NULL);

CREATE TRIGGER a_changed_address_ends_sessions BEFORE UPDATE OF email, sessions_generation ON public.billing_user FOR EACH ROW EXECUTE FUNCTION public.billing_count_address();

CREATE TRIGGER a_changed_end_is_noted BEFORE UPDATE ON public.completions_languagemodel FOR EACH ROW WHEN (((old.ends_on IS DISTINCT FROM new.ends_on) OR ((old.successor_id)::text IS DISTINCT FROM (new.successor_id)::text))) EXECUTE FUNCTION public.completions_note_end();

CREATE TRIGGER a_payment_keeps_its_amount BEFORE DELETE OR UPDATE ON public.billing_payment FOR EACH ROW EXECUTE FUNCTION public.billing_keep_payment();

CREATE TRIGGER a_price_keeps_rates BEFORE INSERT ON public.completions_price FOR EACH ROW EXECUTE FUNCTION public.completions_keep_rates();

CREATE TRIGGER a_pricerequest_keeps_rates BEFORE INSERT ON public.completions_pricerequest FOR EACH ROW EXECUTE FUNCTION public.completions_keep_rates();

CREATE TRIGGER a_providerprice_keeps_rates BEFORE INSERT OR UPDATE ON public.completions_providerprice FOR EACH ROW EXECUTE FUNCTION public.completions_keep_rates();

CREATE CONSTRAINT TRIGGER accounts_agree_with_their_book AFTER INSERT OR UPDATE OF id, balance_nanos, last_seq ON public.billing_account DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.billing_check_balance();

CREATE TRIGGER acts_are_never_changed BEFORE DELETE OR UPDATE ON public.activity_activity FOR EACH ROW EXECUTE FUNCTION public.activity_refuse_change();

CREATE TRIGGER acts_are_never_truncated BEFORE TRUNCATE ON public.activity_activity FOR EACH STATEMENT EXECUTE FUNCTION public.activity_refuse_change();

CREATE TRIGGER charges_are_never_changed AFTER UPDATE ON public.completions_completion FOR EACH ROW WHEN (((old.settlement IS NOT NULL) AND (((((((((((((((((((((((((((old.id)::text IS DISTINCT FROM (new.id)::text) OR (old.account_id IS DISTINCT FROM new.account_id)) OR ((old.key_id)::text IS DISTINCT FROM (new.key_id)::text)) OR ((old.model_id)::text IS DISTINCT FROM (new.model_id)::text)) OR (old.price_id IS DISTINCT FROM new.price_id)) OR ((old.settlement)::text IS DISTINCT FROM (new.settlement)::text)) OR (old.prompt_tokens IS DISTINCT FROM new.prompt_tokens)) OR (old.cached_tokens IS DISTINCT FROM new.cached_tokens)) OR (old.cache_write_tokens IS DISTINCT FROM new.cache_write_tokens)) OR (old.completion_tokens IS DISTINCT FROM new.completion_tokens)) OR (old.images IS DISTINCT FROM new.images)) OR (old.cost_nanos IS DISTINCT FROM new.cost_nanos)) OR ((old.repeats)::text IS DISTINCT FROM (new.repeats)::text)) OR (old.charged_before_nanos IS DISTINCT FROM new.charged_before_nanos)) OR (old.spending_day IS DISTINCT FROM new.spending_day)) OR (old.limit_nanos IS DISTINCT FROM new.limit_nanos)) OR (old.limit_since IS DISTINCT FROM new.limit_since)) OR (old.created_at IS DISTINCT FROM new.created_at)) OR (old.cache_write_1h_tokens IS DISTINCT FROM new.cache_write_1h_tokens)) OR ((old.service_tier)::text IS DISTINCT FROM (new.service_tier)::text)) OR (old.web_searches IS DISTINCT FROM new.web_searches)) OR (old.other_counts IS DISTINCT FROM new.other_counts)) OR (old.own_key_fee IS DISTINCT FROM new.own_key_fee)) OR (old.provider_held_nanos IS DISTINCT FROM new.provider_held_nanos)) OR (old.provider_nanos IS DISTINCT FROM new.provider_nanos)) OR (old.counts_price IS DISTINCT FROM new.counts_price)))) EXECUTE FUNCTION public.completions_refuse_change();

CREATE TRIGGER completions_are_never_deleted BEFORE DELETE ON public.completions_completion FOR EACH ROW EXECUTE FUNCTION public.completions_refuse_change();

CREATE TRIGGER credit_requests_are_decided_once BEFORE DELETE OR UPDATE ON public.billing_creditrequest FOR EACH ROW EXECUTE FUNCTION public.billing_check_credit_request();

CREATE CONSTRAINT TRIGGER entries_agree_with_their_account AFTER INSERT ON public.billing_ledgerentry DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.billing_check_balance();

CREATE TRIGGER entries_are_never_changed BEFORE DELETE OR UPDATE ON public.billing_ledgerentry FOR EACH ROW EXECUTE FUNCTION public.billing_refuse_change();

CREATE TRIGGER entries_are_never_truncated BEFORE TRUNCATE ON public.billing_ledgerentry FOR EACH STATEMENT EXECUTE FUNCTION public.billing_refuse_change();

CREATE TRIGGER entries_follow_each_other BEFORE INSERT ON public.billing_ledgerentry FOR EACH ROW EXECUTE FUNCTION public.billing_check_chain();

CREATE TRIGGER heads_are_never_changed BEFORE DELETE OR UPDATE ON public.billing_ledgerhead FOR EACH ROW EXECUTE FUNCTION public.billing_refuse_change();

CREATE TRIGGER holds_resolve_once BEFORE DELETE OR UPDATE ON public.billing_hold FOR EACH ROW EXECUTE FUNCTION public.billing_check_hold();

CREATE TRIGGER invoices_stay_as_issued BEFORE DELETE OR UPDATE ON public.billing_invoicefile FOR EACH ROW EXECUTE FUNCTION public.billing_refuse_change();

CREATE TRIGGER leaves_are_never_changed BEFORE DELETE OR UPDATE ON public.billing_ledgerleaf FOR EACH ROW EXECUTE FUNCTION public.billing_refuse_change();

CREATE TRIGGER manual_entries_are_never_changed BEFORE DELETE OR UPDATE ON public.billing_manualentry FOR EACH ROW EXECUTE FUNCTION public.billing_refuse_change();

CREATE TRIGGER membership_changes_are_never_changed BEFORE DELETE OR UPDATE ON public.billing_membershipchange FOR EACH ROW EXECUTE FUNCTION public.billing_refuse_membership_change();

CREATE TRIGGER memberships_are_recorded AFTER INSERT OR DELETE OR UPDATE ON public.billing_membership FOR EACH ROW EXECUTE FUNCTION public.billing_record_membership();

CREATE TRIGGER owner_requests_are_decided_once BEFORE DELETE OR UPDATE ON public.billing_ownerrequest FOR EACH ROW EXECUTE FUNCTION public.billing_check_owner_request();

CREATE TRIGGER payment_events_are_never_changed BEFORE DELETE OR UPDATE ON public.billing_paymentevent FOR EACH ROW EXECUTE FUNCTION public.billing_refuse_event_change();

CREATE TRIGGER payment_events_are_summed_up AFTER INSERT ON public.billing_paymentevent FOR EACH ROW WHEN ((new.payment_id IS NOT NULL)) EXECUTE FUNCTION public.billing_sum_up_events();

CREATE TRIGGER price_requests_are_decided_once BEFORE DELETE OR UPDATE ON public.completions_pricerequest FOR EACH ROW EXECUTE FUNCTION public.completions_check_price_request();

CREATE TRIGGER prices_are_never_changed BEFORE UPDATE ON public.completions_price FOR EACH ROW EXECUTE FUNCTION public.completions_refuse_change();

CREATE TRIGGER refunds_fit_their_credit BEFORE INSERT ON public.billing_ledgerentry FOR EACH ROW WHEN ((((new.type)::text = 'REFUND_DEBIT'::text) AND (new.metadata ? 'entryId'::text))) EXECUTE FUNCTION public.billing_check_refund();

CREATE TRIGGER removals_are_decided_once BEFORE DELETE OR UPDATE ON public.billing_secondfactorrequest FOR EACH ROW EXECUTE FUNCTION public.billing_check_second_factor_request();

CREATE TRIGGER roots_are_never_changed BEFORE DELETE OR UPDATE ON public.billing_ledgerroot FOR EACH ROW EXECUTE FUNCTION public.billing_refuse_change();

ALTER TABLE ONLY public.account_emailaddress
    ADD CONSTRAINT account_emailaddress_user_id_2c513194_fk_billing_user_id FOREIGN KEY (user_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.account_emailconfirmation
    ADD CONSTRAINT account_emailconfirm_email_address_id_5b7f8c58_fk_account_e FOREIGN KEY (email_address_id) REFERENCES public.account_emailaddress(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.activity_activity
    ADD CONSTRAINT activity_activity_actor_id_ee057585_fk_billing_user_id FOREIGN KEY (actor_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissio_permission_id_84c5c92e_fk_auth_perm FOREIGN KEY (permission_id) REFERENCES public.auth_permission(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_group_id_b120cbf9_fk_auth_group_id FOREIGN KEY (group_id) REFERENCES public.auth_group(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_content_type_id_2f476e4b_fk_django_co FOREIGN KEY (content_type_id) REFERENCES public.django_content_type(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_accountclosing
    ADD CONSTRAINT billing_accountclosi_account_id_d3105ef8_fk_billing_a FOREIGN KEY (account_id) REFERENCES public.billing_account(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_accountclosing
    ADD CONSTRAINT billing_accountclosing_closed_by_id_ee3a807d_fk_billing_user_id FOREIGN KEY (closed_by_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_accountexport
    ADD CONSTRAINT billing_accountexport_account_id_a254be94_fk_billing_account_id FOREIGN KEY (account_id) REFERENCES public.billing_account(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_accountexport
    ADD CONSTRAINT billing_accountexport_asked_by_id_8117ebe2_fk_billing_user_id FOREIGN KEY (asked_by_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_accountwarning
    ADD CONSTRAINT billing_accountwarni_account_id_bebfca0f_fk_billing_a FOREIGN KEY (account_id) REFERENCES public.billing_account(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_addresschange
    ADD CONSTRAINT billing_addresschange_user_id_689ce421_fk_billing_user_id FOREIGN KEY (user_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_billingdetails
    ADD CONSTRAINT billing_billingdetai_account_id_c5768d54_fk_billing_a FOREIGN KEY (account_id) REFERENCES public.billing_account(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_creditrequest
    ADD CONSTRAINT billing_creditreques_entry_id_4cb53fdf_fk_billing_l FOREIGN KEY (entry_id) REFERENCES public.billing_ledgerentry(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_creditrequest
    ADD CONSTRAINT billing_creditreques_requested_by_id_cf386c4e_fk_billing_u FOREIGN KEY (requested_by_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_creditrequest
    ADD CONSTRAINT billing_creditrequest_account_id_fec46d1f_fk_billing_account_id FOREIGN KEY (account_id) REFERENCES public.billing_account(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_creditrequest
    ADD CONSTRAINT billing_creditrequest_decided_by_id_bea49604_fk_billing_user_id FOREIGN KEY (decided_by_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_emailchoice
    ADD CONSTRAINT billing_emailchoice_account_id_9fc6f54d_fk_billing_account_id FOREIGN KEY (account_id) REFERENCES public.billing_account(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_exportpart
    ADD CONSTRAINT billing_exportpart_export_id_411eee16_fk_billing_a FOREIGN KEY (export_id) REFERENCES public.billing_accountexport(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_hold
    ADD CONSTRAINT billing_hold_account_id_56c002f9_fk_billing_account_id FOREIGN KEY (account_id) REFERENCES public.billing_account(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_invitation
    ADD CONSTRAINT billing_invitation_account_id_a2d6acd6_fk_billing_account_id FOREIGN KEY (account_id) REFERENCES public.billing_account(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_invitation
    ADD CONSTRAINT billing_invitation_invited_by_id_acbc0e40_fk_billing_user_id FOREIGN KEY (invited_by_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_invoicefile
    ADD CONSTRAINT billing_invoicefile_account_id_968d4a3e_fk_billing_account_id FOREIGN KEY (account_id) REFERENCES public.billing_account(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_ledgerentry
    ADD CONSTRAINT billing_ledgerentry_account_id_ac8d6a24_fk_billing_account_id FOREIGN KEY (account_id) REFERENCES public.billing_account(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_ledgerentry
    ADD CONSTRAINT billing_ledgerentry_issued_by_id_5c71d352_fk_billing_user_id FOREIGN KEY (issued_by_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_manualentry
    ADD CONSTRAINT billing_manualentry_account_id_f849ab98_fk_billing_account_id FOREIGN KEY (account_id) REFERENCES public.billing_account(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_manualentry
    ADD CONSTRAINT billing_manualentry_entry_id_bbc3b268_fk_billing_ledgerentry_id FOREIGN KEY (entry_id) REFERENCES public.billing_ledgerentry(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_manualentry
    ADD CONSTRAINT billing_manualentry_issued_by_id_a28bb9d8_fk_billing_user_id FOREIGN KEY (issued_by_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_membership
    ADD CONSTRAINT billing_membership_account_id_a4c0f492_fk_billing_account_id FOREIGN KEY (account_id) REFERENCES public.billing_account(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_membership
    ADD CONSTRAINT billing_membership_user_id_bcd9f89b_fk_billing_user_id FOREIGN KEY (user_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_ownerrequest
    ADD CONSTRAINT billing_ownerrequest_account_id_3ee666fd_fk_billing_account_id FOREIGN KEY (account_id) REFERENCES public.billing_account(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_ownerrequest
    ADD CONSTRAINT billing_ownerrequest_decided_by_id_fae48a66_fk_billing_user_id FOREIGN KEY (decided_by_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_ownerrequest
    ADD CONSTRAINT billing_ownerrequest_requested_by_id_29dead38_fk_billing_u FOREIGN KEY (requested_by_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_ownerrequest
    ADD CONSTRAINT billing_ownerrequest_user_id_98ccb2e0_fk_billing_user_id FOREIGN KEY (user_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_passwordlink
    ADD CONSTRAINT billing_passwordlink_sent_by_id_22159291_fk_billing_user_id FOREIGN KEY (sent_by_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_passwordlink
    ADD CONSTRAINT billing_passwordlink_user_id_e49655c2_fk_billing_user_id FOREIGN KEY (user_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_payment
    ADD CONSTRAINT billing_payment_account_id_411a2f8d_fk_billing_account_id FOREIGN KEY (account_id) REFERENCES public.billing_account(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_payment
    ADD CONSTRAINT billing_payment_created_by_id_d3ad50b7_fk_billing_user_id FOREIGN KEY (created_by_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_payment
    ADD CONSTRAINT billing_payment_credit_id_a978dd65_fk_billing_ledgerentry_id FOREIGN KEY (credit_id) REFERENCES public.billing_ledgerentry(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_paymentdifference
    ADD CONSTRAINT billing_paymentdiffe_payment_id_b6dde51f_fk_billing_p FOREIGN KEY (payment_id) REFERENCES public.billing_payment(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_paymentevent
    ADD CONSTRAINT billing_paymentevent_payment_id_463d0f0d_fk_billing_payment_id FOREIGN KEY (payment_id) REFERENCES public.billing_payment(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_secondfactorrequest
    ADD CONSTRAINT billing_secondfactor_account_id_8e3d7879_fk_billing_a FOREIGN KEY (account_id) REFERENCES public.billing_account(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_secondfactorrequest
    ADD CONSTRAINT billing_secondfactor_decided_by_id_8e8d915e_fk_billing_u FOREIGN KEY (decided_by_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_secondfactorrequest
    ADD CONSTRAINT billing_secondfactor_requested_by_id_f5d016ff_fk_billing_u FOREIGN KEY (requested_by_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_secondfactorrequest
    ADD CONSTRAINT billing_secondfactorrequest_user_id_d82eb8c0_fk_billing_user_id FOREIGN KEY (user_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_topuprule
    ADD CONSTRAINT billing_topuprule_account_id_a211715d_fk_billing_account_id FOREIGN KEY (account_id) REFERENCES public.billing_account(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_topuprule
    ADD CONSTRAINT billing_topuprule_attempt_id_5663ca3b_fk_billing_payment_id FOREIGN KEY (attempt_id) REFERENCES public.billing_payment(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_topuprule
    ADD CONSTRAINT billing_topuprule_card_payment_id_259b23a2_fk_billing_p FOREIGN KEY (card_payment_id) REFERENCES public.billing_payment(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_topuprule
    ADD CONSTRAINT billing_topuprule_set_by_id_2d3612e0_fk_billing_user_id FOREIGN KEY (set_by_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_user_groups
    ADD CONSTRAINT billing_user_groups_group_id_2b1dc023_fk_auth_group_id FOREIGN KEY (group_id) REFERENCES public.auth_group(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_user_groups
    ADD CONSTRAINT billing_user_groups_user_id_4385cb5c_fk_billing_user_id FOREIGN KEY (user_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_user_user_permissions
    ADD CONSTRAINT billing_user_user_pe_permission_id_0e45bb97_fk_auth_perm FOREIGN KEY (permission_id) REFERENCES public.auth_permission(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_user_user_permissions
    ADD CONSTRAINT billing_user_user_pe_user_id_65bb214f_fk_billing_u FOREIGN KEY (user_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_warningdelivery
    ADD CONSTRAINT billing_warningdeliv_endpoint_id_68eab7e4_fk_billing_w FOREIGN KEY (endpoint_id) REFERENCES public.billing_webhookendpoint(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_warningdelivery
    ADD CONSTRAINT billing_warningdeliv_warning_id_fcec0033_fk_billing_a FOREIGN KEY (warning_id) REFERENCES public.billing_accountwarning(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.billing_webhookendpoint
    ADD CONSTRAINT billing_webhookendpo_account_id_c4eb9efa_fk_billing_a FOREIGN KEY (account_id) REFERENCES public.billing_account(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.cells_userplace
    ADD CONSTRAINT cells_userplace_user_id_fa851785_fk_billing_user_id FOREIGN KEY (user_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_bill
    ADD CONSTRAINT completions_bill_provider_id_f1d287e5_fk_completio FOREIGN KEY (provider_id) REFERENCES public.completions_provider(slug) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_billcomparison
    ADD CONSTRAINT completions_billcomp_bill_id_d45aa7bb_fk_completio FOREIGN KEY (bill_id) REFERENCES public.completions_bill(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_billcomparison
    ADD CONSTRAINT completions_billcomp_provider_id_ed75eee3_fk_completio FOREIGN KEY (provider_id) REFERENCES public.completions_provider(slug) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_billedmodel
    ADD CONSTRAINT completions_billedmo_model_id_03586551_fk_completio FOREIGN KEY (model_id) REFERENCES public.completions_languagemodel(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_billedmodel
    ADD CONSTRAINT completions_billedmo_provider_id_38ec4afa_fk_completio FOREIGN KEY (provider_id) REFERENCES public.completions_provider(slug) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_billline
    ADD CONSTRAINT completions_billline_bill_id_ea842b1a_fk_completions_bill_id FOREIGN KEY (bill_id) REFERENCES public.completions_bill(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_catalogproposal
    ADD CONSTRAINT completions_catalogp_decided_by_id_7b2cbf8b_fk_billing_u FOREIGN KEY (decided_by_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_catalogproposal
    ADD CONSTRAINT completions_catalogp_model_id_12bf5308_fk_completio FOREIGN KEY (model_id) REFERENCES public.completions_languagemodel(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_catalogproposal
    ADD CONSTRAINT completions_catalogp_provider_id_675b5866_fk_completio FOREIGN KEY (provider_id) REFERENCES public.completions_provider(slug) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_completion
    ADD CONSTRAINT completions_completi_account_id_ae3925eb_fk_billing_a FOREIGN KEY (account_id) REFERENCES public.billing_account(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_completion
    ADD CONSTRAINT completions_completi_model_id_97012692_fk_completio FOREIGN KEY (model_id) REFERENCES public.completions_languagemodel(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_completion
    ADD CONSTRAINT completions_completi_price_id_a73ebc14_fk_completio FOREIGN KEY (price_id) REFERENCES public.completions_price(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_completion
    ADD CONSTRAINT completions_completi_provider_id_dadff1b3_fk_completio FOREIGN KEY (provider_id) REFERENCES public.completions_provider(slug) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_completion
    ADD CONSTRAINT completions_completion_key_id_f4521e3c_fk_keys_apikey_id FOREIGN KEY (key_id) REFERENCES public.keys_apikey(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_idempotentrequest
    ADD CONSTRAINT completions_idempote_account_id_df0cd381_fk_billing_a FOREIGN KEY (account_id) REFERENCES public.billing_account(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_idempotentrequest
    ADD CONSTRAINT completions_idempote_completion_id_a10f628e_fk_completio FOREIGN KEY (completion_id) REFERENCES public.completions_completion(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_incidentupdate
    ADD CONSTRAINT completions_incident_incident_id_844e4d48_fk_completio FOREIGN KEY (incident_id) REFERENCES public.completions_incident(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_labelday
    ADD CONSTRAINT completions_labelday_account_id_3b699200_fk_billing_account_id FOREIGN KEY (account_id) REFERENCES public.billing_account(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_labelhour
    ADD CONSTRAINT completions_labelhour_account_id_15cce838_fk_billing_account_id FOREIGN KEY (account_id) REFERENCES public.billing_account(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_ownkey
    ADD CONSTRAINT completions_ownkey_account_id_2deed0f6_fk_billing_account_id FOREIGN KEY (account_id) REFERENCES public.billing_account(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_ownkey
    ADD CONSTRAINT completions_ownkey_provider_id_a2dd4f75_fk_completio FOREIGN KEY (provider_id) REFERENCES public.completions_provider(slug) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_price
    ADD CONSTRAINT completions_price_model_id_31ea9a63_fk_completio FOREIGN KEY (model_id) REFERENCES public.completions_languagemodel(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_pricerequest
    ADD CONSTRAINT completions_pricereq_before_id_729520d7_fk_completio FOREIGN KEY (before_id) REFERENCES public.completions_price(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_pricerequest
    ADD CONSTRAINT completions_pricereq_decided_by_id_f8305ffe_fk_billing_u FOREIGN KEY (decided_by_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_pricerequest
    ADD CONSTRAINT completions_pricereq_model_id_d6830426_fk_completio FOREIGN KEY (model_id) REFERENCES public.completions_languagemodel(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_pricerequest
    ADD CONSTRAINT completions_pricereq_requested_by_id_216b6699_fk_billing_u FOREIGN KEY (requested_by_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_providerday
    ADD CONSTRAINT completions_provider_model_id_24680409_fk_completio FOREIGN KEY (model_id) REFERENCES public.completions_languagemodel(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_providerprice
    ADD CONSTRAINT completions_provider_model_id_cdc3f813_fk_completio FOREIGN KEY (model_id) REFERENCES public.completions_languagemodel(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_providerprice
    ADD CONSTRAINT completions_provider_provider_id_5c391d90_fk_completio FOREIGN KEY (provider_id) REFERENCES public.completions_provider(slug) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_providerday
    ADD CONSTRAINT completions_provider_provider_id_a2304dbf_fk_completio FOREIGN KEY (provider_id) REFERENCES public.completions_provider(slug) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_route
    ADD CONSTRAINT completions_route_model_id_5f826d3e_fk_completio FOREIGN KEY (model_id) REFERENCES public.completions_languagemodel(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_route
    ADD CONSTRAINT completions_route_provider_id_cd31a2b4_fk_completio FOREIGN KEY (provider_id) REFERENCES public.completions_provider(slug) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_storedresponse
    ADD CONSTRAINT completions_storedre_account_id_2877005f_fk_billing_a FOREIGN KEY (account_id) REFERENCES public.billing_account(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_storedresponse
    ADD CONSTRAINT completions_storedre_completion_id_d601ccc5_fk_completio FOREIGN KEY (completion_id) REFERENCES public.completions_completion(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_upstreamlist
    ADD CONSTRAINT completions_upstream_provider_id_7efbf29f_fk_completio FOREIGN KEY (provider_id) REFERENCES public.completions_provider(slug) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_usagehour
    ADD CONSTRAINT completions_usagehour_account_id_ec72e0b3_fk_billing_account_id FOREIGN KEY (account_id) REFERENCES public.billing_account(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.completions_usagemark
    ADD CONSTRAINT completions_usagemark_account_id_4ce0e997_fk_billing_account_id FOREIGN KEY (account_id) REFERENCES public.billing_account(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.django_admin_log
    ADD CONSTRAINT django_admin_log_content_type_id_c4bce8eb_fk_django_co FOREIGN KEY (content_type_id) REFERENCES public.django_content_type(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.django_admin_log
    ADD CONSTRAINT django_admin_log_user_id_c564eba6_fk_billing_user_id FOREIGN KEY (user_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.keys_apikey
    ADD CONSTRAINT keys_apikey_account_id_8cc4a3e9_fk_billing_account_id FOREIGN KEY (account_id) REFERENCES public.billing_account(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.keys_apikey
    ADD CONSTRAINT keys_apikey_created_by_id_3a799a08_fk_billing_user_id FOREIGN KEY (created_by_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.keys_budget
    ADD CONSTRAINT keys_budget_account_id_a552a65b_fk_billing_account_id FOREIGN KEY (account_id) REFERENCES public.billing_account(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.keys_budget
    ADD CONSTRAINT keys_budget_member_id_595a4473_fk_billing_user_id FOREIGN KEY (member_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.keys_budgetmonth
    ADD CONSTRAINT keys_budgetmonth_budget_id_5eac95b2_fk_keys_budget_id FOREIGN KEY (budget_id) REFERENCES public.keys_budget(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.keys_formersecret
    ADD CONSTRAINT keys_formersecret_key_id_2846c332_fk_keys_apikey_id FOREIGN KEY (key_id) REFERENCES public.keys_apikey(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.keys_managementkey
    ADD CONSTRAINT keys_managementkey_account_id_5e78d196_fk_billing_account_id FOREIGN KEY (account_id) REFERENCES public.billing_account(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.keys_managementkey
    ADD CONSTRAINT keys_managementkey_created_by_id_89e77a3b_fk_billing_user_id FOREIGN KEY (created_by_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.keys_managementreply
    ADD CONSTRAINT keys_managementreply_management_key_id_271b0631_fk_keys_mana FOREIGN KEY (management_key_id) REFERENCES public.keys_managementkey(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.keys_refusalcount
    ADD CONSTRAINT keys_refusalcount_key_id_578d4d35_fk_keys_apikey_id FOREIGN KEY (key_id) REFERENCES public.keys_apikey(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.keys_refusedrequest
    ADD CONSTRAINT keys_refusedrequest_key_id_63400461_fk_keys_apikey_id FOREIGN KEY (key_id) REFERENCES public.keys_apikey(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.keys_run
    ADD CONSTRAINT keys_run_key_id_6cb4b288_fk_keys_apikey_id FOREIGN KEY (key_id) REFERENCES public.keys_apikey(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.keys_spendingday
    ADD CONSTRAINT keys_spendingday_key_id_78bc6eae_fk_keys_apikey_id FOREIGN KEY (key_id) REFERENCES public.keys_apikey(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.mfa_authenticator
    ADD CONSTRAINT mfa_authenticator_user_id_0c3a50c0_fk_billing_user_id FOREIGN KEY (user_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.rankings_alias
    ADD CONSTRAINT rankings_alias_model_id_9ef58444_fk_completio FOREIGN KEY (model_id) REFERENCES public.completions_languagemodel(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.rankings_dailyrank
    ADD CONSTRAINT rankings_dailyrank_model_id_27f77b8a_fk_completio FOREIGN KEY (model_id) REFERENCES public.completions_languagemodel(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.rankings_entry
    ADD CONSTRAINT rankings_entry_model_id_4a160391_fk_completio FOREIGN KEY (model_id) REFERENCES public.completions_languagemodel(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.rankings_profile
    ADD CONSTRAINT rankings_profile_model_id_42e4e9d8_fk_completio FOREIGN KEY (model_id) REFERENCES public.completions_languagemodel(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.rankings_standing
    ADD CONSTRAINT rankings_standing_snapshot_id_911f50ca_fk_rankings_snapshot_id FOREIGN KEY (snapshot_id) REFERENCES public.rankings_snapshot(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.socialaccount_socialtoken
    ADD CONSTRAINT socialaccount_social_account_id_951f210e_fk_socialacc FOREIGN KEY (account_id) REFERENCES public.socialaccount_socialaccount(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.socialaccount_socialtoken
    ADD CONSTRAINT socialaccount_social_app_id_636a42d7_fk_socialacc FOREIGN KEY (app_id) REFERENCES public.socialaccount_socialapp(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.socialaccount_socialaccount
    ADD CONSTRAINT socialaccount_socialaccount_user_id_8146e70c_fk_billing_user_id FOREIGN KEY (user_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.usersessions_usersession
    ADD CONSTRAINT usersessions_usersession_user_id_af5e0a6d_fk_billing_user_id FOREIGN KEY (user_id) REFERENCES public.billing_user(id) DEFERRABLE INITIALLY DEFERRED;

INSERT INTO public.django_migrations (app, name, applied) VALUES
	('account', '0001_initial', now()),
	('account', '0002_email_max_length', now()),
	('account', '0003_alter_emailaddress_create_unique_verified_email', now()),
	('account', '0004_alter_emailaddress_drop_unique_email', now()),
	('account', '0005_emailaddress_idx_upper_email', now()),
	('account', '0006_emailaddress_lower', now()),
	('account', '0007_emailaddress_idx_email', now()),
	('account', '0008_emailaddress_unique_primary_email_fixup', now()),
	('account', '0009_emailaddress_unique_primary_email', now()),
	('activity', '0001_initial', now()),
	('activity', '0002_acts_are_never_changed', now()),
	('activity', '0002_triggers', now()),
	('activity', '0003_old_acts_are_deleted', now()),
	('activity', '0003_take_over_the_admins_history', now()),
	('activity', '0004_acts_beside_accounts', now()),
	('activity', '0004_forms_are_acted_on_once', now()),
	('activity', '0005_programs_act', now()),
	('admin', '0001_initial', now()),
	('admin', '0002_logentry_remove_auto_add', now()),
	('admin', '0003_logentry_add_action_flag_choices', now()),
	('auth', '0001_initial', now()),
	('auth', '0002_alter_permission_name_max_length', now()),
	('auth', '0003_alter_user_email_max_length', now()),
	('auth', '0004_alter_user_username_opts', now()),
	('auth', '0005_alter_user_last_login_null', now()),
	('auth', '0006_require_contenttypes_0002', now()),
	('auth', '0007_alter_validators_add_error_messages', now()),
	('auth', '0008_alter_user_username_max_length', now()),
	('auth', '0009_alter_user_last_name_max_length', now()),
	('auth', '0010_alter_group_name_max_length', now()),
	('auth', '0011_update_proxy_permissions', now()),
	('auth', '0012_alter_user_first_name_max_length', now()),
	('billing', '0001_initial', now()),
	('billing', '0002_books_keep_themselves', now()),
	('billing', '0002_triggers', now()),
	('billing', '0003_entries_are_found_by_what_they_are', now()),
	('billing', '0003_ready_groups', now()),
	('billing', '0004_accounts_have_defaults_for_their_keys', now()),
	('billing', '0004_links_and_second_persons', now()),
	('billing', '0005_checks_read_what_they_compare', now()),
	('billing', '0005_validate_what_waits', now()),
	('billing', '0006_entries_and_members_have_a_second_record', now()),
	('billing', '0006_sign_in_limits', now()),
	('billing', '0007_accounts_count_their_open_holds', now()),
	('billing', '0007_accounts_have_a_standing', now()),
	('billing', '0008_accounts_count_their_stored_replies', now()),
	('billing', '0008_mark_accounts_that_paid', now()),
	('billing', '0009_accounts_may_keep_responses', now()),
	('billing', '0009_count_open_holds', now()),
	('billing', '0010_email_is_one_word', now()),
	('billing', '0010_password_links', now()),
	('billing', '0011_credits_wait_for_a_second_person', now()),
	('billing', '0011_signed_and_archived_days', now()),
	('billing', '0012_credit_requests_are_decided_once', now()),
	('billing', '0012_receipts_are_found_by_number', now()),
	('billing', '0013_lost_second_factors', now()),
	('billing', '0013_payments', now()),
	('billing', '0014_owners_settings', now()),
	('billing', '0014_payments_keep_their_amount', now()),
	('billing', '0015_search_finds_accounts_and_payments', now()),
	('billing', '0015_statements_are_found_by_number', now()),
	('billing', '0016_balances_are_checked_on_shards', now()),
	('billing', '0016_ready_groups', now()),
	('billing', '0017_payment_differences', now()),
	('billing', '0017_signed_days_outlive_moves', now()),
	('billing', '0018_addresses_have_one_spelling', now()),
	('billing', '0018_entries_beside_usage_by_time', now()),
	('billing', '0019_approvals_say_what_was_seen', now()),
	('billing', '0019_top_ups', now()),
	('billing', '0020_a_changed_address_ends_sessions', now()),
	('billing', '0020_groups_see_payments', now()),
	('billing', '0021_refunds_fit_their_credits', now()),
	('billing', '0021_stops_are_told', now()),
	('billing', '0022_acts_on_accounts_need_permissions', now()),
	('billing', '0022_payments_say_why_they_are_refused', now()),
	('billing', '0023_closings_that_staff_keep', now()),
	('billing', '0023_groups_act_on_accounts', now()),
	('billing', '0024_invoices_stay_as_issued', now()),
	('billing', '0024_members_have_roles', now()),
	('billing', '0025_payments_have_the_digest_of_their_events', now()),
	('billing', '0025_validate_the_roles', now()),
	('billing', '0026_groups_see_invitations', now()),
	('billing', '0026_support_unblocks_sign_ins', now()),
	('billing', '0027_changes_of_models_are_told', now()),
	('billing', '0027_failed_holds_are_found_by_time', now()),
	('billing', '0028_warnings', now()),
	('billing', '0028_warnings_are_called_alerts', now()),
	('billing', '0029_entries_prove_themselves', now()),
	('billing', '0029_validate_the_threshold', now()),
	('billing', '0030_earlier_entries_have_hashes', now()),
	('billing', '0030_groups_see_warnings', now()),
	('billing', '0031_accounts_may_have_budgets', now()),
	('billing', '0032_keys_are_compared_with_their_usual_hour', now()),
	('billing', '0033_accounts_demand_treatment_of_data', now()),
	('billing', '0034_keys_have_a_maximum_lifetime', now()),
	('billing', '0035_accounts_have_own_keys', now()),
	('billing', '0036_second_factor_requests_are_called_lost_phones', now()),
	('billing', '0037_alerts_of_budgets', now()),
	('billing', '0038_labels_of_what_is_reached', now()),
	('cells', '0001_cells_and_the_directory', now()),
	('completions', '0001_initial', now()),
	('completions', '0002_idempotency', now()),
	('completions', '0002_unused_indexes', now()),
	('completions', '0003_checkpoints', now()),
	('completions', '0003_ready_groups', now()),
	('completions', '0004_capabilities_and_routes', now()),
	('completions', '0004_prices_and_charges_are_never_changed', now()),
	('completions', '0005_proposals', now()),
	('completions', '0005_stored_responses', now()),
	('completions', '0006_hours_and_tiers_have_prices', now()),
	('completions', '0006_ids_are_compared_as_bytes', now()),
	('completions', '0007_admissions_say_their_limit', now()),
	('completions', '0007_labels_by_day', now()),
	('completions', '0008_a_run_is_repeated_once', now()),
	('completions', '0008_refused_provider_keys', now()),
	('completions', '0009_keys_count_their_open_holds', now()),
	('completions', '0009_routes_have_an_api', now()),
	('completions', '0010_departures_are_read_to_the_end', now()),
	('completions', '0010_status_page', now()),
	('completions', '0011_groups_write_incidents', now()),
	('completions', '0011_stored_replies_have_a_size', now()),
	('completions', '0012_times_to_the_first_token_by_hour', now()),
	('completions', '0012_unknown_fields_need_permission', now()),
	('completions', '0013_archived_completions_are_deleted', now()),
	('completions', '0013_circuits_are_hints_to_other_processes', now()),
	('completions', '0014_repeated_runs_pay_the_difference', now()),
	('completions', '0014_searches_have_prices', now()),
	('completions', '0015_models_have_a_maximum_in_flight', now()),
	('completions', '0015_prices_by_two_and_margins', now()),
	('completions', '0016_routes_have_rules', now()),
	('completions', '0016_validate_the_maximum_of_models', now()),
	('completions', '0017_completions_keep_their_request', now()),
	('completions', '0017_unreplied_responses_are_found_by_age', now()),
	('completions', '0018_catalogue_reads_no_customers', now()),
	('completions', '0018_completions_are_found_by_request', now()),
	('completions', '0019_price_requests_say_what_was_seen', now()),
	('completions', '0019_stored_replies_are_found_by_age', now()),
	('completions', '0020_completions_keep_their_providers_request', now()),
	('completions', '0020_completions_say_what_was_held', now()),
	('completions', '0021_completions_are_found_by_key', now()),
	('completions', '0021_prices_are_rates', now()),
	('completions', '0022_models_have_an_end', now()),
	('completions', '0022_ready_groups', now()),
	('completions', '0023_hours_of_completions', now()),
	('completions', '0023_providers_have_access', now()),
	('completions', '0024_groups_see_hours', now()),
	('completions', '0024_staff_pages_say_provider', now()),
	('completions', '0025_completions_count_on_budgets', now()),
	('completions', '0025_completions_keep_their_labels', now()),
	('completions', '0026_keys_are_compared_with_their_usual_hour', now()),
	('completions', '0026_usage_by_hour', now()),
	('completions', '0027_models_have_a_kind', now()),
	('completions', '0027_providers_promise', now()),
	('completions', '0028_completions_say_what_was_demanded', now()),
	('completions', '0028_labels_by_name', now()),
	('completions', '0029_aliases_keep_their_rankings', now()),
	('completions', '0029_bills_of_providers', now()),
	('completions', '0030_staff_read_bills', now()),
	('completions', '0031_own_keys', now()),
	('completions', '0032_unknown_requests_may_have_failed', now()),
	('completions', '0033_bills_have_hours', now()),
	('completions', '0034_limits_count_what_providers_bill', now()),
	('completions', '0035_contracts_of_own_keys', now()),
	('contenttypes', '0001_initial', now()),
	('contenttypes', '0002_remove_content_type_name', now()),
	('keys', '0001_initial', now()),
	('keys', '0002_rates_may_be_the_accounts', now()),
	('keys', '0002_ready_groups', now()),
	('keys', '0003_keys_count_their_open_holds', now()),
	('keys', '0003_runs_and_budgets', now()),
	('keys', '0004_keys_demand_treatment_of_data', now()),
	('keys', '0004_staff_may_set_rates', now()),
	('keys', '0005_days_count_what_providers_bill', now()),
	('keys', '0005_validate_the_counts_of_open_holds', now()),
	('keys', '0006_tokens_owed_are_counted_apart', now()),
	('keys', '0007_what_keys_were_refused', now()),
	('keys', '0008_keys_are_found_by_their_last_four', now()),
	('keys', '0009_ready_groups', now()),
	('keys', '0010_limits_may_be_raised_for_a_time', now()),
	('keys', '0011_validate_raises_of_limits', now()),
	('keys', '0012_keys_pause_rotate_and_have_tags', now()),
	('keys', '0013_management_keys', now()),
	('keys', '0014_groups_see_management_keys', now()),
	('mfa', '0001_initial', now()),
	('mfa', '0002_authenticator_timestamps', now()),
	('mfa', '0003_authenticator_type_uniq', now()),
	('monitoring', '0001_initial', now()),
	('rankings', '0001_initial', now()),
	('rankings', '0002_ready_groups', now()),
	('rankings', '0003_runs_are_held_back', now()),
	('rankings', '0004_staff_release_snapshots', now()),
	('rankings', '0005_sources_have_their_own_names', now()),
	('sessions', '0001_initial', now()),
	('socialaccount', '0001_initial', now()),
	('socialaccount', '0002_token_max_lengths', now()),
	('socialaccount', '0003_extra_data_default_dict', now()),
	('socialaccount', '0004_app_provider_id_settings', now()),
	('socialaccount', '0005_socialtoken_nullable_app', now()),
	('socialaccount', '0006_alter_socialaccount_extra_data', now()),
	('usersessions', '0001_initial', now());
