"""Responses that are kept, and conversations that continue them."""
