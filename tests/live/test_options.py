"""However an option is given, mitmproxy either does not start and says what to change, or it
runs with Dragoman and with what was meant."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.server import Upstream
from tests.live.chat import CONTROLS, Chat
from tests.live.mitmdump import ADDON, Mitmdump, output_of
from tests.live.test_repair_options import LEAKING, names
from tests.repair.streams import read

WORDS = {
    "true": "set it to auto, or to ~all for every flow",
    "True": "set it to auto, or to ~all for every flow",
    "yes": "set it to auto, or to ~all for every flow",
    "on": "set it to auto, or to ~all for every flow",
    "1": "set it to auto, or to ~all for every flow",
    "all": "set it to ~all, or to auto",
    "none": "set it to off",
    "false": "set it to off",
    "no": "set it to off",
    " NO ": "set it to off",
}


def start(folder: Path, *settings: str, config: str = "", program: str = "mitmdump") -> str:
    """The output of a program of mitmproxy that must not start."""
    (folder / "config.yaml").write_text(config)
    every = [f"confdir={folder}", "listen_port=0", "web_port=0", *settings]
    every = [setting for setting in every if program == "mitmweb" or "web_" not in setting]
    if program == "mitmweb":
        every.append("web_open_browser=false")
    words = ["-s", str(ADDON), *(word for setting in every for word in ("--set", setting))]
    if program == "mitmdump":
        return output_of(*words)
    ended = subprocess.run(
        [Path(sys.executable).with_name(program), *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    output = ended.stdout + ended.stderr
    assert ended.returncode, output
    assert "Traceback" not in output
    return output


GIVEN = [
    (["dragoman_heartbeat=1", "dragoman_heartbeat=2"], "dragoman_heartbeat is given 2 times"),
    (["dragoman_metrics=9", "dragoman_metrics=9"], "dragoman_metrics is given 2 times; give it"),
    (["dragoman_repair"], "dragoman_repair has no value; set it as in dragoman_repair='auto'"),
    (["dragoman_metrics"], "dragoman_metrics has no value; set it as in dragoman_metrics='0'"),
    (["dragoman_metrics=abc"], "dragoman_metrics is 'abc'; set it to a port, or to 0 for none"),
    (["dragoman_metrics="], "dragoman_metrics is ''; set it to a port, or to 0 for none"),
    (["dragoman_metrics=65536"], "dragoman_metrics is '65536'; set it to a port, or to 0"),
    (["dragoman_heartbeat=often"], "dragoman_heartbeat is 'often'; set it to a number of seconds"),
    (["dragoman_keep=much"], "dragoman_keep is 'much'; set it to a number of bytes"),
    (
        ["dragoman_store_days=36500"],
        "dragoman_store_days is '36500'; set it to a number of days above 0 and below 36500",
    ),
    (["dragoman_bridge=true"], "dragoman_bridge is 'true', which as a flow filter means addresses"),
    (["dragoman_repair=~d ("], "set it to auto, off, or a filter such as"),
    (["dragoman_formats=kimi_k2,k9"], "'kimi_k2,k9'; set it to auto, to all, or to"),
    (["dragoman_finish_reason=stop"], "'stop'; set it to one of: tool_calls, keep"),
]


@pytest.mark.parametrize(("settings", "message"), GIVEN, ids=[given[0][0] for given in GIVEN])
def test_a_value_that_is_none_ends_the_start(
    tmp_path: Path, settings: list[str], message: str
) -> None:
    assert message in start(tmp_path, *settings)


CONFIGURED = [
    ("dragoman_heartbeat: [1, 2]", "dragoman_heartbeat is given 2 times"),
    ("dragoman_repair: ~", "dragoman_repair has no value"),
    ("dragoman_repair: []", "dragoman_repair has no value"),
    ("dragoman_formats: [kimi_k2, k9]", "'kimi_k2,k9'; set it to auto, to all, or to"),
    (
        "dragoman_bridge: [~d a, on)]",
        "dragoman_bridge is '(~d a) | (on))', which is no flow filter",
    ),
    ("dragoman_repair: {a: b}", "dragoman_repair is {'a': 'b'}, which is no text"),
    ("dragoman_repair: true", "dragoman_repair is 'true', which as a flow filter means"),
    ("dragoman_bridge: false", "dragoman_bridge is 'false', which as a flow filter means"),
    ("dragoman_heartbeat: -5", "dragoman_heartbeat is '-5'; set it to a number of seconds"),
    ("dragoman_metrics: 0.5", "dragoman_metrics is '0.5'; set it to a port"),
    ("dragoman_repair: auto\ndragoman_repair: off", "duplicate key"),
]


@pytest.mark.parametrize(("config", "message"), CONFIGURED, ids=[each[0] for each in CONFIGURED])
def test_so_it_does_from_the_file(tmp_path: Path, config: str, message: str) -> None:
    assert message in start(tmp_path, config=config)


def test_mitmweb_does_not_start_either(tmp_path: Path) -> None:
    settings = "dragoman_metrics=abc", "dragoman_repair=a", "dragoman_repair=b"
    output = start(tmp_path, *settings, program="mitmweb")
    assert "dragoman_repair is given 2 times" in output
    assert "dragoman_metrics is 'abc'" in output


CONFIG = """
dragoman_heartbeat: 7
dragoman_store_days: 0.5
dragoman_keep: 1000000
dragoman_metrics: 0
dragoman_finish_reason: keep
dragoman_formats: [kimi_k2, glm]
dragoman_bridge: [~d a.test, ~d b.test]
"""


def test_numbers_and_lists_in_the_file_are_taken(plain_upstream: Upstream, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    arguments = "--mode", f"reverse:{plain_upstream.url}"
    with Mitmdump(tmp_path, *arguments, scripts=(ADDON, CONTROLS)) as proxy:
        chat = Chat(plain_upstream, proxy)
        result = read(chat.ask(LEAKING).body)
        assert (names(result), result.finish) == (["bash"], ["stop"])
        proxy.check_log()


def test_a_misspelt_name_ends_the_start_and_the_right_one_is_said(tmp_path: Path) -> None:
    config = 'dragoman_repaire: "off"\nDragoman-Heartbeats: 3\n'
    output = start(tmp_path, "dragoman_x=1", config=config)
    assert "There is no option dragoman_repaire; do you mean dragoman_repair?" in output
    assert "There is no option Dragoman-Heartbeats; do you mean dragoman_heartbeat?" in output
    assert re.search(r"There is no option dragoman_x; do you mean dragoman_\w+\?", output)


@pytest.fixture
def chat(plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]) -> Chat:
    arguments = "--mode", f"reverse:{plain_upstream.url}"
    return Chat(plain_upstream, mitmdump(*arguments, scripts=(ADDON, CONTROLS)))


@pytest.mark.parametrize("option", ["dragoman_repair", "dragoman_bridge", "dragoman_cure"])
@pytest.mark.parametrize("word", WORDS)
def test_a_word_that_is_no_filter_is_refused_with_what_to_write(
    chat: Chat, option: str, word: str
) -> None:
    refused = chat.control("options", **{option: word})
    assert refused.status == 400
    assert f"{option} is {word!r}" in refused.body.decode()
    assert WORDS[word] in refused.body.decode()
    assert names(read(chat.ask(LEAKING).body)) == ["bash"]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("dragoman_metrics", "abc"),
        ("dragoman_metrics", ""),
        ("dragoman_repair", "(" * 20_000),
        ("dragoman_repair", "~nonsense"),
        ("dragoman_repair", "~d ("),
        ("dragoman_repair", ""),
        ("dragoman_kimi_text", "reasoning"),
        ("dragoman_formats", "kimi_k2,k9"),
        ("dragoman_finish_reason", "stop"),
    ],
)
def test_a_bad_value_is_refused_while_it_runs(chat: Chat, option: str, value: str) -> None:
    refused = chat.control("options", **{option: value})
    assert (refused.status, b"set it to" in refused.body) == (400, True)
    assert option.encode() in refused.body
    assert names(read(chat.ask(LEAKING).body)) == ["bash"]
