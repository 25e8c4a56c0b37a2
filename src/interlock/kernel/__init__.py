"""The kernel: runs commands in batches, one durable commit each. It knows no room, no SQL and no web."""
