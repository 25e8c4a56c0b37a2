-- So that a sweep finds the buckets that are full again, which are as good as none.
CREATE INDEX policy_buckets_by_full ON policy_buckets (full_at, tenant, id);
