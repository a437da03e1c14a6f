"""Words in the tags and members of markup which say that it is no call: names are compared word by
word, so that ``ToolResult`` and ``tool_results`` say it, too.

Markup with one reading is not enough: a rule, a snippet and a result name a tool and its arguments
just as a call does, and without these words 29 of the 100 texts of tests/repair/formats/
test_unknown_shape.py would run.  Words that say it *is* a call would be safer, and read no shape
that nobody has foreseen.  So there are kinds: pages, results, advice, files; and what has the name
or value of something else.
"""

from __future__ import annotations

import re

_OF_PAGES = re.compile(
    r"a|abbr|article|aside|audio|b|blockquote|body|br|button|canvas|center|cite|code|dd|del|details"
    r"|div|dl|dt|em|fieldset|figure|font|footer|form|h[1-6]|head|header|hr|html|i|iframe|img|ins|kbd"
    r"|label|li|link|main|mark|meta|nav|ol|option|p|picture|pre|q|s|samp|script|section|select|small"
    r"|span|strike|strong|style|sub|summary|sup|svg|table|tbody|td|template|textarea|th|thead|title"
    r"|tr|tt|u|ul|var|video|xmp",
    re.IGNORECASE,
)
"""Elements of HTML in which a page has text."""
_OF_RESULTS = (
    r"assistants?|called|errors?|events?|executed|fail(?:ed|ure)s?|finished|from|history|human|logs?"
    r"|messages?|observations?|outputs?|previous|quote[ds]?|repl(?:y|ies)|responses?|results?"
    r"|returns?|std(?:err|out)|system|traces?|transcripts?|users?|"
)
_OF_ADVICE = (
    r"allow(?:ed)?|alternatives?|avoid|bad|blocked|cancell?ed|den(?:y|ied)|disallow(?:ed)?|docs?"
    r"|document(?:ation)?s?|dont|examples?|forbid(?:den)?|hints?|incorrect|invalid|never|not|plans?"
    r"|polic(?:y|ies)|proposals?|questions?|reject(?:ed)?|rules?|samples?|skip(?:ped)?|snippets?"
    r"|suggestions?|todos?|unsafe|usages?|warnings?|wrong|"
)
_OF_FILES = (
    r"arrays?|attributes?|beans?|columns?|components?|config(?:uration)?s?|definitions?"
    r"|dependenc(?:y|ies)|dict|elements?|entr(?:y|ies)|exclude|fields?|files?|folders?|hooks?|imports?"
    r"|includes?|items?|menus?|modules?|packages?|permissions?|plugins?|projects?"
    r"|records?|routes?|rows?|schemas?|servers?|services?|settings?|targets?|test(?:case|suite)?s?|tools|triggers?|urls?|views?"
)
_OF_OTHERS = re.compile(_OF_RESULTS + _OF_ADVICE + _OF_FILES, re.IGNORECASE)
"""What is a result, a transcript or a quotation; is advised, or advised against; or is in a list,
a file or its code."""
_NO_NAMES = re.compile(
    "arg|argument|id|key|lang|language|param|parameter|property|shell|syntax|value", re.IGNORECASE
)
"""What has the name or the value of an argument, or says in which language code is."""
_WORD = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def is_of_page(name: str) -> bool:
    """Whether an element of this name is one of HTML."""
    return _OF_PAGES.fullmatch(name) is not None


def is_of_other(name: str) -> bool:
    """Whether a tag, an attribute or a member of this name says that it is no call."""
    return any(map(_OF_OTHERS.fullmatch, _WORD.findall(name)))


def is_of_either(name: str) -> bool:
    """Whether pages, files or transcripts have elements of just this name, so that one is no call
    even of a tool that is called the same."""
    return is_of_page(name) or _OF_OTHERS.fullmatch(name) is not None


def may_name(name: str) -> bool:
    """Whether what has this name may say which tool is called."""
    return not is_of_other(name) and not _NO_NAMES.fullmatch(name)
