"""Tool calls that leaked into text, turned back into real ones."""
