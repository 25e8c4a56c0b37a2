-- One writer at a time, so the order of `seq` is the order of commits and an event's position is its `seq`.
ALTER TABLE events ADD COLUMN position INTEGER GENERATED ALWAYS AS (seq) VIRTUAL;
CREATE UNIQUE INDEX events_by_id ON events (tenant, id);
CREATE UNIQUE INDEX events_by_position ON events (position);
CREATE INDEX events_by_tenant ON events (tenant, position);
CREATE VIEW event_head AS
  SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0) AS position;
CREATE VIEW event_sequencing AS SELECT 0 AS sequenced;

CREATE TABLE webhooks (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE TABLE relays (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  position INTEGER NOT NULL, free_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
CREATE INDEX relays_by_free ON relays (free_at);
CREATE INDEX relays_by_position ON relays (position);

CREATE TABLE deliveries (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  webhook TEXT NOT NULL, state TEXT NOT NULL, position INTEGER NOT NULL, at INTEGER NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX deliveries_by_webhook ON deliveries (tenant, webhook, state, position);
CREATE INDEX deliveries_by_age ON deliveries (at);
