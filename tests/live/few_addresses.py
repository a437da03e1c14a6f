"""A script for mitmdump, behind the addon: it remembers ten addresses of hosts, not thousands."""

from __future__ import annotations

from dragoman.proxy import chat_only_hosts

chat_only_hosts.MAX_ADDRESSES = 10
