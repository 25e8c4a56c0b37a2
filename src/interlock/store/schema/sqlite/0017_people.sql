-- Who may decide a request is counted among the people of a tenant, however many agents it has.
CREATE INDEX principals_people ON principals (tenant, id) WHERE kind = 'person';
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
  ('principals', 'principals', '1000000 1000000 1'),
  ('principals', 'principals_people', '10000 10000 1');
ANALYZE sqlite_schema;
