-- Every decision writes events and audit entries, and every index of theirs is paid for with it. Nobody looks for them
-- by `seq` alone: entries are read by tenant, and events without a position have an index of their own.
ALTER TABLE audit_entries DROP CONSTRAINT audit_entries_pkey;
DROP INDEX audit_by_seq;
ALTER TABLE audit_entries ADD PRIMARY KEY (tenant, seq);

ALTER TABLE events DROP CONSTRAINT events_pkey;
ALTER TABLE events ADD CONSTRAINT events_pkey PRIMARY KEY USING INDEX events_by_id;

-- As before, but finds the rows to change in the index that found them.
CREATE OR REPLACE FUNCTION sequence_events(most BIGINT) RETURNS BIGINT LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  head BIGINT;
  placed BIGINT;
BEGIN
  IF NOT pg_try_advisory_xact_lock(7165102) THEN
    RETURN -1;
  END IF;
  SELECT h.position INTO head FROM event_head h WHERE h.id = 1;
  WITH fresh AS MATERIALIZED (
    SELECT e.seq FROM events e WHERE e.position IS NULL ORDER BY e.seq LIMIT most
  ), numbered AS (
    SELECT f.seq, head + row_number() OVER (ORDER BY f.seq) AS position FROM fresh f
  )
  UPDATE events e SET position = n.position FROM numbered n WHERE e.position IS NULL AND e.seq = n.seq;
  GET DIAGNOSTICS placed = ROW_COUNT;
  IF placed > 0 THEN
    UPDATE event_head h SET position = head + placed WHERE h.id = 1;
  END IF;
  RETURN placed;
END $$;

-- A job is written again at every step, with a new entry in each of its indexes. Where the key stays the same the entry
-- goes beside the last one, and a page that has no room for it is split: half as much on a page to begin with ends up
-- as a smaller index.
ALTER INDEX jobs_pkey SET (fillfactor = 50);
ALTER INDEX jobs_by_topic SET (fillfactor = 50);
