CREATE TABLE limits (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
);

CREATE TABLE gates (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
);

CREATE TABLE runs (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  workflow TEXT COLLATE "C" NOT NULL, state TEXT COLLATE "C" NOT NULL, slot_expires_at BIGINT,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX runs_by_state ON runs (tenant, state, id);
CREATE INDEX runs_by_workflow ON runs (tenant, workflow, id);
CREATE INDEX runs_by_expiry ON runs (tenant, slot_expires_at) WHERE slot_expires_at IS NOT NULL;
CREATE INDEX runs_expiring ON runs (slot_expires_at) WHERE slot_expires_at IS NOT NULL;
