"""Chat completion chunks become what the writer of events is given."""
