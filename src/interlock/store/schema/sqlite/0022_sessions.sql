-- Sessions of people who signed in, and the links with which they sign in once. Both are found by their id alone, listed
-- for a person, and forgotten some time after they have expired.
CREATE TABLE sessions (
  tenant TEXT NOT NULL, id TEXT NOT NULL UNIQUE, version INTEGER NOT NULL, body TEXT NOT NULL,
  principal TEXT NOT NULL, key_id TEXT, expires_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
CREATE INDEX sessions_by_principal ON sessions (tenant, principal, id);
CREATE INDEX sessions_by_expiry ON sessions (expires_at, tenant, id);

CREATE TABLE sign_in_links (
  tenant TEXT NOT NULL, id TEXT NOT NULL UNIQUE, version INTEGER NOT NULL, body TEXT NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
CREATE INDEX sign_in_links_by_expiry ON sign_in_links (expires_at, tenant, id);
