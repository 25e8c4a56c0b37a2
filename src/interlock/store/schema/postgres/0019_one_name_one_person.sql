-- A name has one spelling in a tenant, and everybody who is above somebody is named in their record and found by a link.
CREATE TABLE principal_names (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
);

CREATE TABLE owner_trees (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
);

CREATE TABLE owner_links (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  owner TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX owner_links_by_owner ON owner_links (tenant, owner, id) WHERE owner IS NOT NULL;

-- Chains as they are, each with whom it has come to; a ring ends where it began. A body that somebody broke must not stop
-- the upgrade, so owners are looked for, and bodies not read; names have no character that JSON would escape.
CREATE TEMPORARY TABLE above ON COMMIT DROP AS
WITH RECURSIVE
  owned (tenant, id, owner) AS (
    SELECT tenant, id, substring(body FROM '"owner":"([A-Za-z0-9_.:@-]+)"') COLLATE "C" FROM principals
    WHERE body ~ '"owner":"[A-Za-z0-9_.:@-]+"' AND body LIKE '{%}'
  ),
  above (tenant, id, owner, depth, seen) AS (
    SELECT tenant, id, owner, 1, ARRAY[id, owner] FROM owned WHERE owner <> id
    UNION ALL
    SELECT a.tenant, a.id, o.owner, a.depth + 1, a.seen || o.owner
    FROM above a JOIN owned o ON o.tenant = a.tenant AND o.id = a.owner
    WHERE a.depth < 64 AND NOT o.owner = ANY (a.seen)
  )
SELECT tenant, id, owner, depth FROM above;

UPDATE principals p SET
  body = regexp_replace(p.body, '"owner":"', '"owners":' || chain.owners || ',"owner":"')
FROM (
  SELECT tenant, id, '["' || string_agg(owner, '","' ORDER BY depth) || '"]' AS owners FROM above GROUP BY tenant, id
) chain
WHERE chain.tenant = p.tenant AND chain.id = p.id;

INSERT INTO owner_links (tenant, id, version, body, owner)
SELECT tenant, length(id) || ':' || id || ':' || owner, 1,
  json_build_object('tenant', tenant, 'id', length(id) || ':' || id || ':' || owner, 'version', 1,
    'owned', id, 'owner', owner)::text,
  owner
FROM above;

-- Of two spellings of one name, which could be made until now, the first keeps it; both go on, as one person.
INSERT INTO principal_names (tenant, id, version, body)
SELECT tenant, lower(name), 1,
  json_build_object('tenant', tenant, 'id', lower(name), 'version', 1, 'name', min(name))::text
FROM (SELECT tenant, id AS name FROM principals UNION SELECT tenant, owner FROM above) names
GROUP BY tenant, lower(name);
