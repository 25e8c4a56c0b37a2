-- A name has one spelling in a tenant, and everybody who is above somebody is named in their record and found by a link.
CREATE TABLE principal_names (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE TABLE owner_trees (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE TABLE owner_links (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  owner TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
CREATE INDEX owner_links_by_owner ON owner_links (tenant, owner, id);

-- Chains as they are, each with whom it has come to; a ring ends where it began. Bodies that somebody broke have none.
CREATE TEMPORARY TABLE above AS
WITH RECURSIVE
  owned (tenant, id, owner) AS (
    SELECT tenant, id, json_extract(body, '$.owner') FROM principals
    WHERE json_valid(body) AND json_type(body, '$.owner') = 'text'
  ),
  above (tenant, id, owner, depth, seen) AS (
    SELECT tenant, id, owner, 1, json_array(id, owner) FROM owned WHERE owner <> id
    UNION ALL
    SELECT a.tenant, a.id, o.owner, a.depth + 1, json_insert(a.seen, '$[#]', o.owner)
    FROM above a JOIN owned o ON o.tenant = a.tenant AND o.id = a.owner
    WHERE a.depth < 64 AND NOT EXISTS (SELECT 1 FROM json_each(a.seen) WHERE value = o.owner)
  )
SELECT tenant, id, owner, depth FROM above;

UPDATE principals SET
  body = json_set(body, '$.owners', json((
    SELECT json_group_array(owner) FROM (
      SELECT owner FROM above a WHERE a.tenant = principals.tenant AND a.id = principals.id ORDER BY depth
    )
  )))
WHERE json_valid(body) AND EXISTS (SELECT 1 FROM above a WHERE a.tenant = principals.tenant AND a.id = principals.id);

INSERT INTO owner_links (tenant, id, version, body, owner)
SELECT tenant, length(id) || ':' || id || ':' || owner, 1,
  json_object('tenant', tenant, 'id', length(id) || ':' || id || ':' || owner, 'version', 1,
    'owned', id, 'owner', owner),
  owner
FROM above;

-- Of two spellings of one name, which could be made until now, the first keeps it; both go on, as one person.
INSERT INTO principal_names (tenant, id, version, body)
SELECT tenant, lower(name), 1, json_object('tenant', tenant, 'id', lower(name), 'version', 1, 'name', min(name))
FROM (SELECT tenant, id AS name FROM principals UNION SELECT tenant, owner FROM above)
GROUP BY tenant, lower(name);

DROP TABLE above;
