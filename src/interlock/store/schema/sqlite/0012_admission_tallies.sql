CREATE TABLE admission_tallies (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, at INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
CREATE INDEX admission_tallies_by_time ON admission_tallies (tenant, at);
CREATE INDEX admission_tallies_by_age ON admission_tallies (at, tenant, id);
