CREATE TABLE effects (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  uid TEXT COLLATE "C" NOT NULL, state TEXT COLLATE "C" NOT NULL, overdue_at BIGINT,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX effects_by_uid ON effects (tenant, uid);
CREATE INDEX effects_by_state ON effects (tenant, state, uid);
CREATE INDEX effects_overdue ON effects (overdue_at, tenant, id) WHERE overdue_at IS NOT NULL;

CREATE TABLE effect_results (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
);

CREATE TABLE targets (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
);

CREATE TABLE conflicts (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  state TEXT COLLATE "C" NOT NULL, kind TEXT COLLATE "C" NOT NULL, target TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX conflicts_by_state ON conflicts (tenant, state, id);
CREATE INDEX conflicts_by_kind ON conflicts (tenant, kind, id);
CREATE INDEX conflicts_open_by_target ON conflicts (tenant, target, id) WHERE state = 'open';

CREATE TABLE conflict_groups (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  conflict_id TEXT COLLATE "C" NOT NULL, repeats BIGINT NOT NULL, last_seen_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX conflict_groups_by_conflict ON conflict_groups (tenant, conflict_id);

ALTER TABLE jobs ADD COLUMN target TEXT COLLATE "C";
ALTER TABLE jobs ADD COLUMN target_version TEXT COLLATE "C";
UPDATE jobs SET target = body::json #>> '{action,target,key}', target_version = body::json #>> '{action,target,version}';
CREATE INDEX jobs_waiting_on_target ON jobs (tenant, target, id)
WHERE target IS NOT NULL AND state IN ('APPROVAL', 'PENDING');
