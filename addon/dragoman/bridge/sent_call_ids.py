"""The ids that the calls of a conversation are sent with: one rule for all that renames them.

The same calls before give the same ids, so an id never changes in a later turn.
"""

from __future__ import annotations

import re
from typing import Literal

CallIdForm = Literal["kept", "conversation", "message", "nine"]
"""`kept`: any id will do, and the client's stay.  `conversation` and `message` are a prefix with
the function's name, and a number that counts all calls of the conversation, or those of one
assistant message; `nine` is a number of nine digits that counts all."""
_PREFIXES = {"kept": "", "conversation": "functions.{}:", "message": "{}:", "nine": ""}
_DIGITS = re.compile("[0-9]+").fullmatch


class CallIds:
    """An id that is made here is like none before it, and none after it.  All others are unique
    among those since the latest `new_message`."""

    def __init__(self, form: CallIdForm, *, keeps_own: bool = True) -> None:
        """`keeps_own`: an id that has the form stays, though the model may have counted
        otherwise."""
        self._form = form
        self._keeps_own = keeps_own
        self._calls = self._number = 0
        """Calls so far, and the least number that is in no id that was made here."""
        self._used: set[str] = set()
        self._made: set[str] = set()
        """The ids of all calls so far, and those of them that were made here."""
        self._in_message: set[str] = set()

    def new_message(self) -> None:
        """The next calls are those of another message."""
        self._in_message = set()
        if self._form == "message":
            self._calls = self._number = 0
            self._used, self._made = set(), set()

    def sent(self, client_id: str, name: str) -> str:
        """The id of the next call, which is one of the function `name`."""
        prefix = _PREFIXES[self._form].format(name) if name else ""
        sent, stays = client_id, bool(client_id) and self._form != "nine"
        if prefix:
            number = client_id.removeprefix(prefix)
            stays = self._keeps_own and number != client_id and bool(_DIGITS(number))
        self._number = max(self._number, self._calls)
        while not stays or sent in self._in_message or sent in self._made:
            stem = prefix or f"{client_id or 'call'}_"
            sent = f"{self._number:09}" if self._form == "nine" else f"{stem}{self._number}"
            stays = sent not in self._used
            self._number += 1
        if sent != client_id:
            self._made.add(sent)
        self._calls += 1
        self._in_message.add(sent)
        self._used.add(sent)
        return sent
