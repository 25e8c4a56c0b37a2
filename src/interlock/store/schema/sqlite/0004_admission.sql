CREATE TABLE limits (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE TABLE gates (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE TABLE runs (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  workflow TEXT NOT NULL, state TEXT NOT NULL, slot_expires_at INTEGER,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX runs_by_state ON runs (tenant, state, id);
CREATE INDEX runs_by_workflow ON runs (tenant, workflow, id);
CREATE INDEX runs_by_expiry ON runs (tenant, slot_expires_at) WHERE slot_expires_at IS NOT NULL;
CREATE INDEX runs_expiring ON runs (slot_expires_at) WHERE slot_expires_at IS NOT NULL;
