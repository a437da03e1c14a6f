"""Responses that are kept, and conversations that go on from them."""
