-- Who may decide a request is counted among the people of a tenant, however many agents it has.
CREATE INDEX principals_people ON principals (tenant, id) WHERE kind = 'person';
