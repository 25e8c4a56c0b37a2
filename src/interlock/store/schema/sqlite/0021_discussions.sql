-- What was said of a request, one row a job: kept apart, so that the job does not carry it through every change.
CREATE TABLE discussions (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
