"""Puts upstream tool_call deltas together into calls.

A delta should name its call by ``index``, and carry ``id`` and ``function.name`` once.
Upstreams leave the index out, repeat it, or count wrongly; repeat id and name in every
delta, or send them late; send a call in one piece, several in one chunk, or their
deltas mixed.  Which call a delta belongs to is decided here and nowhere else:

- the candidate is the call of its id and index, else of its id, else of its index, else
  the latest call;
- the delta is the head of a new call if it names one and cannot continue the
  candidate: another function, or a further value after complete arguments, or another
  id before any arguments, or another id and an object where all before had the same id;
- a head that differs in nothing from that of a candidate whose arguments are complete,
  and brings none itself, begins a call if arguments follow.  If none do, nobody can tell
  a call without arguments from a host that repeats the name in every delta, and it is no
  call: what a model did not mean must not run;
- a delta without a name at a new index continues the latest call, whatever its id, as long as
  the arguments of that are not complete;
- a name that is not declared, and with the next delta's name is or begins a declared one, or
  an id made of it (``functions.bash:0``), was cut over the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any

from .json_codec import dumps
from .json_progress import JsonProgress

MANY = 1024
ID_PREFIX = "functions."
"""The ids of Kimi's calls begin with it."""
_DIGITS = 10
"""Digits that no number of a call has."""


def renumbered(call_id: str, taken: Callable[[str], bool], numbers: dict[str, int]) -> str:
    """An id that ends in a number, with the next one that is not `taken`: ``functions.bash:0`` may
    become ``functions.bash:1``; "" for any other.  `numbers` are those that were given."""
    prefix, colon, number = call_id.rpartition(":")
    if not (colon and number.isascii() and number.isdigit() and len(number) < _DIGITS):
        return ""
    numbers[prefix] = max(numbers.get(prefix, 0), int(number)) + 1
    while taken(f"{prefix}:{numbers[prefix]}"):
        numbers[prefix] += 1
    return f"{prefix}:{numbers[prefix]}"


@dataclass(slots=True)  # not frozen: one is made for nearly every chunk of a call
class CallDelta:
    """An element of a chunk's ``tool_calls``; missing fields are empty."""

    index: int | None
    id: str
    name: str
    arguments: str


def elements(delta: Mapping[str, Any]) -> list[Any]:
    """The tool calls in a delta or message, for `read_delta`; the one call of the older
    ``function_call`` gets an index that no other has."""
    found, function = delta.get("tool_calls") or [], delta.get("function_call")
    if not isinstance(found, list):
        found = [found]
    return [*found, {"index": -1, "function": function}] if function else found


def read_delta(value: Any) -> CallDelta | None:
    """An element of ``tool_calls``, whatever its fields are; None if it is no object, or says
    nothing. Arguments that are not a string (Ollama sends an object) become JSON text; a custom
    tool's are its input."""
    if not isinstance(value, dict):
        return None
    function = value.get("function")
    if not isinstance(function, dict):
        function = value.get("custom")
        function = function if isinstance(function, dict) else {}
    arguments = function.get("arguments", function.get("input"))
    if arguments is None:
        arguments = ""
    elif not isinstance(arguments, str):
        arguments = dumps(arguments).decode()
    index, call_id, name = value.get("index"), value.get("id"), function.get("name")
    call_id = call_id if isinstance(call_id, str) else ""
    name = name if isinstance(name, str) and not name.isspace() else ""
    if not (call_id or name or arguments):
        return None
    return CallDelta(index if type(index) is int else None, call_id, name, arguments)


@dataclass(eq=False, slots=True)
class Call:
    """A call as far as it has come."""

    id: str = ""
    name: str = ""
    fragments: list[str] = field(default_factory=list)
    other_ids: bool = False
    """Whether its deltas have several ids, as some hosts make one for each."""
    repeated: CallDelta | None = None
    """A delta after its complete arguments that may be the head of another call."""
    _follower: JsonProgress = field(default_factory=JsonProgress)
    _followed: int = 0
    _more: bool = False
    _sent: int = 0
    _joined: int = 0
    """How many of the fragments are many that were joined."""

    def add(self, fragment: str) -> None:
        """Many small strings take far more memory than their text, so they are joined."""
        if len(self.fragments) - self._joined >= MANY:
            self._join()
        self.fragments.append(fragment)

    def _join(self) -> None:
        # All fragments before this have been sent, or none of a call that waits.
        self._follow()
        self.fragments[self._joined :] = ["".join(self.fragments[self._joined :])]
        self._joined = self._followed = len(self.fragments)
        self._sent = self._sent and self._joined

    def unsent(self) -> list[str]:
        """The fragments since the last time."""
        unsent = self.fragments[self._sent :]
        self._sent = len(self.fragments)
        return unsent

    def forget(self) -> bool:
        """Drop arguments that have been sent; it stays known that there were some.  Returns whether
        they are a complete value."""
        self._follow()
        if self.fragments:
            self.fragments = [""]
            self._joined = self._followed = self._sent = 1
        return self._follower.complete

    @property
    def arguments(self) -> str:
        return "".join(self.fragments)

    @property
    def whole(self) -> bool:
        """Whether the arguments are a complete JSON value."""
        self._follow()
        return self._follower.complete

    @property
    def lacks_value(self) -> bool:
        """Whether they end within a string of their JSON, or before a value."""
        self._follow()
        return self._follower.lacks_value

    @property
    def takes_object(self) -> bool:
        """Whether an object may come next in their JSON."""
        self._follow()
        return self._follower.takes_object

    @property
    def only_value(self) -> bool:
        """Whether only blanks follow the value."""
        return self.whole and not self._more

    def _follow(self) -> None:
        if self._followed < len(self.fragments):
            text = "".join(self.fragments[self._followed :])
            end = self._follower.follow(text, 0, len(text))
            self._more = self._more or not (end == len(text) or text[end:].isspace())
            self._followed = len(self.fragments)


class CallAssembler:
    """The calls of one choice, in the order in which they appeared."""

    def __init__(self, names: Set[str] = frozenset()) -> None:
        self._names = names
        self.calls: list[Call] = []
        self._by_id: dict[str, Call] = {}
        self._by_index: dict[int, Call] = {}

    @property
    def remembered(self) -> int:
        """How many calls, ids and indexes are known."""
        return len(self.calls) + len(self._by_id) + len(self._by_index)

    def continued(self, index: int) -> Call | None:
        """The call of which a delta with this index, and without id and name, has more; None if
        that is in doubt."""
        call = self._by_index.get(index)
        return call if call is not None and call.repeated is None else None

    def take(self, delta: CallDelta, *, new: bool = False) -> tuple[Call, bool]:
        """Add a delta to its call, or if `new` to one of its own; returns the call, and whether the
        delta began it."""
        if delta.index is not None and not (new or delta.id or delta.name):
            # More of the arguments of a call, as nearly all deltas are.
            call = self._by_index.get(delta.index)
            if call is not None and call.repeated is None:
                if delta.arguments:
                    call.add(delta.arguments)
                return call, False
        call = None if new else self._candidate(delta)
        if call is not None:
            if (head := call.repeated) is not None:
                index = head.index if delta.index is None else delta.index
                call_id, name = delta.id or head.id, delta.name or head.name
                delta, call.repeated = CallDelta(index, call_id, name, delta.arguments), None
            names_another = bool(delta.name and call.name) or _other_id(delta, call)
            if self._continues_name(delta, call):
                call.name += delta.name
                delta = replace(delta, name="")
            elif _begins(delta, call):
                call = None
            elif names_another and call.fragments and not delta.arguments.strip() and call.whole:
                call.repeated = delta  # it is one if arguments follow
                return call, False
        is_new = call is None
        if call is None:
            call = Call()
            self._by_index[delta.index if delta.index is not None else len(self.calls)] = call
            self.calls.append(call)
        elif delta.index is not None:
            self._by_index.setdefault(delta.index, call)
        if delta.id:
            call.other_ids = call.other_ids or _other_id(delta, call)
            self._by_id[delta.id] = call
        call.id = call.id or delta.id
        call.name = call.name or delta.name
        if delta.arguments:
            call.add(delta.arguments)
        return call, is_new

    def take_repeated(self) -> int:
        """How many heads began no call, as no arguments followed; forgets them."""
        repeated = [call for call in self.calls if call.repeated]
        for call in repeated:
            call.repeated = None
        return len(repeated)

    def _candidate(self, delta: CallDelta) -> Call | None:
        """The call that the delta continues unless it begins one."""
        same_index = self._by_index.get(delta.index) if delta.index is not None else None
        same_id = self._by_id.get(delta.id) if delta.id else None
        new_index = delta.index is not None and same_index is None
        if same_id is not None and (same_index is None or same_index.id != delta.id):
            # The head of a call may have the id of another.
            is_head = new_index and bool(delta.name)
            ended = is_head and (same_id.whole if same_id.fragments else not delta.arguments)
            return None if ended else same_id
        if same_index is not None:
            return same_index
        latest = self.calls[-1] if self.calls else None
        begins = delta.id or delta.name or delta.arguments.startswith("{")
        if latest is None or not (new_index and begins):
            return latest
        # At a new index there may be more of the arguments of the latest call.
        more = delta.arguments and latest.name and not delta.name
        return latest if more and not latest.whole else None

    def _continues_name(self, delta: CallDelta, call: Call) -> bool:
        """Whether the delta has the rest of a name that was cut."""
        if not (delta.name and call.name) or call.fragments or _other_id(delta, call):
            return False
        if delta.name == call.name or {delta.name, call.name} <= self._names:
            return False
        name = call.name + delta.name
        head, colon, index = name.removeprefix(ID_PREFIX).partition(":")
        if colon:
            return head in self._names and (not index or index.isdigit())
        return ID_PREFIX.startswith(name) or any(each.startswith(head) for each in self._names)


def _other_id(delta: CallDelta, call: Call) -> bool:
    return bool(delta.id and call.id and delta.id != call.id)


def _begins(delta: CallDelta, call: Call) -> bool:
    """Whether a delta at the place of `call` is the head of another one."""
    other_id = _other_id(delta, call)
    other_name = bool(delta.name and call.name and delta.name != call.name)
    if other_name or not (delta.name or other_id):
        return other_name
    if not call.fragments:
        return bool(other_id and delta.name)
    if not call.whole:
        # Some hosts make an id for each delta: where an object may follow, it is more of the call.
        apart = other_id and delta.name and not call.other_ids and not call.takes_object
        return bool(apart and delta.arguments.lstrip().startswith("{"))
    return bool((other_id and delta.name) or delta.arguments.strip())
