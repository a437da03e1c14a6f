"""The writer of Messages events."""
