"""Jobs in a PostgreSQL database."""

from duly.errors import MissingExtra

try:
    import psycopg as psycopg
except ImportError as error:
    raise MissingExtra("The PostgreSQL store", "postgres") from error

from duly.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
