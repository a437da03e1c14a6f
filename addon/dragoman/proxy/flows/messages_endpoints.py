"""What clients of the Messages API ask for beside messages, and chat hosts do not have: a count of
tokens, which is estimated here, and the list of models, in Anthropic's form."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

from mitmproxy import http

from ...bridge.request.convert_messages import convert_messages
from ...notes import Evidence
from ...wire.errors import Refused
from ...wire.json_codec import Json, NotJson, dumps, loads, objects, string
from ...wire.reply_bounds import MAX_REPLY
from ..content_decoding import DecodingError
from ..error_responses import error_response, errors_for, refusal
from ..http_headers import body_of
from ..observe.flow_name import name_of
from ..routes import Route, route_of
from ..run_slices import ClientLeft, in_slices
from .client_api import received_body, received_value
from .messages_client import as_chat_client

logger = logging.getLogger(__name__)

_LONG_AGO = "1970-01-01T00:00:00Z"
"""What Anthropic says of a model whose date it does not know."""


async def count_tokens(flow: http.HTTPFlow) -> http.Response:
    """The estimate of what a request would take."""
    errors = errors_for(route_of(flow.request))
    try:
        body = await received_value(await received_body(flow.request))
        work = convert_messages(body, unsupported="drop", evidence=Evidence())
        conversion = await in_slices(work, flow)
    except (Refused, NotJson) as error:
        return refusal(error, errors)
    except ClientLeft:
        return error_response(499, "The client has left.", form=errors)
    except Exception:
        logger.exception("%s: its tokens could not be counted", name_of(flow))
        return error_response(500, "Dragoman could not count the tokens.", form=errors)
    return _json(200, dumps({"input_tokens": conversion.turn.estimate}))


def ask_for_models(request: http.Request, route: Route) -> None:
    """Ask a chat host for its list."""
    request.path = f"{route.base}/models"
    as_chat_client(request)


def answer_models(flow: http.HTTPFlow, response: http.Response, *, bridged: bool) -> None:
    """Give a chat host's list in Anthropic's form, and its errors too if it is `bridged`; a list in
    that form passes."""
    try:
        body = body_of(response, MAX_REPLY)
    except DecodingError:
        return
    if response.status_code == 200 and (listed := _as_list(body)) is not None:
        flow.response = _json(200, dumps(listed))
    elif bridged and response.status_code >= 400:
        errors = errors_for(Route("models", ""))
        retry_after = response.headers.get("retry-after", "")
        error = errors.of_host(response.status_code, body, retry_after=retry_after)
        flow.response = _json(error.status, error.body)
        if error.retry_after:
            flow.response.headers["retry-after"] = error.retry_after


def _as_list(body: bytes) -> Json | None:
    """None if it is no chat host's list."""
    try:
        value = loads(body)
    except NotJson:
        return None
    if isinstance(value, dict) and value.get("object") == "list":
        value = value.get("data")
    if not isinstance(value, list):  # Together has no list around it
        return None
    listed = [_model(each) for each in objects(value) if string(each.get("id"))]
    ends = {"first_id": listed[0]["id"], "last_id": listed[-1]["id"]} if listed else {}
    return {"data": listed, "has_more": False, "first_id": None, "last_id": None, **ends}


def _model(model: Json) -> Json:
    name, created = string(model.get("name")), model.get("created")
    return {
        **{"type": "model", "id": model["id"], "display_name": name or model["id"]},
        "created_at": _date(created),
    }


def _date(seconds: Any) -> str:
    if type(seconds) is not int or not 0 < seconds < 2**33:
        return _LONG_AGO
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _json(status: int, body: bytes) -> http.Response:
    return http.Response.make(status, body, {"content-type": "application/json"})
