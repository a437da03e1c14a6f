"""Kimi special tokens that leaked into text, turned back into tool calls."""
