-- How starts of runs ended, by minute for a day and by hour for a month: one row for each workflow and hour, or day.
CREATE TABLE traffic_sheets (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL,
  shelf TEXT COLLATE "C" NOT NULL, name TEXT COLLATE "C" NOT NULL, at BIGINT NOT NULL, forget_at BIGINT NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX traffic_sheets_by_name ON traffic_sheets (tenant, shelf, name, at) WHERE name IS NOT NULL;
CREATE INDEX traffic_sheets_by_age ON traffic_sheets (forget_at, tenant, id);

-- A tally without `rolled_at` is not yet in those rows; one with it is kept a while, so that nothing is added twice.
ALTER TABLE admission_tallies ADD COLUMN rolled_at BIGINT;
DROP INDEX admission_tallies_by_time;
DROP INDEX admission_tallies_by_age;
CREATE INDEX admission_tallies_pending ON admission_tallies (at, tenant, id) WHERE rolled_at IS NULL;
CREATE INDEX admission_tallies_of_tenant ON admission_tallies (tenant, at) WHERE rolled_at IS NULL AND at IS NOT NULL;
CREATE INDEX admission_tallies_by_age ON admission_tallies (rolled_at, tenant, id) WHERE rolled_at IS NOT NULL;

-- What waits for people, of every tenant: servers tell how much there is, and since when.
CREATE INDEX jobs_awaiting ON jobs (tenant, id) WHERE state = 'APPROVAL';
CREATE INDEX effects_ambiguous ON effects (tenant, uid) WHERE state = 'AMBIGUOUS';
