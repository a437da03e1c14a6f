"""A Responses request becomes a chat completions request."""
