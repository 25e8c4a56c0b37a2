"""Drills: runbooks as commands. Each rehearses one kind of failure on a deployment and reports what held."""
