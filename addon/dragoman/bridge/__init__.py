"""Clients of the Responses and Messages APIs at a chat host: requests one way, replies back."""
