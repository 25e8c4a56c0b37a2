-- The keys of one principal are found without reading those of others.
CREATE INDEX api_keys_by_principal ON api_keys (tenant, principal, created_seq);
