ALTER TABLE jobs ADD COLUMN rank BIGINT NOT NULL DEFAULT 2;
ALTER TABLE jobs ADD COLUMN runnable_at BIGINT;
ALTER TABLE jobs ADD COLUMN lease_until BIGINT;
ALTER TABLE jobs ADD COLUMN offer_again_at BIGINT;

UPDATE jobs SET
  rank = CASE body::json ->> 'priority' WHEN 'critical' THEN 0 WHEN 'high' THEN 1 WHEN 'low' THEN 3 ELSE 2 END;
UPDATE jobs SET
  runnable_at = (EXTRACT(EPOCH FROM
    coalesce(body::json #>> '{approval,decided_at}', body::json ->> 'submitted_at')::timestamptz) * 1000000)::bigint
WHERE state = 'PENDING';
UPDATE jobs SET offer_again_at = runnable_at + 60000000 WHERE state = 'PENDING';

-- Finished jobs are in none of these, so that claims and sweeps cost the same however many there are.
CREATE INDEX jobs_runnable ON jobs (tenant, topic, rank, runnable_at, id) WHERE runnable_at IS NOT NULL;
CREATE INDEX jobs_by_lease ON jobs (lease_until, tenant, id) WHERE lease_until IS NOT NULL;
CREATE INDEX jobs_by_offer ON jobs (offer_again_at, tenant, id) WHERE offer_again_at IS NOT NULL;
CREATE INDEX jobs_dead ON jobs (tenant, id) WHERE state = 'FAILED';

CREATE TABLE permit_keys (
  tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
);
