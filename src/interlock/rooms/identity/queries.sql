-- name: caller_by_key
-- The key with this public id and the principal it belongs to, whatever the tenant.
SELECT k.body, p.body FROM api_keys k
JOIN principals p ON p.tenant = k.tenant AND p.id = k.principal
WHERE k.id = :key_id LIMIT 1;

-- name: any_key
-- Whether the store has any key yet: an empty store gets a bootstrap key.
SELECT 1 FROM api_keys LIMIT 1;

-- name: list_keys
-- Keys of a tenant, newest first, each with its principal, or null if that was forgotten.
SELECT k.created_seq, k.body, (SELECT p.body FROM principals p WHERE p.tenant = k.tenant AND p.id = k.principal)
FROM api_keys k WHERE k.tenant = :tenant AND k.created_seq < :before
ORDER BY k.created_seq DESC LIMIT :limit;

-- name: list_keys_of
-- Keys of one principal, newest first.
SELECT created_seq, body FROM api_keys
WHERE tenant = :tenant AND principal = :principal AND created_seq < :before
ORDER BY created_seq DESC LIMIT :limit;

-- name: list_principals
-- Principals of a tenant by name.
SELECT body FROM principals WHERE tenant = :tenant AND id > :after ORDER BY id LIMIT :limit;

-- name: list_people
-- People of a tenant by name.
SELECT body FROM principals WHERE tenant = :tenant AND kind = 'person' ORDER BY id LIMIT :limit;

-- name: links_below
-- Every principal that acts for an owner, through however many others.
SELECT body FROM owner_links WHERE tenant = :tenant AND owner = :owner ORDER BY id LIMIT :limit;

-- name: caller_by_session
-- The session with this id, its principal and the API key behind it, or null for either, whatever the tenant.
SELECT s.body, p.body, k.body FROM sessions s
LEFT JOIN principals p ON p.tenant = s.tenant AND p.id = s.principal
LEFT JOIN api_keys k ON k.tenant = s.tenant AND k.id = s.key_id
WHERE s.id = :session_id LIMIT 1;

-- name: link_by_id
-- The sign-in link with this id, whatever the tenant.
SELECT body FROM sign_in_links WHERE id = :link_id LIMIT 1;

-- name: list_sessions
-- Sessions of a tenant, newest first, each with its principal and the API key behind it, or null for either.
SELECT s.body, p.body, k.body FROM sessions s
LEFT JOIN principals p ON p.tenant = s.tenant AND p.id = s.principal
LEFT JOIN api_keys k ON k.tenant = s.tenant AND k.id = s.key_id
WHERE s.tenant = :tenant AND s.id < :before ORDER BY s.id DESC LIMIT :limit;

-- name: list_sessions_of
-- Sessions of one principal, newest first, each with its principal and the API key behind it, or null for either.
SELECT s.body, p.body, k.body FROM sessions s
LEFT JOIN principals p ON p.tenant = s.tenant AND p.id = s.principal
LEFT JOIN api_keys k ON k.tenant = s.tenant AND k.id = s.key_id
WHERE s.tenant = :tenant AND s.principal = :principal AND s.id < :before ORDER BY s.id DESC LIMIT :limit;

-- name: old_sessions
-- Sessions that expired before a moment, in every tenant, the oldest first.
SELECT body FROM sessions WHERE expires_at < :before ORDER BY expires_at, tenant, id LIMIT :limit;

-- name: old_links
-- Sign-in links that expired before a moment, in every tenant, the oldest first.
SELECT body FROM sign_in_links WHERE expires_at < :before ORDER BY expires_at, tenant, id LIMIT :limit;
