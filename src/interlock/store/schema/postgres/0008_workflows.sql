CREATE TABLE workflows (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
);

CREATE TABLE run_progress (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  is_over BIGINT NOT NULL, workflow TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX run_progress_under_way ON run_progress (id) WHERE is_over = 0;
