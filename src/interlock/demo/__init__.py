"""A company's bad day, scene by scene, on a temporary store."""
