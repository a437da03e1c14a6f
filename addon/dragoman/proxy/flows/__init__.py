"""One flow that is repaired, bridged or watched, and its stream."""
