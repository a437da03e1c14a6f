"""What a person is shown of a flow: read from what both sides sent."""
