"""A table or a parser for each leak format, what these share, and the registry."""
