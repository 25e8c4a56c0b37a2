CREATE TABLE schema_versions (number BIGINT PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL);

-- Batches settle lost COMMITs and keep the clock from going back.
CREATE TABLE batches (
  seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id TEXT COLLATE "C" NOT NULL UNIQUE,
  at BIGINT NOT NULL,
  abandoned BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE answers (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  expires_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX answers_by_expiry ON answers (expires_at);

CREATE TABLE principals (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant, id)
);

CREATE TABLE api_keys (
  created_seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL UNIQUE, version BIGINT NOT NULL, body TEXT NOT NULL,
  principal TEXT COLLATE "C" NOT NULL,
  UNIQUE (tenant, id)
);

CREATE TABLE audit_entries (
  seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  at BIGINT NOT NULL, actor TEXT COLLATE "C" NOT NULL, action TEXT COLLATE "C" NOT NULL, subject TEXT COLLATE "C" NOT NULL
);
CREATE INDEX audit_by_subject ON audit_entries (tenant, subject, seq);
CREATE INDEX audit_by_seq ON audit_entries (tenant, seq);

CREATE TABLE events (
  seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  at BIGINT NOT NULL, type TEXT COLLATE "C" NOT NULL, subject TEXT COLLATE "C" NOT NULL
);
CREATE INDEX events_by_subject ON events (tenant, subject, seq);

CREATE TABLE policy_heads (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
);

CREATE TABLE policy_snapshots (
  seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  UNIQUE (tenant, id)
);

CREATE TABLE policy_buckets (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  full_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, id)
);

CREATE TABLE jobs (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  state TEXT COLLATE "C" NOT NULL, topic TEXT COLLATE "C" NOT NULL,
  approval_state TEXT COLLATE "C", due_at BIGINT, observed TEXT,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX jobs_by_state ON jobs (tenant, state, id);
CREATE INDEX jobs_by_topic ON jobs (tenant, topic, id);
CREATE INDEX jobs_by_approval ON jobs (tenant, approval_state, id) WHERE approval_state IS NOT NULL;
CREATE INDEX jobs_by_observed ON jobs (tenant, id) WHERE observed IS NOT NULL;
CREATE INDEX jobs_by_due ON jobs (due_at) WHERE due_at IS NOT NULL;
