"""Chat Completions: its reader, its writer, and what its chunks are made of."""
