-- Sessions of people who signed in, and the links with which they sign in once. Both are found by their id alone, listed
-- for a person, and forgotten some time after they have expired.
CREATE TABLE sessions (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL UNIQUE, version BIGINT NOT NULL, body TEXT NOT NULL,
  principal TEXT COLLATE "C" NOT NULL, key_id TEXT COLLATE "C", expires_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX sessions_by_principal ON sessions (tenant, principal, id) WHERE principal IS NOT NULL;
CREATE INDEX sessions_by_expiry ON sessions (expires_at, tenant, id);

CREATE TABLE sign_in_links (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL UNIQUE, version BIGINT NOT NULL, body TEXT NOT NULL,
  expires_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX sign_in_links_by_expiry ON sign_in_links (expires_at, tenant, id);
