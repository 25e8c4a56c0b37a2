-- A record is loaded and written by its whole key. While a table has no statistics an index on (tenant, state, id) looks as
-- good for that as the key's own, and goes through all of a tenant's rows. So an index for lists says, in a condition that
-- every row meets, what only the queries of those lists ask for: no look-up by key can use it, nor what looks for runnable
-- jobs or live leases where it says `id` or `owner`, too.
DROP INDEX admission_tallies_by_time;
CREATE INDEX admission_tallies_by_time ON admission_tallies (tenant, at) WHERE at IS NOT NULL;

DROP INDEX conflict_groups_by_conflict;
CREATE INDEX conflict_groups_by_conflict ON conflict_groups (tenant, conflict_id) WHERE conflict_id IS NOT NULL;

DROP INDEX conflicts_by_kind;
DROP INDEX conflicts_by_state;
CREATE INDEX conflicts_by_kind ON conflicts (tenant, kind, id) WHERE kind IS NOT NULL;
CREATE INDEX conflicts_by_state ON conflicts (tenant, state, id) WHERE state IS NOT NULL;

DROP INDEX deliveries_by_webhook;
CREATE INDEX deliveries_by_webhook ON deliveries (tenant, webhook, state, position) WHERE webhook IS NOT NULL;

DROP INDEX effects_by_state;
DROP INDEX effects_by_uid;
CREATE INDEX effects_by_state ON effects (tenant, state, uid) WHERE state IS NOT NULL;
CREATE INDEX effects_by_uid ON effects (tenant, uid) WHERE uid IS NOT NULL;

DROP INDEX grant_uses_by_grant;
CREATE INDEX grant_uses_by_grant ON grant_uses (tenant, grant_id, id) WHERE grant_id IS NOT NULL;

DROP INDEX grants_by_state;
DROP INDEX grants_by_task;
CREATE INDEX grants_by_state ON grants (tenant, state, id) WHERE state IS NOT NULL;
CREATE INDEX grants_by_task ON grants (tenant, task, id) WHERE task IS NOT NULL;

DROP INDEX jobs_by_state;
DROP INDEX jobs_by_topic;
CREATE INDEX jobs_by_state ON jobs (tenant, state, id) WHERE state IS NOT NULL;
CREATE INDEX jobs_by_topic ON jobs (tenant, topic, id) WITH (fillfactor = 50)
WHERE topic IS NOT NULL AND id IS NOT NULL;

DROP INDEX lease_checkpoints_by_lease;
CREATE INDEX lease_checkpoints_by_lease ON lease_checkpoints (tenant, lease, number) WHERE lease IS NOT NULL;

DROP INDEX leases_by_owner;
DROP INDEX leases_by_resource;
DROP INDEX leases_live_by_id;
DROP INDEX leases_live_by_owner;
CREATE INDEX leases_by_owner ON leases (tenant, owner, id) WHERE owner IS NOT NULL;
CREATE INDEX leases_by_resource ON leases (tenant, resource, id) WHERE resource IS NOT NULL AND id IS NOT NULL;
CREATE INDEX leases_live_by_id ON leases (tenant, id) WHERE live_until IS NOT NULL AND id IS NOT NULL;
CREATE INDEX leases_live_by_owner ON leases (tenant, owner, id) WHERE live_until IS NOT NULL AND owner IS NOT NULL;

DROP INDEX runs_by_state;
DROP INDEX runs_by_workflow;
CREATE INDEX runs_by_state ON runs (tenant, state, id) WHERE state IS NOT NULL;
CREATE INDEX runs_by_workflow ON runs (tenant, workflow, id) WHERE workflow IS NOT NULL;
