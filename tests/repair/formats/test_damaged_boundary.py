"""Where two tags between arguments are damaged: what shows it, and what does not."""

from __future__ import annotations

import itertools
import random

import pytest

from dragoman.repair.formats.damaged_boundary import Boundary

from .test_tagged_call import CALLS, LINES, WRITERS, Parts, damages, meant, text_of

KEYS = {"kind", "mode"}
CLAUDE = Boundary.after("</parameter>", '<parameter name="query">', "query", KEYS)
GLM_OPENER = "<arg_key>query</arg_key><arg_value>"
GLM = Boundary.after("</arg_value>", GLM_OPENER, "query", KEYS)
QWEN = Boundary.after("</parameter>", "<parameter=query>", "query", KEYS)
K3_OPENER = '<|open|>argument key="query" type="string"<|sep|>'
K3 = Boundary.after("<|close|>argument<|sep|>", K3_OPENER, "query", KEYS)
ANY = Boundary.after("</parameter>", '<parameter name="query">', "query", None)


@pytest.mark.parametrize(
    ("boundary", "text", "value"),
    [
        (CLAUDE, 'ls</parame name="kind">code', "code"),
        (CLAUDE, "ls</par<paramcode", "code"),
        (CLAUDE, "ls</parameter\ncode", "\ncode"),
        (CLAUDE, "ls</param>code", "code"),
        (CLAUDE, 'ls</parind">code', "code"),
        (CLAUDE, 'ls\nname="kind">code', "code"),
        (CLAUDE, 'ls<ter name="mode">code', "code"),
        (CLAUDE, 'lsameter>\n<parameter name="code', "code"),
        (CLAUDE, "lseter>>code", ">code"),
        (ANY, 'ls</ameter name="any">code', "code"),
        (QWEN, "ls</par=kind>code", "code"),
        (QWEN, "ls\nter=mode>\ncode", "\ncode"),
        (GLM, "ls</arg_\ncode", "\ncode"),
        (K3, 'ls<|close|>argu\nkey="kind" type="string"<|sep|>code', "code"),
        (K3, "lsument<|sep|><|open|>argument kcode", "code"),
    ],
)
def test_what_follows_two_damaged_tags_is_another_value(
    boundary: Boundary, text: str, value: str
) -> None:
    assert value in list(boundary.values_after(text))


@pytest.mark.parametrize("boundary", [CLAUDE, GLM, QWEN, K3, ANY])
@pytest.mark.parametrize(
    "text",
    [
        "cat <<EOF >a.txt",
        "x = a << 3 | b >> 4",
        "std::cout << a->b << std::endl;",
        '<meta name="kind"><p>a</p></header>\n<path d="M0">',
        '<div class="mode">a</div>\n\t</footer>\n<p>',
        "const a: Map<string, Set<Parameter>> = new Map();",
        'import <a>\n"a >= b" => {} <></>',
        ".footer>a, .mode>b {}",
        "<para>a</para><param>b</param>",
        "text with a literal <parameter=fake> inside",
        "a literal `</parameter>` before the real one, `</parameter` and `eter>`",
        "<kind>a</kind> <select name='mode'>",
        "> a\n>\n> b",
        "patch -p1 <patch.diff && make",
        "while read a; do b; done </proc/mounts\necho c",
        "for (i = 0; i<parameters.length && i<argc; i++) f(i);",
        "sed 's|</p|</div|;s|</a|</b|' a.html",
        "a</｜DSML｜parameter>b",
        "<p\n  >a</p\n>\n<a\n  >b</a\n>\nc",
    ],
)
def test_what_other_texts_hold_is_no_damage(boundary: Boundary, text: str) -> None:
    assert list(boundary.values_after(text)) == []


@pytest.mark.parametrize(("text", "values"), [("ls>5", ["5"]), ("ls\n<\n5", ["5"]), ("a <5", [])])
def test_where_something_is_absent_one_bracket_shows_it(text: str, values: list[str]) -> None:
    assert list(CLAUDE.values_after(text, absent=True))[-1:] == values
    assert list(CLAUDE.values_after(text)) == []


def test_a_text_full_of_brackets_is_not_looked_at() -> None:
    assert list(CLAUDE.values_after("ls</parameter" + "<" * 501)) == []


def _closes_argument(parts: Parts, one: int, other: int) -> bool:
    closes = ["/" in str(parts[at]) or "close" in str(parts[at]) for at in (one, other)]
    return closes == [True, False]


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize(("tool", "key"), [("bash", "command"), ("search", "query")])
@pytest.mark.parametrize(
    "value",
    [
        "patch -p1 <patch.diff && make",
        "while read a; do b; done </proc/mounts\necho c",
        "for(i=1;i<argc;i++) f(i);",
        "for (i = 0; i<parameters.length; i++) f(i);",
        "SELECT a FROM b WHERE c>30",
        "SELECT a FROM b WHERE c<5",
        "cout<<arg<<param<<endl;\nreturn 0;",
        "<p\n  >a</p\n>\n<a\n  >b</a\n>\nc",
    ],
)
def test_a_call_whose_value_is_shell_code_or_sql_stays_one(
    name: str, tool: str, key: str, value: str
) -> None:
    for line in ("\n", ""):
        text = text_of(WRITERS[name](tool, {key: value}, line))
        assert meant(text)[1] == [(tool, {key: value})]


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITERS)
def test_of_two_damaged_tags_in_a_row_half_of_one_is_enough_to_tell(name: str) -> None:
    dice = random.Random(name)
    for call, line in itertools.product(CALLS[:3], ("", "\n")):
        parts = WRITERS[name](*call, line)
        tags = [at for at, part in enumerate(parts) if isinstance(part, str)]
        pairs = itertools.pairwise(tags)
        for one, other in [two for two in pairs if _closes_argument(parts, *two)]:
            for _ in range(6):
                half = dice.randrange(len(str(parts[one])) // 2, len(str(parts[one])))
                first = dice.choice((str(parts[one])[:half], str(parts[one])[-half:]))
                change = {one: first, other: dice.choice(damages(str(parts[other]), dice))}
                text = text_of([change.get(at, part) for at, part in enumerate(parts)])
                assert meant(text)[1] in ([], [call]), text


@pytest.mark.slow
def test_two_damages_anywhere_give_another_call_in_at_most_two_of_a_thousand() -> None:
    dice, wrong, count = random.Random(37), 0, 3000
    for _ in range(count):
        name = dice.choice(list(WRITERS))
        call = dice.choice(CALLS if name in ("qwen", "minimax_m3") else CALLS + LINES)
        parts = WRITERS[name](*call, dice.choice(("\n", "")))
        tags = [at for at, part in enumerate(parts) if isinstance(part, str)]
        two = dice.sample(tags, 2)
        change = {at: dice.choice(damages(str(parts[at]), dice)) for at in two}
        wrong += meant(text_of([change.get(at, part) for at, part in enumerate(parts)]))[1] not in (
            [],
            [call],
        )
    assert wrong <= count * 2 / 1000
