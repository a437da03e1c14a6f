"""Chat and Messages requests in the form that hosts take: for the bridge, and for clients."""
