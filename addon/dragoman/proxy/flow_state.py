"""All that Dragoman knows of a flow that runs: one `FlowState` each, in one dictionary.

It is kept beside the flow, never in it: flows are saved to files and shown to people.  It begins
with the head of the request, and is forgotten when the flow has ended (`FlowMonitor.close`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from mitmproxy.flow import Flow

if TYPE_CHECKING:
    from ..bridge.cure.tool_names import ToolNames
    from ..inspect.refusals import Cure
    from .decision import Decision
    from .flows.client_api import BridgedTurn
    from .flows.cure_flow import KeptTurn
    from .flows.repair_reply import ReadRequest
    from .observe.recorder import FlowRecorder


@dataclass(slots=True)
class FlowState:
    """What the stages of one flow leave for those that come later; named is who writes it."""

    decision: Decision | None = None
    """What is done with it (`decision`)."""
    record: FlowRecorder | None = None
    """Of both its sides, if it is watched (`observe.recorder`)."""
    turn: BridgedTurn | None = None
    """If it is bridged, until its reply has ended, or another is given (`flows.bridge_request`)."""
    request: tuple[object, ReadRequest | None] | None = None
    """What the request says, until its reply is repaired, with the body it had then: another addon,
    or the user, may have changed the body since.  None if the request is too large, or could not
    be read for a fault of ours (`flows.repair_reply`)."""
    tool_names: ToolNames | None = None
    """Where the upstream was sent other names of tools or ids of calls (`flows.cure_flow`)."""
    kept_turn: KeptTurn | None = None
    """Where the reasoning of the reply is to be kept (`flows.cure_flow`)."""
    cure: Cure = "off"
    """Whether the request was changed, for models whose hosts refuse something
    (`flows.cure_flow`)."""
    client_left: bool = False
    """Whether its client has left, after its whole request (`mitm.http_stream`)."""


# Of the module: a script that is loaded anew finds the flows that run.
_STATES: WeakKeyDictionary[Flow, FlowState] = WeakKeyDictionary()


def state_of(flow: Flow) -> FlowState:
    """The state of a flow, begun if there is none."""
    state = _STATES.get(flow)
    if state is None:
        state = _STATES[flow] = FlowState()
    return state


def known_state(flow: Flow) -> FlowState | None:
    """None for a flow that has ended, or was loaded from a file."""
    return _STATES.get(flow)


def forget(flow: Flow) -> None:
    """The flow has ended."""
    _STATES.pop(flow, None)


def running_turns() -> list[BridgedTurn]:
    """The bridged turns whose reply has not ended."""
    return [state.turn for state in _STATES.values() if state.turn is not None]
