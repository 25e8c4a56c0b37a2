"""The console: pages for people. It calls the same operations as any other client, and holds no rule."""
