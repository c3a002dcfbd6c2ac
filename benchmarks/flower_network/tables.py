"""The tables: seconds, CPU seconds, memory; ours beside the peer's, and the goals."""

import statistics

from benchmarks.flower_network.watching import UNSEEN, Measured

GOAL_S, GOAL_CPU_S = 0.5, 0.25


def ratio_table(ours: Measured, stock: Measured) -> str:
    """Seconds and CPU seconds of a round."""
    lines = [
        "| | ours | stock Flower | ours / it | goal | |",
        "|---|---|---|---|---|---|",
        _row("seconds per round", ours.round_s, stock.round_s, GOAL_S),
        _row("CPU seconds per round", ours.cpu_s, stock.cpu_s, GOAL_CPU_S),
        f"| quickest and slowest round, s | {_span(ours)} | {_span(stock)} | | | |",
        f"| start and first round, s | {ours.first_s:.1f} | {stock.first_s:.1f} | | | |",
        f"| start and first round, CPU seconds | {ours.first_cpu_s:.1f} | {stock.first_cpu_s:.1f} | | | |",
        f"| MB of all processes, PSS, at most | {ours.sum_mb:.0f} | {stock.sum_mb:.0f} | | | |",
        f"| load average of the machine then | {ours.load[0]:.1f} | {stock.load[0]:.1f} | | | |",
    ]
    return "\n".join(lines)


def _row(name: str, ours: float, stock: float, goal: float) -> str:
    verdict = "met" if ours <= goal * stock else "MISSED"
    return f"| {name} | {ours:.2f} | {stock:.2f} | {ours / stock:.2f} | {goal:g} | {verdict} |"


def _span(found: Measured) -> str:
    return f"{min(found.rounds_s):.1f} to {max(found.rounds_s):.1f}"


def process_table(name: str, found: Measured) -> str:
    """What each kind of process takes."""
    lines = [f"| {name} | at once | MB each, PSS | largest resident set | CPU seconds per round, all |"]
    lines.append("|---|---|---|---|---|")
    for kind, memory in sorted(found.memory.items()):
        mean = statistics.fmean(memory.shares_mb)
        cpu_s = found.by_kind.get(kind, 0.0)
        lines.append(f"| {kind} | {memory.most} | {mean:.0f} | {memory.peak_mb:.0f} | {cpu_s:.2f} |")
    unseen = sum(cpu_s for kind, cpu_s in found.by_kind.items() if kind == UNSEEN or kind not in found.memory)
    lines.append(f"| ended {UNSEEN} | | | | {unseen:.2f} |")
    return "\n".join(lines)
