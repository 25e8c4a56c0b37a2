"""The running service: settings, sweeps, relays, the event feed, logs and metrics."""
