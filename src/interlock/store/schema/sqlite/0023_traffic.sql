-- How starts of runs ended, by minute for a day and by hour for a month: one row for each workflow and hour, or day.
CREATE TABLE traffic_sheets (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, shelf TEXT NOT NULL, name TEXT NOT NULL,
  at INTEGER NOT NULL, forget_at INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
CREATE INDEX traffic_sheets_by_name ON traffic_sheets (tenant, shelf, name, at);
CREATE INDEX traffic_sheets_by_age ON traffic_sheets (forget_at, tenant, id);

-- A tally without `rolled_at` is not yet in those rows; one with it is kept a while, so that nothing is added twice.
ALTER TABLE admission_tallies ADD COLUMN rolled_at INTEGER;
DROP INDEX admission_tallies_by_time;
DROP INDEX admission_tallies_by_age;
CREATE INDEX admission_tallies_pending ON admission_tallies (at, tenant, id) WHERE rolled_at IS NULL;
CREATE INDEX admission_tallies_of_tenant ON admission_tallies (tenant, at) WHERE rolled_at IS NULL;
CREATE INDEX admission_tallies_by_age ON admission_tallies (rolled_at, tenant, id) WHERE rolled_at IS NOT NULL;

-- What waits for people, of every tenant: servers tell how much there is, and since when.
CREATE INDEX jobs_awaiting ON jobs (tenant, id) WHERE state = 'APPROVAL';
CREATE INDEX effects_ambiguous ON effects (tenant, uid) WHERE state = 'AMBIGUOUS';

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
  ('traffic_sheets', 'traffic_sheets_by_name', '1000000 1000000 250000 30 1'),
  ('traffic_sheets', 'traffic_sheets_by_age', '1000000 10000 10000 1'),
  ('traffic_sheets', 'traffic_sheets', '1000000 1000000 1'),
  ('admission_tallies', 'admission_tallies_pending', '1000 10 10 1'),
  ('admission_tallies', 'admission_tallies_of_tenant', '1000 1000 1'),
  ('admission_tallies', 'admission_tallies_by_age', '1000 10 10 1'),
  ('admission_tallies', 'admission_tallies', '1000 1000 1'),
  ('jobs', 'jobs_awaiting', '10000 10000 1'),
  ('effects', 'effects_ambiguous', '10000 10000 1');
ANALYZE sqlite_schema;
