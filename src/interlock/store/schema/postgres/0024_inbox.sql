-- What waits for people is found in the order in which they should look at it, and with the groups that may decide it: so
-- whoever asks what waits for them need not read what waits for others.
ALTER TABLE jobs ADD COLUMN decide_by BIGINT;
ALTER TABLE jobs ADD COLUMN deciders TEXT COLLATE "C";

DO $$
DECLARE
  waiting RECORD;
  job json;
  asked json;
  needs json;
  ends TIMESTAMPTZ;
BEGIN
  FOR waiting IN SELECT tenant, id, rank, body FROM jobs WHERE state = 'APPROVAL' LOOP
    BEGIN
      job := waiting.body::json;
      asked := job -> 'approval';
      needs := asked -> 'requirement';
      ends := (asked ->> 'expires_at')::timestamptz;
      IF needs ->> 'on_expiry' = 'escalate' THEN
        ends := least(
          ends + coalesce((needs ->> 'expires_seconds')::bigint, 86400) * interval '1 second',
          (asked ->> 'ends_by')::timestamptz
        );
      END IF;
      ends := CASE WHEN ends IS NOT NULL THEN least(ends, (job ->> 'expires_at')::timestamptz) END;
      UPDATE jobs SET
        decide_by = (extract(epoch FROM ends) * 1000000)::bigint
          - CASE waiting.rank WHEN 0 THEN 86400000000 WHEN 1 THEN 14400000000 ELSE 0 END
          - CASE WHEN job ->> 'run_id' IS NULL THEN 0 ELSE 3600000000 END,
        deciders = coalesce((
          SELECT '|' || string_agg(name, '|' ORDER BY place) || '|' FROM (
            SELECT name, min(step * 1000000 + number) AS place FROM (
              SELECT 0 AS step, g.number, g.name
              FROM json_array_elements_text(needs -> 'groups') WITH ORDINALITY AS g (name, number)
              UNION ALL
              SELECT s.step, g.number, g.name
              FROM json_array_elements(needs -> 'escalate') WITH ORDINALITY AS s (given, step),
                json_array_elements_text(s.given -> 'groups') WITH ORDINALITY AS g (name, number)
              WHERE json_array_length(needs -> 'groups') > 0
            ) AS every_group GROUP BY name
          ) AS named
        ), '')
      WHERE tenant = waiting.tenant AND id = waiting.id AND ends IS NOT NULL;
    EXCEPTION WHEN OTHERS THEN
      -- A body that somebody broke must not stop the upgrade; it is on no list.
      CONTINUE;
    END;
  END LOOP;
END $$;

CREATE INDEX jobs_to_decide ON jobs (tenant, decide_by, id, topic, deciders) WHERE decide_by IS NOT NULL;
