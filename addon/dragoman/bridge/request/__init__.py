"""A Responses or Messages request becomes a chat completions request."""
