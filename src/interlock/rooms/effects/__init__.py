"""Effects: side effects that happen once."""
