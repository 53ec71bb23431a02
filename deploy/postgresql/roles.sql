-- The database of the gateway and its two roles. Run it once, as a superuser: psql -f roles.sql
-- `model-gateway init` writes a copy with passwords.
\set ON_ERROR_STOP on

-- Owns the tables. Only `model-gateway migrate`, `add_cell` and `move_account` connect as this role.
CREATE ROLE gateway_owner LOGIN PASSWORD 'OWNER_PASSWORD';
GRANT SET ON PARAMETER session_replication_role TO gateway_owner; -- to move an account as replication does, without triggers
-- The gateway itself. It can write rows; it cannot change a table, disable a trigger, truncate, or grant anything.
CREATE ROLE gateway LOGIN PASSWORD 'GATEWAY_PASSWORD';

CREATE DATABASE gateway OWNER gateway_owner TEMPLATE template0 ENCODING 'UTF8';
REVOKE ALL ON DATABASE gateway FROM PUBLIC;
GRANT CONNECT ON DATABASE gateway TO gateway;

\connect gateway
ALTER SCHEMA public OWNER TO gateway_owner;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO gateway;
-- Of each table that a migration makes. `migrate` then takes UPDATE and DELETE on the ledger and other append-only tables away.
ALTER DEFAULT PRIVILEGES FOR ROLE gateway_owner IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO gateway;
ALTER DEFAULT PRIVILEGES FOR ROLE gateway_owner IN SCHEMA public GRANT USAGE, SELECT ON SEQUENCES TO gateway;
