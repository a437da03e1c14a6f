"""The tools of a chat client whose names its host would refuse: they are sent with others, which
depend on the client's alone (`Family.tool_called`), and the reply has the client's again."""

from __future__ import annotations

import re
from typing import TypeVar

from ...repair.declared_tools import DeclaredTools
from ...wire.json_codec import dumps
from ..model_families import Family

T = TypeVar("T")
_NAME = re.compile(rb'("name"\s*:\s*)"([a-zA-Z0-9_-]{1,64})"')
"""Where a call may have its name.  In a string of JSON, such as a text or the arguments of a call,
its quotes would be escaped."""


class ToolNames:
    """Those of one request and its reply."""

    def __init__(self, family: Family, notes: list[tuple[str, str]]) -> None:
        self._family = family
        self._notes = notes
        self._given: dict[str, str] = {}
        """The client's names, by those that are sent."""

    def __bool__(self) -> bool:
        """Whether a tool is sent with another name."""
        return bool(self._given)

    def sent(self, given: str) -> str:
        """The name that a tool is sent with."""
        if not given or not self._family.refuses.tool_names:
            return given
        sent = self._family.tool_called(given)
        if sent != given and sent not in self._given:
            self._given[sent] = given
            self._notes.append(("renamed", f"tool {given} to {sent}"))
        return sent

    def known(self, tools: T) -> T | DeclaredTools:
        """The tools of the request as it was sent, which a leak may call by the client's names,
        too: instructions have them."""
        if not isinstance(tools, DeclaredTools):
            return tools
        return tools.with_aliases({given: sent for sent, given in self._given.items()})

    def given_in(self, reply: bytes) -> bytes:
        """A reply, or whole events of one, with the client's names."""
        return _NAME.sub(self._named, reply) if self._given else reply

    def _named(self, found: re.Match[bytes]) -> bytes:
        given = self._given.get(found[2].decode())
        return found[0] if given is None else found[1] + dumps(given)
