CREATE TABLE workflows (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE TABLE run_progress (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  is_over INTEGER NOT NULL, workflow TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX run_progress_under_way ON run_progress (id) WHERE is_over = 0;
