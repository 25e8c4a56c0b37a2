"""Identity: who calls, for which tenant, with which roles. Keys are kept only as digests."""
