"""What `table=` and `where=` may be: names, or things of SQLAlchemy and Django that know their names.

No framework is imported: who passes an object of one has imported it.
"""

from __future__ import annotations

import importlib
import re
from typing import Any, Final, NamedTuple

from duly.errors import DefinitionError

_PART: Final = re.compile(r'"(?:[^"]|"")+"|[^."][^.]*')
_NAME: Final = re.compile(rf"(?:{_PART.pattern})(?:\.(?:{_PART.pattern}))?")


class Table(NamedTuple):
    """A table by its name, and by its schema where that was said."""

    schema: str | None
    name: str

    def __str__(self) -> str:
        return self.name if self.schema is None else f"{self.schema}.{self.name}"


def table_of(given: Any) -> Table:
    """The table that was meant."""
    if isinstance(given, Table):
        return given
    if isinstance(given, str):
        return _by_name(given)
    if is_django_model(given):
        return _by_name(given._meta.db_table.strip('"'))
    inner = getattr(given, "__table__", given)  # a mapped class of SQLAlchemy
    name = getattr(inner, "name", None)
    if isinstance(name, str) and hasattr(inner, "columns"):
        return Table(getattr(inner, "schema", None), str(name))
    raise DefinitionError(
        f"table is {given!r}; it takes a name like 'orders' or 'sales.orders', a table or mapped class of "
        "SQLAlchemy, or a model of Django."
    )


def _by_name(text: str) -> Table:
    """`orders`, `sales.orders`, or with quotes around a part that has a dot or a quote in it."""
    parts = _parts(text)
    if not 1 <= len(parts) <= 2 or not all(parts) or "\0" in text:
        raise DefinitionError(
            f"table is {text!r}; it takes 'name' or 'schema.name'. Write a name with a dot in double quotes."
        )
    return Table(parts[0] if len(parts) == 2 else None, parts[-1])


def _parts(text: str) -> list[str]:
    """The parts between dots; one that begins with a double quote ends with one, and may hold dots."""
    if not _NAME.fullmatch(text):
        return []
    return [_bare(part) for part in _PART.findall(text)]


def _bare(part: str) -> str:
    is_quoted = len(part) > 1 and part[0] == part[-1] == '"'
    return part[1:-1].replace('""', '"') if is_quoted else part


def keys_of(given: Any, *, what: str = "key") -> tuple[str, ...]:
    """Column names from one name or several."""
    names = (given,) if isinstance(given, str) else tuple(given)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise DefinitionError(f"{what} is {given!r}; it takes a column's name or a list of them.")
    if len(set(names)) < len(names):
        raise DefinitionError(f"{what} is {given!r}; it names a column twice.")
    return names


def is_django_model(given: Any) -> bool:
    """Whether this is a model of Django."""
    return isinstance(given, type) and hasattr(getattr(given, "_meta", None), "db_table")


def where_of(given: Any, table: Any) -> str | None:
    """A condition as SQL text: as it was written, or as Django or SQLAlchemy would write it."""
    if given is None:
        return None
    if isinstance(given, str):
        if not given.strip() or "\0" in given:
            raise DefinitionError(f"where is {given!r}; it takes a condition in SQL, or leave it out.")
        return given.strip()
    if hasattr(given, "children") and hasattr(given, "connector"):
        return _of_django(given, table)
    if hasattr(given, "compile"):
        return _of_alchemy(given)
    raise DefinitionError(f"where is {given!r}; it takes SQL text, a Q of Django or a clause of SQLAlchemy.")


def _of_alchemy(clause: Any) -> str:
    return str(clause.compile(compile_kwargs={"literal_binds": True}))


def _of_django(condition: Any, model: Any) -> str:
    """The condition alone, with its values in it: there is no statement of ours to bind them to."""
    if not is_django_model(model):
        raise DefinitionError(f"where is {condition!r}, a Q of Django: then table= must be a model.")
    database: Any = importlib.import_module("django.db")
    connection = database.connections[database.router.db_for_write(model)]
    query = model._base_manager.using(connection.alias).filter(condition).query
    compiler = query.get_compiler(connection=connection)
    compiler.pre_sql_setup()
    if len([alias for alias, count in query.alias_refcount.items() if count]) > 1:
        raise DefinitionError(
            f"where is {condition!r}, which reaches into another table: no change of the row would tell. "
            "Keep what decides in a column of the table itself."
        )
    text, values = compiler.compile(query.where)
    with connection.cursor() as cursor:
        return str(_with_literals(cursor, text, values))


def _with_literals(cursor: Any, text: str, values: Any) -> str:
    literals = tuple(_literal(cursor, value) for value in values)
    return str(text % literals)


def _literal(cursor: Any, value: Any) -> str:
    """As the database itself would quote it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    vendor = cursor.db.vendor
    if vendor == "sqlite":
        cursor.execute("select quote(%s)", [value])
        return str(cursor.fetchone()[0])
    cursor.execute("select quote_nullable(%s::text)", [str(value)])
    return str(cursor.fetchone()[0])
