CREATE TABLE admission_tallies (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, at BIGINT NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX admission_tallies_by_time ON admission_tallies (tenant, at);
CREATE INDEX admission_tallies_by_age ON admission_tallies (at, tenant, id);
