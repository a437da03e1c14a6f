"""What bytes mean, each thing written once; no policy, no model family."""
