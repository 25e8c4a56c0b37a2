CREATE TABLE leases (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  resource TEXT COLLATE "C" NOT NULL, owner TEXT COLLATE "C" NOT NULL, state TEXT COLLATE "C" NOT NULL, live_until BIGINT,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX leases_by_resource ON leases (tenant, resource, id);
CREATE INDEX leases_by_owner ON leases (tenant, owner, id);
CREATE INDEX leases_live ON leases (tenant, resource, id) WHERE live_until IS NOT NULL;
CREATE INDEX leases_live_by_id ON leases (tenant, id) WHERE live_until IS NOT NULL;
CREATE INDEX leases_overdue ON leases (live_until) WHERE live_until IS NOT NULL;

CREATE TABLE lease_nodes (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  waiting BIGINT NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX lease_nodes_waiting ON lease_nodes (tenant, id) WHERE waiting > 0;

CREATE TABLE lease_terms (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
);
