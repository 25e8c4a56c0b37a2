"""The kernel: commands in, one durable decision each out. It knows no room, no SQL and no web."""
