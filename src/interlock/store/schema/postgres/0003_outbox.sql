-- Events get a position once they are committed: `seq` is drawn before COMMIT, so a reader that goes by it
-- could pass over an event that commits late (decision 0020).
ALTER TABLE events ADD COLUMN position BIGINT;
CREATE UNIQUE INDEX events_by_id ON events (tenant, id);
CREATE UNIQUE INDEX events_by_position ON events (position);
CREATE INDEX events_by_tenant ON events (tenant, position);
CREATE INDEX events_without_position ON events (seq) WHERE position IS NULL;

CREATE TABLE event_head (id BIGINT PRIMARY KEY, position BIGINT NOT NULL);
INSERT INTO event_head (id, position) VALUES (1, 0);

-- Gives up to `most` committed events the next positions, in the order of `seq`; returns how many, or -1 if
-- another server is at it. A snapshot that shows an event of a job shows every earlier one too, because
-- each was written under the job's lock.
CREATE FUNCTION sequence_events(most BIGINT) RETURNS BIGINT LANGUAGE plpgsql VOLATILE AS $$
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
  UPDATE events e SET position = n.position FROM numbered n WHERE e.seq = n.seq;
  GET DIAGNOSTICS placed = ROW_COUNT;
  IF placed > 0 THEN
    UPDATE event_head h SET position = head + placed WHERE h.id = 1;
  END IF;
  RETURN placed;
END $$;
CREATE VIEW event_sequencing AS SELECT sequence_events(1000) AS sequenced;

CREATE TABLE webhooks (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
);

CREATE TABLE relays (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  position BIGINT NOT NULL, free_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX relays_by_free ON relays (free_at);
CREATE INDEX relays_by_position ON relays (position);

CREATE TABLE deliveries (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  webhook TEXT COLLATE "C" NOT NULL, state TEXT COLLATE "C" NOT NULL, position BIGINT NOT NULL, at BIGINT NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX deliveries_by_webhook ON deliveries (tenant, webhook, state, position);
CREATE INDEX deliveries_by_age ON deliveries (at);
