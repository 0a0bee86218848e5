"""The report in Markdown: a summary with one line a workload, then every contender."""

from benchmarks.harness.contenders import Kind
from benchmarks.harness.results import Line, Report, Result, quotient, ratios


def markdown(report: Report) -> str:
    """Summary, details, what was measured where."""
    parts = [summary(report), "", *(details(result) for result in report.results)]
    return "\n".join([*parts, f"Measured by {report.machine.words()}; {packages(report)}.", ""])


def packages(report: Report) -> str:
    """The packages of all contenders and their versions."""
    return ", ".join(f"{package} {version}" for package, version in report.versions().items())


def short(report: Report) -> str:
    """One line a workload, as in the README: without the limit's own time."""
    lines = [
        "| a round of | Headwater | fastest peer | Headwater is | of the machine's limit |",
        "|---|---|---|---|---|",
    ]
    for result in report.results:
        share = ratios(result)["of_fastest_limit"]
        cells = [*_ours(result), f"{number(float(share))}×" if share else "–"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _ours(result: Result) -> list[str]:
    """The workload, our time, the fastest peer's, and how many times faster we are."""
    ours = result.fastest(Kind.OURS)
    faster = ratios(result)["times_faster_than_fastest_peer"]
    return [
        result.workload.title,
        seconds(ours.median) if ours else "–",
        fastest(result),
        f"**{number(float(faster))}× faster**" if faster else "–",
    ]


def summary(report: Report) -> str:
    """One line a workload: Headwater, the fastest peer, the limit."""
    lines = [
        "| workload | Headwater | fastest peer | Headwater is | limit of the machine | Headwater "
        "takes |",
        "|---|---|---|---|---|---|",
    ]
    for result in report.results:
        limit, share = result.fastest(Kind.LIMIT), ratios(result)["of_fastest_limit"]
        cells = [
            *_ours(result),
            f"{seconds(limit.median)} ({limit.title.removeprefix('limit: ')})" if limit else "–",
            f"{number(float(share))}× the limit" if share else "–",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def fastest(result: Result) -> str:
    """The fastest peer and its time; that none could do it only where one was asked."""
    peer = result.fastest(Kind.PEER)
    if peer is not None:
        return f"{seconds(peer.median)} ({peer.title})"
    asked = any(line.kind == Kind.PEER.value for line in result.lines)
    return "none could do it" if asked else "–"


def details(result: Result) -> str:
    """Every contender of a workload, the fastest first, those that failed last and with the
    reason."""
    lines = [
        f"**{result.workload.title}** ({result.workload.samples} samples a client, batch "
        f"{result.workload.batch})",
        "",
        "| | seconds a round | middle half (rounds) | × fastest peer | × limit | start-up | memory "
        "| off by |",
        "|---|---|---|---|---|---|---|---|",
    ]
    order = sorted(result.lines, key=lambda line: (line.median is None, line.median or 0.0))
    peer, limit = result.fastest(Kind.PEER), result.fastest(Kind.LIMIT)
    lines.extend(row(line, peer, limit) for line in order)
    drifts = [text for line in order if (text := drift(line))]
    note = (
        [f"The limit after all others over before them: {', '.join(drifts)}.", ""] if drifts else []
    )
    return "\n".join([*lines, "", *note])


def drift(line: Line) -> str:
    """How much longer the limit took in the end than in the beginning; nothing for the others."""
    if line.before is None or line.after is None:
        return ""
    return f"{line.title.removeprefix('limit: ')} {line.after / line.before:.2f}×"


def row(line: Line, peer: Line | None, limit: Line | None) -> str:
    """One contender."""
    if line.failure is not None:
        return f"| {line.title} | not measured: {line.failure} | | | | | | |"
    cells = [
        f"**{line.title}**" if line.kind == Kind.OURS.value else line.title,
        seconds(line.median),
        f"{seconds(line.low)} to {seconds(line.high)} ({line.rounds})",
        number(quotient(line, peer)),
        number(quotient(line, limit)),
        f"{line.startup:.1f} s",
        f"{(line.memory or 0) / 2**20:,.0f} MB",
        "–" if line.error is None else f"{line.error:.0e}",
    ]
    return "| " + " | ".join(cells) + " |"


def number(value: float | None) -> str:
    """Three significant digits, without exponents.

    >>> [number(v) for v in (1234.5, 45.67, 1.2345, 0.01234, None)]
    ['1,234', '45.7', '1.23', '0.0123', '–']
    """
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def seconds(value: float | None) -> str:
    """A time people can read.

    >>> [seconds(v) for v in (0.00016, 0.0274, 1.234, 98.7, None)]
    ['160 µs', '27.4 ms', '1.23 s', '98.7 s', '–']
    """
    if value is None:
        return "–"
    if value < 1e-3:
        return f"{number(value * 1e6)} µs"
    return f"{number(value * 1e3)} ms" if value < 1 else f"{number(value)} s"
