-- One row about the store itself, read by every batch: how often its fences were raised, and what became of its clock.
-- Times are microseconds. `fence_floor`: every fence that is handed out is greater. `ids_ahead`: ids are dated so
-- much later than the clock says. `ahead_from`: from this moment on, what is dated later was dated by a wrong clock.
-- `origin` says that there is a note beside the file of how far the store has come.
CREATE TABLE store_state (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  epoch INTEGER NOT NULL DEFAULT 0,
  fence_floor INTEGER NOT NULL DEFAULT 0,
  raised_at INTEGER,
  raised_why TEXT,
  ids_ahead INTEGER NOT NULL DEFAULT 0,
  clock_repairs INTEGER NOT NULL DEFAULT 0,
  clock_repaired_at INTEGER,
  ahead_from INTEGER,
  origin TEXT
);
INSERT INTO store_state (id) VALUES (1);

-- What of the above has an audit entry.
CREATE TABLE store_notes (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
