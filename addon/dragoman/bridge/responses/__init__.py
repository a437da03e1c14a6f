"""The one writer of Responses events, and the shapes of what it writes."""
