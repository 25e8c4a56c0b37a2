-- Batches settle lost COMMITs and keep the clock from going back.
CREATE TABLE batches (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  at INTEGER NOT NULL,
  abandoned INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE answers (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
CREATE INDEX answers_by_expiry ON answers (expires_at);

CREATE TABLE principals (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  kind TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE TABLE api_keys (
  created_seq INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant TEXT NOT NULL, id TEXT NOT NULL UNIQUE, version INTEGER NOT NULL, body TEXT NOT NULL,
  principal TEXT NOT NULL,
  UNIQUE (tenant, id)
);

CREATE TABLE audit_entries (
  seq INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  at INTEGER NOT NULL, actor TEXT NOT NULL, action TEXT NOT NULL, subject TEXT NOT NULL
);
CREATE INDEX audit_by_subject ON audit_entries (tenant, subject, seq);
CREATE INDEX audit_by_seq ON audit_entries (tenant, seq);

CREATE TABLE events (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  at INTEGER NOT NULL, type TEXT NOT NULL, subject TEXT NOT NULL
);
CREATE INDEX events_by_subject ON events (tenant, subject, seq);

CREATE TABLE policy_heads (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE TABLE policy_snapshots (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  UNIQUE (tenant, id)
);

CREATE TABLE policy_buckets (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  full_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE TABLE jobs (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  state TEXT NOT NULL, topic TEXT NOT NULL,
  approval_state TEXT, due_at INTEGER, observed TEXT,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX jobs_by_state ON jobs (tenant, state, id);
CREATE INDEX jobs_by_topic ON jobs (tenant, topic, id);
CREATE INDEX jobs_by_approval ON jobs (tenant, approval_state, id) WHERE approval_state IS NOT NULL;
CREATE INDEX jobs_by_observed ON jobs (tenant, id) WHERE observed IS NOT NULL;
CREATE INDEX jobs_by_due ON jobs (due_at) WHERE due_at IS NOT NULL;
