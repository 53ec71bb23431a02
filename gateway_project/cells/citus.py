"""Citus, where it is installed, keeps the schema of a cell on one of its nodes.

Clients connect to the coordinator, which has the tables of the first cell and those that all cells share. Only the tables of
the catalog to which cells refer are on each node, because writing those needs all nodes. So a cell has no foreign keys to
users: people sign in while a node is unavailable.
"""

from django.db import transaction

from gateway_project.db import cell

REFERENCE_TABLES = ("completions_provider", "completions_languagemodel", "completions_price")

# Citus makes the tables of the first cell its own, as they are connected with those by foreign keys. It then counts their ids
# from 1 again.
_COUNTED = """
SELECT attrelid::regclass::text, attname, pg_get_serial_sequence(attrelid::regclass::text, attname) FROM pg_attribute
WHERE attidentity <> '' AND attrelid IN (
    SELECT oid FROM pg_class
    WHERE relkind = 'r' AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'completions_price'::regclass)
) AND pg_get_serial_sequence(attrelid::regclass::text, attname) IS NOT NULL
"""
_NOT_ON_ALL_NODES = """
SELECT name FROM unnest(%s::text[]) WITH ORDINALITY AS names (name, place) WHERE NOT EXISTS (
    SELECT FROM pg_dist_partition WHERE logicalrelid = name::regclass AND partmethod = 'n' AND repmodel = 't'
) ORDER BY place
"""
# Functions that the triggers' functions call and that are not in the cell: Citus does not look into functions.
_CALLED = """
SELECT called.oid::regprocedure::text FROM pg_proc AS called
WHERE pronamespace = 'public'::regnamespace AND prorettype <> 'trigger'::regtype AND EXISTS (
    SELECT FROM pg_trigger JOIN pg_class AS tables ON tables.oid = tgrelid JOIN pg_proc AS calling ON calling.oid = tgfoid
    WHERE relnamespace = to_regnamespace(%s) AND strpos(calling.prosrc, called.proname || '(') > 0
) AND NOT EXISTS (SELECT FROM pg_dist_object WHERE classid = 'pg_proc'::regclass AND objid = called.oid)
"""


def is_installed() -> bool:
    return bool(cell.execute("SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')")[0][0])


def prepare() -> None:
    """Put the tables to which cells refer on all nodes, unless they are. Raises the database's errors: nothing has changed."""
    with cell.use(cell.FIRST), transaction.atomic():
        missing = cell.execute(_NOT_ON_ALL_NODES, [list(REFERENCE_TABLES)])
        if missing:
            counted = {
                column: cell.execute(f"SELECT last_value, is_called FROM {column[2]}")[0]  # noqa: S608  a sequence's own name
                for column in cell.execute(_COUNTED)
            }
            for (table,) in missing:
                cell.execute("SELECT create_reference_table(%s)", [table])
            for (table, column, _), (last, is_called) in counted.items():
                sql = f"SELECT pg_get_serial_sequence(%s, %s), greatest(max({column}), %s) FROM {table}"  # noqa: S608  names
                [(sequence, highest)] = cell.execute(sql, [table, column, last if is_called else 0])
                if highest:  # of the ids so far, also of rows that came meanwhile
                    cell.execute("SELECT setval(%s, %s)", [sequence, highest])


def distribute(number: int) -> None:
    """Let Citus put the new tables of a cell on one of its nodes."""
    with cell.use(cell.FIRST), transaction.atomic():
        set_on_all_nodes()
        cell.execute("SET LOCAL check_function_bodies = off")  # nodes have no other tables of ``public``
        for (function,) in cell.execute(_CALLED, [cell.schema(number)]):
            cell.execute("SELECT create_distributed_function(%s)", [function])
        cell.execute("SELECT citus_schema_distribute(%s)", [cell.schema(number)])


def set_on_all_nodes() -> None:
    """Let each ``SET LOCAL`` that follows in this transaction, sent by itself, take effect on all nodes that it uses."""
    cell.execute("SET LOCAL citus.propagate_set_commands = 'local'")
