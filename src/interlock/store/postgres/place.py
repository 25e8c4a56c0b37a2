"""Whether a PostgreSQL database holds our store, nothing yet, or only tables of another program.

Our tables may be anywhere on the search path. Other tables count only in the first schema of the path, where ours
would be made; tables of extensions do not count.
"""

from __future__ import annotations

import socket
import ssl
from urllib.parse import unquote, urlsplit

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from interlock.kernel.storage import OUR_TABLES, StoreMissing, refuse_foreign
from interlock.store.postgres.driver import PostgresConnection

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


async def expect_store(session: PostgresConnection, url: str, *, makes: bool) -> bool:
    """Whether our tables are there. If there are no tables, that is refused unless the caller `makes` them.

    Writes nothing. The caller has the lock under which stores are made. Raises `StoreMissing` and `NotAStore`.
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


# Errors of a server that takes no writes, but may answer reads.
UNWRITABLE = (asyncpg.DiskFullError, asyncpg.ReadOnlySQLTransactionError)
_TLS_REFUSED = "rejected SSL upgrade"
_TLS_WANTED = "no encryption"


def why(error: BaseException, url: str) -> str:
    """One sentence for an error of the driver or the server."""
    return _refused(error, url) or _unreachable(error, url) or _otherwise(error, url)


def _refused(error: BaseException, url: str) -> str | None:
    """The server was reached, and says no."""
    where = place_of(url)
    user = unquote(urlsplit(url).username or "") or "the user"
    match error:
        case asyncpg.DiskFullError():
            return (
                f"the disk is full: PostgreSQL has no room to write to {where}; free some space on its server"
            )
        case asyncpg.ReadOnlySQLTransactionError():
            turn_off = "make default_transaction_read_only off for it, or name the primary"
            return f"the database {where} is read-only; {turn_off}"
        case asyncpg.TargetServerAttributeNotMatched():
            return f"PostgreSQL ({where}) is a standby in recovery, which is read-only; name the primary"
        case asyncpg.InvalidCatalogNameError():
            name = where.partition(" at ")[0]
            return f"there is no database {where}; make it with `createdb {name}`, or check the URL"
        case asyncpg.InvalidPasswordError():
            return f"PostgreSQL ({where}) does not accept the password of {user}; check it in the URL or PGPASSWORD"
        case asyncpg.InvalidAuthorizationSpecificationError() if _TLS_WANTED in str(error):
            return f"PostgreSQL ({where}) lets {user} in with TLS only; add ?sslmode=require to the URL"
        case asyncpg.InvalidAuthorizationSpecificationError():
            return f"PostgreSQL ({where}) does not let {user} in ({error}); check the user in the URL and pg_hba.conf"
        case asyncpg.InsufficientPrivilegeError():
            return f"{user} may not do this in {where} ({error}); give them the right to"
        case asyncpg.InvalidSchemaNameError():
            return f"{user} has no schema to make tables in, in {where} ({error}); give them one to CREATE in"
        case _:
            return None


def _unreachable(error: BaseException, url: str) -> str | None:
    where = place_of(url)
    match error:
        case socket.gaierror():
            return f"the host of {where} is not known ({error.strerror}); check the name in the URL"
        case ssl.SSLCertVerificationError():
            told = error.verify_message or error
            return f"the certificate of PostgreSQL at {where} is not trusted ({told}); name its CA with ?sslrootcert="
        case ssl.SSLError():
            return f"TLS with PostgreSQL at {where} fails ({error}); check the port and ?sslmode= in the URL"
        case ConnectionError() if _TLS_REFUSED in str(error):
            without = "use ?sslmode=disable, or turn TLS on there"
            return f"PostgreSQL ({where}) speaks no TLS, and the URL asks for it; {without}"
        case ConnectionRefusedError():
            return f"nothing listens for PostgreSQL at {where}; start it, or check host and port in the URL"
        case OSError() if "Connect call failed" in str(error):
            return f"nothing listens for PostgreSQL at {where}; start it, or check host and port in the URL"
        case _:
            return None


def _otherwise(error: BaseException, url: str) -> str:
    told = f"{type(error).__name__}: {error}".rstrip(": ")
    if isinstance(error, asyncpg.PostgresError):
        return f"PostgreSQL refuses at {place_of(url)} ({told}); look into its log for more"
    return f"PostgreSQL does not answer at {place_of(url)} ({told}); see that it runs and can be reached"
