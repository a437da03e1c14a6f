"""The pages that a person opens, as lines of text."""
