"""The leak formats: what a model family writes where a tool call should be."""
