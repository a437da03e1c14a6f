"""The error codes that clients act on, and the words of upstreams that mean them."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Known:
    """A code, and how it is recognized in an upstream's error."""

    code: str
    statuses: frozenset[int]
    """With these a message may mean it; any message may without a status, or with a number of
    the host's own."""
    words: re.Pattern[str]
    """Searched in the upstream's own code and type, then in its message."""

    def means(self, message: str, status: int) -> bool:
        plausible = status in self.statuses or not 400 <= status < 600
        return plausible and bool(self.words.search(message))


_SERVER_ERRORS = range(500, 600)

# Codex compacts on context_length_exceeded, waits on rate_limit_exceeded, gives up on
# insufficient_quota, invalid_prompt and server_is_overloaded (though an overload passes), and
# retries on any other code.  The first match counts, and what passes by itself comes before what
# does not: a message about a rate limit names tokens and the page of the billing settings.
_KNOWN = tuple(
    _Known(code, frozenset(statuses), re.compile(words, re.IGNORECASE))
    for code, statuses, words in (
        (
            "rate_limit_exceeded",
            [429, *_SERVER_ERRORS],
            r"rate[ _-]?limit|too[ _]many[ _]requests|\b(rpm|tpm|tpd)\b|throttl"
            r"|(tokens|requests) per (min|day)|max organization concurrency"
            r"|slow[ _]down",
        ),
        (
            "insufficient_quota",
            [402, 403, 429],
            r"insufficient[ _](quota|balance|funds|credits?)|exceeded_current_quota"
            r"|exceeded your current quota|quota[ _](exceeded|exhausted)|out of (credits|quota)"
            r"|billing_(not_active|hard_limit_reached)|arrear|please (recharge|top up)"
            r"|balance (is )?(insufficient|not enough)|(spend|usage)[ _]limit|credit balance"
            r"|\u4f59\u989d\u4e0d\u8db3",  # "insufficient balance": Z.ai
        ),
        (
            "context_length_exceeded",
            [400, 401, 403, 413, 422, 500],  # 401: Kimi's coding plan, for a smaller model
            r"context_length_exceeded|context[ _-](length|window|size|limit)"
            r"|exceed\w{0,3} (the )?(model('s)? )?(max\w{0,4} |token ){1,3}(limit|length|context)"
            r"|(prompt|input)( \([^()]{0,60}\))?( (is|was|text|length|tokens?|count))*"
            r" too (long|large|many tokens)|(prompt|input)_too_(long|large)|tokens_limit_reached"
            r"|request (is |was )?too large for|too many (input )?tokens"
            r"|exceeds the maximum number of tokens|reduce the length|max_seq_len"
            r"|maximum (input|prompt|sequence) length|range of input length"
            r"|(supports? only|only supports?) .{1,30}context|model only supports up to"
            r"|longer than the (maximum )?(model|context)|`inputs` tokens \+ `max_new_tokens`"
            r"|prompt token count of \d{1,9} exceeds|max_prompt_tokens_exceeded"
            r"|current length is \d{1,9} while limit|(input )?tokens exceed\w{0,3} the configured"
            r"|exceeds? (the )?maximum allowed token|in request more than max tokens"
            r"|string with maximum length \d{6}|expected maxlength:? \d{6}|exceeds your deployment",
        ),
        (
            "rate_limit_exceeded",
            [429, *_SERVER_ERRORS],
            r"overloaded|(at|over|out of) capacity|(server|service|system) is (too )?busy",
        ),
        (
            "invalid_prompt",
            [400, 403, 422, 451, 500],
            r"invalid_prompt|content_policy_violation|content_filter|data_?inspection_?failed"
            r"|considered high risk|(safety|moderation) (system|policy|check)"
            r"|(bio|cyber)_policy|policy_violation",
        ),
    )
)
_EXACT = {
    "credit_balance_exhausted": "insufficient_quota",
    "organization_spend_limit_exceeded": "insufficient_quota",
    "project_spend_limit_exceeded": "insufficient_quota",
    "flex_unavailable": "rate_limit_error",
}
"""Codes that stay as they are, and their types: Codex knows them, gives up and says why.  Not
`slow_down`, on which it asks again only since version 0.158."""
# An upstream's code that is not listed here names what happened better than its message.
# Compared in lower case, letters alone.  One with blanks is a sentence, and as vague (xAI's "Client
# specified an invalid argument").
_VAGUE_CODES = frozenset(
    {
        *("", "error", "unknown", "unknownerror", "badrequest", "badrequesterror", "forbidden"),
        *("invalidrequest", "invalidrequesterror", "invalidparameter", "invalidparametererror"),
        *("invalidargument", "invalidvalue", "validationerror", "validationexception"),
        *("servererror", "internalerror", "internalservererror", "serviceunavailable"),
        *("apierror", "upstreamerror", "providererror", "requestfailed", "badresponsestatuscode"),
        "stringabovemaxlength",  # of a name, or of the whole prompt
    }
)
_CODES_BY_STATUS = {
    402: "insufficient_quota",
    429: "rate_limit_exceeded",
    529: "rate_limit_exceeded",
}
_OFFICIAL_CODES = frozenset({"rate_limit_exceeded", "server_error", "invalid_prompt"})
"""Of the codes above those that the API lists for a response that failed."""
_NEAREST_CODES = {
    "context_length_exceeded": "invalid_prompt",
    **dict.fromkeys(("insufficient_quota", *_EXACT), "rate_limit_exceeded"),
}
"""For the others, by whether trying again may help; `server_error` for any further one."""
TYPES = {
    **_EXACT,
    "context_length_exceeded": "invalid_request_error",
    "insufficient_quota": "insufficient_quota",
    "rate_limit_exceeded": "rate_limit_error",
    "invalid_prompt": "invalid_request_error",
    "server_error": "server_error",
}


def known_code(code: str, kind: str, message: str, status: int) -> str | None:
    """The code that clients know for an error: by its own code and type, else by its status and,
    unless its own code is clear, its message."""
    if code in _EXACT:
        return code
    for known in _KNOWN:
        if known.words.search(f"{code} {kind}"):
            return known.code
    if " " in code or re.sub(r"[^a-z]", "", code.lower()) in _VAGUE_CODES:
        for known in _KNOWN:
            if known.means(message, status):
                return known.code
    return _CODES_BY_STATUS.get(status)


def official_code(code: str) -> str:
    """The code, or the nearest to it, of those that the API lists for a response's error."""
    return code if code in _OFFICIAL_CODES else _NEAREST_CODES.get(code, "server_error")
