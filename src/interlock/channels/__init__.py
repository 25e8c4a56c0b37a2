"""Channels: the ways in which events leave. One file each, behind the interface `interlock.service.channel`."""
