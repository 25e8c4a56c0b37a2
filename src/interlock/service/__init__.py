"""The running service: settings, assembly, sweeps, the embedded form and the server."""
