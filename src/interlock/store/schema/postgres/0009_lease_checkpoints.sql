ALTER TABLE leases ADD COLUMN mode TEXT COLLATE "C" NOT NULL DEFAULT 'exclusive';
UPDATE leases SET mode = body::json ->> 'mode';

CREATE TABLE lease_checkpoints (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  lease TEXT COLLATE "C" NOT NULL, number BIGINT NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX lease_checkpoints_by_lease ON lease_checkpoints (tenant, lease, number);

CREATE INDEX leases_live_by_owner ON leases (tenant, owner, id) WHERE live_until IS NOT NULL;
