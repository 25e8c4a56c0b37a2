-- name: list_events_of_subject
-- Events about one thing, oldest first.
SELECT seq, body FROM events WHERE tenant = :tenant AND subject = :subject AND seq > :after
ORDER BY seq LIMIT :limit;
