"""A table or a parser for each leak format, what these share, and which are looked for."""
