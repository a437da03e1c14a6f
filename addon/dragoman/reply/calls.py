"""The calls of one choice, leaked and native: which of them leave, and when.

| a native call                                   | what leaves                             |
|-------------------------------------------------|-----------------------------------------|
| a name with markup around it                    | the name, if a tool of it is declared   |
| the id of Kimi's calls (``functions.bash:0``)   | the name in it, if it is a tool's       |
| a name that is a whole call of GLM's            | that call                               |
| a name that comes twice (``bashbash``)          | the name, if a tool of it is declared   |
| a declared key with a tag (``k</arg_key>``)      | the key                                 |
| a name that is cut over deltas                  | the name, when it is whole              |
| the name in every delta                         | the name once                           |
| the same head after whole arguments, then more  | another call                            |
| a call that a text has, too                     | one of the two                          |

Other markers in arguments stay, as nobody can tell what was meant; they are recorded.  Which call
a delta belongs to is the reader's to say, ids and indexes are the writer's.  A call with which
nothing is wrong leaves as the deltas that came.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..notes import Evidence
from ..repair.declared_tools import DeclaredTools
from ..repair.events import Call
from ..repair.formats.glm import KEY, TABLE, VALUE_END
from ..repair.formats.marker_search import MarkerSearch
from ..repair.formats.marker_set import begun
from ..repair.formats.tagged_call import read_call
from ..repair.repeated_calls import ComparedCall, RepeatedCalls
from ..repair.schema import properties
from ..wire.json_codec import dumps
from ..wire.reply_bounds import MAX_CHECKED, Budget
from .words import Arguments, CallBegin, Delta, Other, Part, PartEnd, Unread

CUSTOM = "custom"
"""The type of a call whose arguments are a text."""
_KEY_END = "arg_key>"
_KEY_WITH_TAG = re.compile(
    rf'(?<!\\)"(?P<key>[\w.-]{{1,64}}+)(?P<tag></?{_KEY_END})"(?=\s{{0,9}}+:)'
)
_KEY_BEGUN = re.compile(
    rf'(?<!\\)"(?P<key>[\w.-]{{1,64}}+)(?P<tag></?(?:{begun(_KEY_END[:-1])}|{_KEY_END}(?:"\s{{0,9}}+)?)?\Z)'
)
"""The same, so far."""
_NEAR = 80
"""Characters in which such a key is, and before it."""
_TAG_SIZE = 24
"""Characters at the end of a delta in which such a tag may begin."""
_HALF_TAG = re.compile(r'</(?:arg_|param|tool_|func)\w{0,32}+(?:"|>")\s{0,9}+[,}]')
"""What is left of a call's markup at the end of a value."""
OfCall = CallBegin | Arguments | PartEnd | Other


class Calls:
    """`compared` gives the name by which a tool is compared, if that is another.  `cut_names`:
    whether a name may come in pieces, as in a chat reply."""

    def __init__(
        self,
        choice: int,
        tools: DeclaredTools,
        formats: MarkerSearch,
        evidence: Evidence,
        budget: Budget,
        *,
        compared: Callable[[str], str] = str,
        cut_names: bool,
    ) -> None:
        self._choice = choice
        self._tools = tools
        self._formats = formats
        self._evidence = evidence
        self._compared = compared
        self._cut_names = cut_names
        self._halves: dict[Part, Arguments] = {}
        """What has not left of native calls, as it may be part of a tag in a key."""
        self._mended: set[Part] = set()
        """Native calls whose arguments were changed."""
        self._repeated = RepeatedCalls[Delta](evidence, budget)
        self._native: dict[Part, ComparedCall] = {}
        self._has_all: set[Part] = set()
        """Native calls whose arguments stood in their names."""
        self._held: CallBegin | None = None
        """The beginning of a native call whose name may be cut."""
        self.leaks = 0
        """Leaked calls so far."""

    # Leaked calls

    def leaked(self, call: Call) -> list[Delta]:
        """What leaves of a leaked call, or with it."""
        self.leaks += 1
        return self._out(self._repeated.leaked(call, self._compared(call.name)))

    def _out(self, pieces: Sequence[Call | Delta]) -> list[Delta]:
        out: list[Delta] = []
        for piece in pieces:
            out += self._deltas(piece) if isinstance(piece, Call) else [piece]
        return out

    def _deltas(self, call: Call) -> list[Delta]:
        _note(self._evidence, self._tools, call)
        part = Part("call", self._choice, leaked=True)
        begin = CallBegin(part, call.call_id, call.name)
        return [begin, *[Arguments(part, piece) for piece in call.pieces], PartEnd(part)]

    # Native calls

    def only_continues(self, part: Part, text: str) -> bool:
        """Whether more arguments of a native call, this text, leave as they come."""
        may_be_tag = _KEY_END in text or "<" in text[-_TAG_SIZE:]
        if part in self._halves or may_be_tag:
            return False
        rests = self._held is None and not (self._repeated.holds or part in self._has_all)
        return rests and part in self._native

    def continued(self, part: Part, arguments: str) -> None:
        """These arguments have left."""
        self._look(arguments)
        call = self._native[part]
        more = _as_json(Arguments(part, arguments), first=call.empty)
        self._repeated.keep(call, more)

    def native(self, delta: OfCall) -> list[Delta]:
        """What leaves of a native call, or with what is said of it."""
        if isinstance(delta, CallBegin):
            self._look(delta.text)
            return self._begin(delta)
        if isinstance(delta, Other) and delta.unread in (Unread.HEAD, Unread.TOKEN):
            self._evidence.change(*delta.unread.value)
            return []
        out = self.release()
        if isinstance(delta, Arguments):
            self._look(delta.text)
            if delta.part in self._has_all:
                self._evidence.change("dropped", "arguments beside those in the name of a call")
                return out
        return out + self._send(delta)

    def _with_keys(self, delta: CallBegin | Arguments, call: ComparedCall) -> CallBegin | Arguments:
        """Without the tags that leaked into keys of the arguments of this tool, and without what
        may be the beginning of one, which waits for more."""
        half = self._halves.pop(delta.part, None)
        text = half.text + delta.text if half is not None else delta.text
        if "<" not in text or delta.part.type == CUSTOM or not call.complete:
            return delta if half is None else replace(delta, text=text)
        before = call.end_of_arguments(_NEAR)
        declared = properties(self._tools.schema_of(call.name))
        near = before + text

        def key(found: re.Match[str]) -> str:
            bare = f'"{found["key"]}"'
            once = bare not in near and near.count(found[0]) == 1
            is_new = found.start("tag") >= len(before)
            return bare if once and is_new and found["key"] in declared else found[0]

        mended = _KEY_WITH_TAG.sub(key, near)
        if mended != near:
            self._mended.add(delta.part)
            self._evidence.change("took out", f"a tag in a key of the arguments of {call.name}")
        found = _KEY_BEGUN.search(mended, max(0, len(mended) - _NEAR))
        if found and found["key"] in declared and found.start("tag") >= len(before):
            self._halves[delta.part] = Arguments(delta.part, found["tag"], delta.raw)
            mended = mended[: found.start("tag")]
        mended = mended[len(before) :]
        return delta if mended == delta.text else replace(delta, text=mended)

    def _look(self, arguments: str) -> None:
        if self._formats.may_begin_in(arguments):
            for marker in self._formats.find_all(arguments):
                self._evidence.note("left", f"a {marker.name} in the arguments of a native call")
        if "</" in arguments and _HALF_TAG.search(arguments):
            self._evidence.note("left", "half a tag in the arguments of a native call")

    def _begin(self, delta: CallBegin) -> list[Delta]:
        """A native call begins, or more of its name or its id has come."""
        known, held = self._native.get(delta.part), self._held
        if known is not None and known.name:
            return self._send(Arguments(delta.part, delta.text, delta.raw))
        if held is not None and held.part is delta.part:
            return self._join(held, delta)
        delta = self._cleaned(delta)
        if known is not None:
            return [*self._send(delta), *self._out(self._repeated.rename(known, delta.name))]
        out = self.release()
        if self._cut_names and not delta.text and self._tools.may_be_cut(delta.name):
            self._held = delta
            return out
        return out + self._send(delta)

    def _join(self, held: CallBegin, delta: CallBegin) -> list[Delta]:
        """More of a name that may be cut."""
        name = self._tools.of_native(delta.name) or delta.name
        self._held = replace(held, id=held.id or delta.id, name=name, text=delta.text)
        if not delta.text and self._tools.may_be_cut(delta.name):
            return []
        if name != held.name:
            self._evidence.change("joined", "the name of a call that came in pieces")
        return self.release()

    def release(self) -> list[Delta]:
        """What is held, as no more of the name comes."""
        held, self._held = self._held, None
        return self._send(held) if held is not None else []

    def _send(self, delta: OfCall) -> list[Delta]:
        part, repeated = delta.part, self._repeated
        if part is None:
            return [delta]
        if (call := self._native.get(part)) is None:
            if repeated.full or not isinstance(delta, CallBegin):
                return [delta]
            space = part.namespace
            name = f"{space}.{delta.name}" if space else self._compared(delta.name)
            call = self._native[part] = repeated.begin(name, leaked=False)
        pieces: list[Call | Delta] = []
        if isinstance(delta, CallBegin | Arguments):
            delta = self._with_keys(delta, call)
        elif isinstance(delta, PartEnd) or delta.ends_text:
            if (half := self._halves.pop(part, None)) is not None:
                pieces += repeated.add(call, half, half.text)
            if part in self._mended:
                part.mended = call.arguments.getvalue()
        ends = isinstance(delta, PartEnd) and not delta.cut
        pieces += repeated.add(call, delta, _as_json(delta, first=call.empty, ends=ends))
        if ends:
            pieces += repeated.end(call)
        return self._out(pieces)

    def _cleaned(self, delta: CallBegin) -> CallBegin:
        """Without what leaked into its name; a whole call in it is one (GLM)."""
        name, is_call, rest = delta.name.partition(KEY)
        tool = (self._tools.find if is_call else self._tools.of_native)(name.strip())
        if not delta.name or delta.part.namespace or tool is None:
            return delta
        text, what = delta.text, "what is not part of"
        if is_call:
            tags = KEY + rest  # of which the last may be missing
            texts = (read_call(tags + end, tool, TABLE, self._tools) for end in ("", VALUE_END))
            arguments = next((each for each in texts if each is not None), None)
            if arguments is None:
                return delta
            text, what = arguments, "a call in"
            self._has_all.add(delta.part)
            self._mended.add(delta.part)
        self._evidence.change("took out", f"{what} the name of {tool}")
        return CallBegin(delta.part, delta.id, tool, text, delta.raw)

    # The end

    def close(self, *, cut: bool) -> list[Delta]:
        """No more calls come; see `RepeatedCalls.close`."""
        out = self.release()
        for part, half in self._halves.items():
            out += self._out(self._repeated.add(self._native[part], half, half.text))
        self._halves.clear()
        return [*out, *self._out(self._repeated.close(cut=cut))]


def _as_json(delta: OfCall, *, first: bool, ends: bool = False) -> str:
    """The arguments that a delta of a native call has, as a model would have written them: the
    text of a custom tool is the one argument of a function."""
    text = delta.text if isinstance(delta, CallBegin | Arguments) else ""
    if delta.part is None or delta.part.type != CUSTOM:
        return text
    begin = '{"input":"' if first and (text or ends) else ""
    return begin + dumps(text).decode()[1:-1] + ('"}' if ends else "")


def _note(evidence: Evidence, tools: DeclaredTools, call: Call) -> None:
    """Record a leaked call that leaves, and what is wrong with it."""
    evidence.call(call.name, call.format, call.form)
    if call.unmarked:
        evidence.note("inferred", "the end of a call")
    if len(call.arguments) <= MAX_CHECKED and tools.refuses_value(call.name, call.value):
        evidence.refused_calls += 1
