CREATE TABLE leases (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  resource TEXT NOT NULL, owner TEXT NOT NULL, state TEXT NOT NULL, live_until INTEGER,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX leases_by_resource ON leases (tenant, resource, id);
CREATE INDEX leases_by_owner ON leases (tenant, owner, id);
CREATE INDEX leases_live ON leases (tenant, resource, id) WHERE live_until IS NOT NULL;
CREATE INDEX leases_live_by_id ON leases (tenant, id) WHERE live_until IS NOT NULL;
CREATE INDEX leases_overdue ON leases (live_until) WHERE live_until IS NOT NULL;

CREATE TABLE lease_nodes (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  waiting INTEGER NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
CREATE INDEX lease_nodes_waiting ON lease_nodes (tenant, id) WHERE waiting > 0;

CREATE TABLE lease_terms (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
