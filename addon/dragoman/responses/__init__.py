"""The Responses API: its readers and its writer, and what its events and items are made of."""
