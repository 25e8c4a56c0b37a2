CREATE TABLE grants (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  task TEXT COLLATE "C" NOT NULL, state TEXT COLLATE "C" NOT NULL, standing BIGINT NOT NULL, issued_at BIGINT NOT NULL,
  open_until BIGINT,
  PRIMARY KEY (tenant, id)
);
-- Spent grants are in none of the next two, so that claims cost the same however many there are.
CREATE INDEX grants_open ON grants (tenant, task, standing, issued_at, id) WHERE open_until IS NOT NULL;
CREATE INDEX grants_overdue ON grants (open_until) WHERE open_until IS NOT NULL;
CREATE INDEX grants_by_task ON grants (tenant, task, id);
CREATE INDEX grants_by_state ON grants (tenant, state, id);

CREATE TABLE grant_uses (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  grant_id TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX grant_uses_by_grant ON grant_uses (tenant, grant_id, id);

CREATE TABLE signers (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  person TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant, id)
);

CREATE TABLE grant_terms (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
);
