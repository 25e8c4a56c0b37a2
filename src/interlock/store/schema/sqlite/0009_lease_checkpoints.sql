ALTER TABLE leases ADD COLUMN mode TEXT NOT NULL DEFAULT 'exclusive';
UPDATE leases SET mode = json_extract(body, '$.mode');

CREATE TABLE lease_checkpoints (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  lease TEXT NOT NULL, number INTEGER NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX lease_checkpoints_by_lease ON lease_checkpoints (tenant, lease, number);

CREATE INDEX leases_live_by_owner ON leases (tenant, owner, id) WHERE live_until IS NOT NULL;
