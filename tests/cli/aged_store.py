"""An embedded store in which time has passed: every moment in some tables lies further back than it did."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path

import apsw

_MOMENT = re.compile(r'"(\d{4}-\d\d-\d\dT[0-9:.]+)Z"')
# No other number in a column comes near: microseconds since the epoch, in this century.
_LONG_AGO_MICROS = 10**15


def age(folder: Path, *tables: str, **passed: float) -> None:
    """Let time pass (`hours=2`) for what the tables of a folder's embedded store hold."""
    shift = timedelta(**passed)
    database = apsw.Connection(str(folder / ".interlock" / "interlock.db"))
    try:
        for table in tables:
            _age_table(database, table, shift)
    finally:
        database.close()


def _age_table(database: apsw.Connection, table: str, shift: timedelta) -> None:
    found = database.execute(f"SELECT tenant, id, body FROM {table}").fetchall()
    assert found, f"there is nothing in {table} to grow old"
    for tenant, record_id, body in found:
        older = _MOMENT.sub(lambda moment: f'"{_earlier(moment[1], shift)}Z"', str(body))
        database.execute(
            f"UPDATE {table} SET body = ? WHERE tenant = ? AND id = ?", (older, tenant, record_id)
        )
    for name, kind in database.execute(f"SELECT name, type FROM pragma_table_info('{table}')").fetchall():
        if kind == "INTEGER":
            micros = shift // timedelta(microseconds=1)
            database.execute(
                f"UPDATE {table} SET {name} = {name} - {micros} WHERE {name} > {_LONG_AGO_MICROS}"
            )


def _earlier(moment: str, shift: timedelta) -> str:
    return (datetime.fromisoformat(moment) - shift).isoformat()
