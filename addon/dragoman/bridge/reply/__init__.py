"""What a chat host says becomes one turn, for the writer of the client's API."""
