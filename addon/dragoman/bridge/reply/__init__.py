"""Chat completion chunks become calls of the writer of events."""
