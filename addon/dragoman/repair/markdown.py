"""Where a Markdown text stands: inside code that it quotes, or outside.

A model that explains a format writes its markers inside a fence or inline code, and what
stands there is text.  `MarkdownCode` follows one text and knows at any place whether code
that opened before it is still open:

- A fence is three or more backticks or tildes that begin their line (after any blanks,
  ``>`` and list markers), or that end their line with at most one word after them.  It is
  closed by a bare run of the same character, at least as long, in a line of its own.
- Inline code is any other run of backticks; it is closed by a run of the same length in
  its line, and ends with its line.

The rules are CommonMark's, sections 4.5 and 6.1, but for what models get wrong: a fence may
be indented at will and may begin behind a text.  The invariant: only the text matters, not
how it was cut.
"""

from __future__ import annotations

import re

_PREFIX_LIMIT = 80
"""Characters in front of a fence; a line that begins with more begins with none."""
_INFO_LIMIT = 80
"""Characters of the word after a fence, which names a language."""

_OPENS = re.compile(r"(?:[ \t\r>]|[-*+][ \t]|\d{1,9}[.)][ \t])*\Z")
_CLOSES = re.compile(r"[ \t\r>]*\Z")
_INFO = re.compile(r"[ \t]*[^\s`]*[ \t\r]*\Z")
_TOKENS = re.compile(r"`+|~+|\n|[^`~\n]+")


class MarkdownCode:
    """Follows one text; `is_open` tells whether what comes next is quoted."""

    __slots__ = ("_after", "_fence", "_inline", "_length", "_line", "_mark", "_run")

    def __init__(self) -> None:
        self._fence = ""
        """The run that opened the fence we are in."""
        self._inline = 0
        """The length of the run that opened the inline code we are in."""
        self._run = ""
        """The run of one character in which the text ends, which may still grow."""
        self._line = ""
        """How the line begins, as far as that matters."""
        self._length = 0
        """Characters of the line so far, up to a limit."""
        self._mark = ""
        """A run that opened a fence if its line ends well, or closes one if it ends bare."""
        self._after = ""
        """What followed that run."""

    def feed(self, text: str) -> None:
        """More of the text."""
        if not ("`" in text or "~" in text or "\n" in text):
            if text:
                self._words(text)
            return
        for token in _TOKENS.findall(text):
            if token == "\n":
                self._end_line()
            elif token[0] in "`~":
                if self._run and self._run[0] != token[0]:
                    self._end_run()
                self._run += token
            else:
                self._words(token)

    def copy(self) -> MarkdownCode:
        """Another that has followed the same text."""
        other = MarkdownCode()
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        return other

    @property
    def is_settled(self) -> bool:
        """Whether text without any backtick or tilde changes nothing that is open here."""
        return not (self._run or self._mark or self._inline)

    def skip(self) -> None:
        """Text without any backtick or tilde was left out here; see `is_settled`."""
        self._end_line()
        self._grow("x")

    def is_open(self) -> bool:
        """Whether code is open here, where something stands that belongs to no run."""
        self._end_run()
        if self._fence:
            return not (self._mark and _CLOSES.match(self._after))
        return self._inline > 0

    def _words(self, text: str) -> None:
        self._end_run()
        if self._mark and len(self._after) <= _INFO_LIMIT:
            self._after += text[: _INFO_LIMIT + 1]
        self._grow(text)

    def _grow(self, text: str) -> None:
        if self._length <= _PREFIX_LIMIT:
            self._line += text[: _PREFIX_LIMIT + 1]
            self._length = len(self._line)

    def _end_run(self) -> None:
        run, self._run = self._run, ""
        if not run:
            return
        if self._fence:
            self._run_in_fence(run)
        elif len(run) >= 3 and self._length <= _PREFIX_LIMIT and _OPENS.match(self._line):
            self._fence = run
            self._mark = ""
            self._inline = len(run) if run[0] == "`" else 0
        elif run[0] == "`":
            self._run_in_line(run)
        elif len(run) >= 3:
            self._mark, self._after = run, ""
        self._grow(run)

    def _run_in_fence(self, run: str) -> None:
        if self._inline and run[0] == "`":  # in the line that opened it: it was inline code
            self._fence = ""
            self._inline = 0 if len(run) == self._inline else self._inline
            return
        begins = self._length <= _PREFIX_LIMIT and _CLOSES.match(self._line) is not None
        closes = begins and run[0] == self._fence[0] and len(run) >= len(self._fence)
        self._mark, self._after = (run, "") if closes else ("", "")

    def _run_in_line(self, run: str) -> None:
        self._mark = ""
        if not self._inline:
            self._inline = len(run)
            if len(run) >= 3:
                self._mark, self._after = run, ""
        elif self._inline == len(run):
            self._inline = 0

    def _end_line(self) -> None:
        self._end_run()
        if self._mark and self._fence:
            if _CLOSES.match(self._after):
                self._fence = ""
        elif self._mark and len(self._after) <= _INFO_LIMIT and _INFO.match(self._after):
            self._fence = self._mark
        self._inline = 0
        self._line = self._mark = self._after = ""
        self._length = 0
