"""Dragoman: an interpreter for LLM streams, as a mitmproxy addon.

Where everything is: ``docs/reading-the-code.md``.  Only ``proxy`` imports mitmproxy, opens
anything or reads a clock; all else is bytes and values in, bytes and values out.
"""

__version__ = "0.4.0"
