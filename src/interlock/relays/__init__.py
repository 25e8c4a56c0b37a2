"""Relays: how events leave. Each target has one relay at a time, which remembers how far it got."""
