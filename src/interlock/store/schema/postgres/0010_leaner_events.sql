-- Every decision writes events, and every index of theirs is paid for with it. Nothing looks for events by
-- subject, and one that has no position yet belongs in none of the indexes that readers go by.
DROP INDEX events_by_subject;
DROP INDEX events_by_position;
DROP INDEX events_by_tenant;
CREATE UNIQUE INDEX events_by_position ON events (position) WHERE position IS NOT NULL;
CREATE INDEX events_by_tenant ON events (tenant, position) WHERE position IS NOT NULL;
