-- What waits for people is found in the order in which they should look at it, and with the groups that may decide it: so
-- whoever asks what waits for them need not read what waits for others.
ALTER TABLE jobs ADD COLUMN decide_by INTEGER;
ALTER TABLE jobs ADD COLUMN deciders TEXT;

-- Seconds and what is behind their point are read apart, as julianday knows milliseconds only. A body that somebody broke
-- must not stop the upgrade; it is on no list.
WITH texts AS (
  SELECT tenant, id,
    json_extract(body, '$.approval.expires_at') AS asked_until,
    json_extract(body, '$.approval.ends_by') AS ends_by,
    json_extract(body, '$.expires_at') AS job_until
  FROM jobs WHERE state = 'APPROVAL' AND json_valid(body)
), moments AS (
  SELECT tenant, id,
    CAST(strftime('%s', asked_until) AS INTEGER) * 1000000
      + iif(instr(asked_until, '.'), CAST(substr(asked_until, instr(asked_until, '.') + 1, 6) AS INTEGER), 0) AS asked_until,
    CAST(strftime('%s', ends_by) AS INTEGER) * 1000000
      + iif(instr(ends_by, '.'), CAST(substr(ends_by, instr(ends_by, '.') + 1, 6) AS INTEGER), 0) AS ends_by,
    CAST(strftime('%s', job_until) AS INTEGER) * 1000000
      + iif(instr(job_until, '.'), CAST(substr(job_until, instr(job_until, '.') + 1, 6) AS INTEGER), 0) AS job_until
  FROM texts
), periods AS (
  SELECT tenant, id, asked_until, job_until, asked_until + 1000000 * (
    SELECT coalesce(json_extract(j.body, '$.approval.requirement.expires_seconds'), 86400)
    FROM jobs j WHERE j.tenant = moments.tenant AND j.id = moments.id
  ) AS escalated_until, ends_by FROM moments
)
UPDATE jobs SET decide_by = (
  SELECT min(
    iif(
      json_extract(jobs.body, '$.approval.requirement.on_expiry') = 'escalate',
      min(escalated_until, coalesce(ends_by, escalated_until)),
      asked_until
    ),
    coalesce(job_until, 9223372036854775807)
  ) FROM periods WHERE periods.tenant = jobs.tenant AND periods.id = jobs.id
) - CASE rank WHEN 0 THEN 86400000000 WHEN 1 THEN 14400000000 ELSE 0 END
  - iif(json_extract(body, '$.run_id') IS NULL, 0, 3600000000)
WHERE state = 'APPROVAL' AND json_valid(body);

UPDATE jobs SET deciders = coalesce((
  SELECT '|' || group_concat(name, '|') || '|' FROM (
    SELECT name FROM (
      SELECT 0 AS step, key AS place, value AS name FROM json_each(jobs.body, '$.approval.requirement.groups')
      UNION ALL
      SELECT 1 + steps.key, named.key, named.value
      FROM json_each(jobs.body, '$.approval.requirement.escalate') AS steps, json_each(steps.value, '$.groups') AS named
      WHERE json_array_length(jobs.body, '$.approval.requirement.groups') > 0
    ) GROUP BY name ORDER BY min(step * 1000000 + place)
  )
), '') WHERE decide_by IS NOT NULL;

CREATE INDEX jobs_to_decide ON jobs (tenant, decide_by, id, topic, deciders) WHERE decide_by IS NOT NULL;
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('jobs', 'jobs_to_decide', '10000 10000 10 1 1 1');
ANALYZE sqlite_schema;
