"""A reply in the words of no API, and what is done to them."""
