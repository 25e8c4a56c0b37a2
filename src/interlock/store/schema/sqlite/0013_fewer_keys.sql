-- Every decision writes events and audit entries, and every index of theirs is paid for with it. An event's position is
-- the number of its row, which the table is kept by, so no index has to repeat it; nor does one of audit entries.
DROP INDEX events_by_position;
DROP INDEX events_by_tenant;
ALTER TABLE events DROP COLUMN position;
ALTER TABLE events RENAME COLUMN seq TO position;
ALTER TABLE events ADD COLUMN seq INTEGER GENERATED ALWAYS AS (position) VIRTUAL;
CREATE INDEX events_by_tenant ON events (tenant);

DROP INDEX audit_by_seq;
CREATE INDEX audit_by_tenant ON audit_entries (tenant);
