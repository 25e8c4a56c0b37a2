-- Who looked at a request, one row a job: kept apart, so that a look never touches the job.
CREATE TABLE audiences (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
