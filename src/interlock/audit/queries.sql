-- name: list_entries
-- Audit entries of a tenant, newest first, narrowed by any of subject, actor and action.
SELECT seq, body FROM audit_entries
WHERE tenant = :tenant AND seq < :before
  AND (CAST(:subject AS text) IS NULL OR subject = :subject)
  AND (CAST(:actor AS text) IS NULL OR actor = :actor)
  AND (CAST(:action AS text) IS NULL OR action = :action)
ORDER BY seq DESC LIMIT :limit;

-- name: list_entries_of_subject
-- Audit entries about one thing, newest first.
SELECT seq, body FROM audit_entries
WHERE tenant = :tenant AND subject = :subject AND seq < :before
ORDER BY seq DESC LIMIT :limit;
