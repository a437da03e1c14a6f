"""What a person is told of a flow: read from what both sides sent, after the fact."""
