CREATE TABLE effects (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  uid TEXT NOT NULL, state TEXT NOT NULL, overdue_at INTEGER,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX effects_by_uid ON effects (tenant, uid);
CREATE INDEX effects_by_state ON effects (tenant, state, uid);
CREATE INDEX effects_overdue ON effects (overdue_at, tenant, id) WHERE overdue_at IS NOT NULL;

CREATE TABLE effect_results (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
);

CREATE TABLE targets (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
);

CREATE TABLE conflicts (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  state TEXT NOT NULL, kind TEXT NOT NULL, target TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX conflicts_by_state ON conflicts (tenant, state, id);
CREATE INDEX conflicts_by_kind ON conflicts (tenant, kind, id);
CREATE INDEX conflicts_open_by_target ON conflicts (tenant, target, id) WHERE state = 'open';

CREATE TABLE conflict_groups (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  conflict_id TEXT NOT NULL, repeats INTEGER NOT NULL, last_seen_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
CREATE INDEX conflict_groups_by_conflict ON conflict_groups (tenant, conflict_id);

ALTER TABLE jobs ADD COLUMN target TEXT;
ALTER TABLE jobs ADD COLUMN target_version TEXT;
UPDATE jobs SET target = json_extract(body, '$.action.target.key'), target_version = json_extract(body, '$.action.target.version');
CREATE INDEX jobs_waiting_on_target ON jobs (tenant, target, id)
WHERE target IS NOT NULL AND state IN ('APPROVAL', 'PENDING');
