"""Real things for tests to run against: a PostgreSQL, an Interlock server, a lossy proxy, load."""
