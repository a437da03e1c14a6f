"""Kimi K2's special tokens."""
