-- One row about the store itself, read by every batch: how often its fences were raised, and what became of its clock.
-- Times are microseconds. `fence_floor`: every fence that is handed out is greater. `ids_ahead`: ids are dated so
-- much later than the clock says. `ahead_from`: from this moment on, what is dated later was dated by a wrong clock.
-- `origin` is the PostgreSQL server, timeline and database that this was when it was opened last.
CREATE TABLE store_state (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  epoch BIGINT NOT NULL DEFAULT 0,
  fence_floor BIGINT NOT NULL DEFAULT 0,
  raised_at BIGINT,
  raised_why TEXT,
  ids_ahead BIGINT NOT NULL DEFAULT 0,
  clock_repairs BIGINT NOT NULL DEFAULT 0,
  clock_repaired_at BIGINT,
  ahead_from BIGINT,
  origin TEXT
);
INSERT INTO store_state (id) VALUES (1);

-- What of the above has an audit entry.
CREATE TABLE store_notes (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
);
