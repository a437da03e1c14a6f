"""Tools of a chat client whose names its host would refuse: they are sent with other names, which
depend on the client's alone (`Family.sent_tool_name`), and the reply has the client's again.

A model may also call a tool by the id that the client gave an earlier call; texts repeat it, though
the call was sent with another."""

from __future__ import annotations

import re

from ...notes import Evidence
from ...repair.declared_tools import DeclaredTools
from ...wire.json_codec import dumps
from ..host_requirements import Family

_NAME = re.compile(rb'("name"\s*:\s*)"([a-zA-Z0-9_-]{1,64})"')
"""Where a call may have its name.  In a string of JSON, such as a text or the arguments of a call,
its quotes would be escaped."""


class ToolNames:
    """The names of one request and its reply."""

    def __init__(self, family: Family, evidence: Evidence) -> None:
        self._family = family
        self._evidence = evidence
        self._client_names: dict[str, str] = {}
        """By the names that are sent, where these differ."""
        self._called: dict[str, str] = {}
        """The tools of calls that are sent with other ids, by the client's; "" for an id that two
        share."""

    def __bool__(self) -> bool:
        """Whether a tool, or an earlier call, is sent with another name or id."""
        return self.restores or bool(self._called)

    @property
    def restores(self) -> bool:
        """Whether the reply may have a name that is not the client's."""
        return bool(self._client_names)

    def called(self, client_id: str, name: str) -> None:
        """An earlier call of the tool that is sent with this name is sent with another id."""
        if self._called.setdefault(client_id, name) != name:
            self._called[client_id] = ""

    def sent(self, name: str) -> str:
        """The name that a tool is sent with."""
        if not name or not self._family.refuses.tool_names:
            return name
        sent = self._family.sent_tool_name(name)
        if sent != name and sent not in self._client_names:
            self._client_names[sent] = name
            self._evidence.note("renamed", f"tool {name} to {sent}")
        return sent

    def client_name(self, sent: str) -> str:
        """The client's name of a tool that is sent with this one."""
        return self._client_names.get(sent, sent)

    def with_aliases(self, tools: DeclaredTools) -> DeclaredTools:
        """The tools of the request as it was sent, which a leak may call by the client's names and
        ids, too: instructions and outputs have them."""
        aliases = {name: sent for sent, name in self._client_names.items()}
        return tools.with_aliases(aliases, self._called)

    def restored(self, reply: bytes) -> bytes:
        """A reply, or whole events of one, with the client's names."""
        return _NAME.sub(self._restore, reply) if self._client_names else reply

    def _restore(self, found: re.Match[bytes]) -> bytes:
        name = self._client_names.get(found[2].decode())
        return found[0] if name is None else found[1] + dumps(name)
