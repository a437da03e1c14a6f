"""What both sides of a flow sent, read for a person."""
