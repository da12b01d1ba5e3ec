"""An outbox in a schema of a PostgreSQL database."""

from duly.errors import MissingExtra

try:
    import psycopg as psycopg
except ImportError as error:
    raise MissingExtra("An outbox in PostgreSQL", "postgres") from error

from duly.outbox.postgres.outbox import PostgresOutbox

__all__ = ["PostgresOutbox"]
