"""Repair of replies in which a host speaks the Responses API itself."""
