"""Whether a PostgreSQL database holds a store of ours, nothing yet, or only tables of somebody else's.

Ours may be anywhere on the search path. Somebody else's count in the schema that tables would be made in, the first of
the path; those that an extension brought are nobody's.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from interlock.store.contract import OUR_TABLES, StoreMissing, refuse_foreign
from interlock.store.postgres.driver import Session

_TABLES = """
SELECT
  count(*) FILTER (WHERE relnamespace = to_regnamespace(quote_ident(current_schema()))),
  count(*) FILTER (WHERE relname = ANY($1) AND pg_table_is_visible(oid))
FROM pg_class c
WHERE relkind IN ('r', 'p', 'f')
  AND NOT EXISTS (
    SELECT FROM pg_depend d
    WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
  )
"""


async def expect_store(session: Session, url: str, *, makes: bool) -> bool:
    """Whether our tables are there. If nobody's are, they may be made only by whoever `makes` them. Writes nothing.

    To be asked by whoever has the lock that stores are made under. Raises `StoreMissing` and `NotAStore`.
    """
    there, ours = (await session.fetch(_TABLES, list(OUR_TABLES)))[0]
    if ours == len(OUR_TABLES):
        return True
    if there:
        raise refuse_foreign(f"the database {place_of(url)}")
    if not makes:
        raise StoreMissing(
            f"there is no store in the database {place_of(url)}, which is empty; check the URL, or make one with "
            "`interlock init --store URL`"
        )
    return False


def place_of(url: str) -> str:
    """A database by its name and its server, without a password."""
    parts = urlsplit(url)
    name = parts.path.lstrip("/") or parts.username or "postgres"
    return f"{name} at {parts.netloc.rpartition('@')[2] or 'the local server'}"
