"""Anthropic's Messages API: its reader, its writer, and what its events are made of."""
