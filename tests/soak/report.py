"""What the soak test prints at its end."""

from __future__ import annotations

from collections.abc import Sequence

from tests.soak.load import Tally

MILLISECONDS = 1000


def figures(translated: Tally, plain: Tally, wanted: float) -> list[str]:
    """The streams, their speed and their delays; `wanted` is the events a second asked for."""
    lines = [f"streams   {_streams(translated)}", f"          {_streams(plain)}"]
    for name, tally in (("Dragoman", translated), ("plain", plain)):
        speed = tally.events / tally.seconds if tally.seconds else 0
        lines.append(
            f"events    {tally.events:,} through {name}, {speed:,.0f} a second ({wanted:,.0f} "
            f"while all clients ask), {_micro(tally):.0f} µs of CPU time each"
        )
    for name, tally in (("Dragoman", translated), ("plain", plain)):
        left = tally.cancelled
        if left:
            lines.append(
                f"left      {len(left)} clients of {name}: upstream the connection was closed in "
                f"{max(left) * MILLISECONDS:.0f} ms at most"
            )
    return lines + _delays(translated, plain)


def _micro(tally: Tally) -> float:
    return tally.cpu / tally.events * 1e6 if tally.events else 0


def _streams(tally: Tally) -> str:
    counts = [f"{n} {job} {fate}" for (job, fate), n in sorted(tally.streams.items())]
    return f"{tally.streams.total()}: {', '.join(counts)}"


def _delays(translated: Tally, plain: Tally) -> list[str]:
    lines = ["delay     from the upstream's write to the client's read, in ms:"]
    lines.append(f"          {'':10}{'p50':>8}{'p90':>8}{'p99':>8}{'p99.9':>8}")
    everything = [delay for delays in translated.delays.values() for delay in delays]
    rows: dict[str, list[float]] = {
        job: _quantiles(delays) for job, delays in sorted(translated.delays.items())
    }
    rows["both"] = _quantiles(everything)
    rows["plain"] = _quantiles(plain.delays.get("plain", ()))
    rows["added"] = [a - b for a, b in zip(rows["both"], rows["plain"], strict=True)]
    for name, row in rows.items():
        values = "".join(f"{value * MILLISECONDS:8.1f}" for value in row)
        lines.append(f"          {name:10}{values}")
    return lines


def _quantiles(delays: Sequence[float]) -> list[float]:
    ordered = sorted(delays) or [0.0]
    return [ordered[int(part * (len(ordered) - 1))] for part in (0.5, 0.9, 0.99, 0.999)]
