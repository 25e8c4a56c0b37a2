"""Identity: who calls, for which tenant, with which roles. Keys are stored only as digests."""
