"""What the streams of mitmproxy's HTTP layer ask of the addon: questions, and hooks of their own.

A hook is mitmproxy's: all addons receive it, under the name of its class, and the stream waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from mitmproxy import http
from mitmproxy.proxy import commands


class Interpreter(Protocol):
    """The part of the addon that a `Stream` calls."""

    def reads_request_whole(self, flow: http.HTTPFlow) -> bool:
        """Whether a flow's request must be read whole before it is sent."""

    def reads_reply_whole(self, flow: http.HTTPFlow) -> bool:
        """Whether the reply to a flow, whose headers have come, must be read whole."""

    def is_unreadable(self, flow: http.HTTPFlow) -> bool:
        """Whether a reply that must be read whole, whose headers have come, cannot be."""

    def converts_reply(self, flow: http.HTTPFlow) -> bool:
        """Whether the reply to a flow, once it comes, is to be converted or repaired."""

    def may_ask_again(self, flow: http.HTTPFlow) -> bool:
        """Whether the reply to a flow, which was received whole, may show that its request has to
        be bridged, or has to be another."""

    def give_up_whole(self, flow: http.HTTPFlow) -> None:
        """A reply that must be read whole is too large, or unreadable: the flow's response gets a
        stream with which it passes, or is replaced."""

    def answer_for(self, flow: http.HTTPFlow, error: str) -> http.Response:
        """The reply to a flow whose upstream failed before any of its reply was sent."""


@dataclass
class DragomanRefusedHook(commands.StartHook):
    """See `may_ask_again`: time to make another request of it.  The flow has no response then;
    or it has the one that the client receives."""

    flow: http.HTTPFlow


@dataclass
class DragomanPauseHook(commands.StartHook):
    """Time for other flows to run.  Of what one read of a socket has brought, mitmproxy has all
    parts handled before that."""

    flow: http.HTTPFlow


@dataclass
class DragomanKeepHook(commands.StartHook):
    """The reply to a flow is about to end: time to keep it."""

    flow: http.HTTPFlow
