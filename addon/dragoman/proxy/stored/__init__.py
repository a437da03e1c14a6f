"""The back-ends of the store, and the endpoints that serve what is kept."""
