"""What a person sees of the flows: records, views, commands, counts."""
