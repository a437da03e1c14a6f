"""What the client scripts share: a job a line comes in, an answer a line goes out."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from typing import Any

TIMEOUT = 100
"""Seconds: less than those who ask wait for an answer."""


def serve(answer: Callable[[str, str, Any], dict[str, Any]]) -> None:
    """Answer each job, which is how to ask, a base URL and a request, until there are no more."""
    for line in sys.stdin:
        job = json.loads(line)
        try:
            result = answer(job["how"], job["base_url"], job["request"])
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"}
            traceback.print_exc()
        print(json.dumps(result), flush=True)
