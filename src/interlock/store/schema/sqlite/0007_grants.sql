CREATE TABLE grants (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  task TEXT NOT NULL, state TEXT NOT NULL, standing INTEGER NOT NULL, issued_at INTEGER NOT NULL,
  open_until INTEGER,
  PRIMARY KEY (tenant, id)
);
-- Spent grants are in none of the next two, so that claims cost the same however many there are.
CREATE INDEX grants_open ON grants (tenant, task, standing, issued_at, id) WHERE open_until IS NOT NULL;
CREATE INDEX grants_overdue ON grants (open_until) WHERE open_until IS NOT NULL;
CREATE INDEX grants_by_task ON grants (tenant, task, id);
CREATE INDEX grants_by_state ON grants (tenant, state, id);

CREATE TABLE grant_uses (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  grant_id TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX grant_uses_by_grant ON grant_uses (tenant, grant_id, id);

CREATE TABLE signers (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  person TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE TABLE grant_terms (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
