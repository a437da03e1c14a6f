"""All that knows mitmproxy's internals."""
