"""Drills: runbooks as commands. Each plays one kind of trouble on a deployment and says whether it held."""
