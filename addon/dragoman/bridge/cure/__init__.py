"""Chat requests in the form that hosts take: for the bridge, and for chat clients."""
