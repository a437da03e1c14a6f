"""The ids of the calls of a response: the upstream's, as long as no other call has it."""

from __future__ import annotations

from collections.abc import Container, Sequence

from ..wire.chat_calls import renumbered
from ..wire.json_codec import Json, string


class ResponseCallIds:
    def __init__(
        self, response_id: str, prior: Sequence[Json] = (), called: Container[str] = ()
    ) -> None:
        """`response_id` without its prefix; `prior`: the items that the response has already;
        `called` has the call ids of the conversation before it."""
        self._response_id = response_id
        self._own = {item["call_id"] for item in prior if "call_id" in item}
        self._called = called
        self._numbers: dict[str, int] = {}

    def add_sent(self, item: Json) -> None:
        """The client has this item already."""
        self._own.add(string(item.get("call_id")))

    def is_sent(self, call_id: str) -> bool:
        """Whether a call of this response has it."""
        return bool(call_id) and call_id in self._own

    def new(self, wanted: str, index: int) -> str:
        """The id of the call at an output index: the upstream's, unless it is empty or an earlier
        call has it."""
        call_id = wanted or f"call_{self._response_id}_{index}"
        if call_id in self._called:
            call_id = renumbered(call_id, self._has, self._numbers) or call_id
        while self._has(call_id):
            call_id = f"{call_id}_{index}"
        self._own.add(call_id)
        return call_id

    def _has(self, call_id: str) -> bool:
        return call_id in self._own or call_id in self._called
