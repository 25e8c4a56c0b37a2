-- Who looked at a request, one row a job: kept apart, so that a look never touches the job.
CREATE TABLE audiences (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
);
