"""Milliseconds per update, their fraction of peak, and smrl's speed over that of its peers.

The floor is the time that an update's floating-point operations take at the peak of the matrix multiplication, which is
measured in turns with the update. Peers make as many updates of the same networks on batches of the same size, at M =
10 or, where a learning step then takes seconds, at M = 1.
"""

from typing import Any

from benchmarks import ours
from benchmarks.harness import Call, Record, cores, interleaved, median_of, patience, ratio
from benchmarks.ours import CASES
from benchmarks.peers import LIBRARIES, peers

SECTION = "Updates: 17 observations and 6 actions, or images of 84 × 84; batch 256, DQN's 32"
CORES = (1, 2)
EAGER = {  # module of peers, function, its first arguments
    **{name: ("deterministic", name) for name in ("ddpg", "td3", "darc")},
    "sac": ("soft", "sac"),
    "tqc": ("soft", "tqc", 5),
    "redq": ("soft", "redq", 20),
    "dqn": ("values", "dqn"),
    "drqv2": ("images", "drqv2", True),  # channels last, the faster order
}
BY_LIBRARIES = ("ddpg", "td3", "sac", "tqc, 2 critics", "dqn")
LONG = ("redq", "sac_pixels", "drqv2")  # one learning step takes seconds at M = 10, so that peers are timed at M = 1
RATIOS = {  # case, peer, cores → how many times as fast smrl shall be
    ("sac", "SBX", "2 cores"): 1.35,
    ("sac", "SB3", "2 cores"): 2.5,
    ("sac", "eager", "2 cores"): 3.0,
    **{(name, "SBX", "2 cores"): 1.2 for name in BY_LIBRARIES if name != "sac"},
    **{(name, "eager", "1 core"): 3.0 for name in ("darc", "redq", "drqv2")},
}
SHARES = {
    ("sac", "1 core"): 0.9,
    ("sac", "2 cores"): 0.8,
    **{(name, "1 core"): 0.8 for name in ("darc", "redq", "drqv2")},
}


def measure(quick: bool) -> list[Record]:
    """Measure all cases at M = 1 and 10; a quick run only SAC, and with little patience only cases with a target."""
    cases = [(name, reuse) for name in CASES for reuse in (1, 10)]
    if patience() < 0.5:
        cases = [case for case in cases if is_judged(*case) and has_target(case[0])]
    return [record for case in ([("sac", 10)] if quick else cases) for record in compare(*case)]


def is_judged(name: str, reuse: int) -> bool:
    """Return whether targets apply to this M: 10, except for cases that would take long."""
    return reuse == (1 if name in LONG else 10)


def has_target(name: str) -> bool:
    """Return whether there is a target for this case on this number of cores."""
    return (name, cores()) in SHARES or any((name, who, cores()) in RATIOS for who in (*LIBRARIES, "eager"))


def compare(name: str, reuse: int) -> list[Record]:
    """Measure a case at one M: milliseconds of smrl and its peers, smrl's fraction of peak, and the ratios."""
    case, title, count = CASES[name], f"{name}, M = {reuse}, {cores()}", CASES[name].updates(reuse)
    calls: dict[str, Call] = {"smrl": ours.learning(case, reuse), "peak": ours.multiplication()}
    with peers(makers(name, reuse) if is_judged(name, reuse) else {}) as others:
        times = interleaved(calls | others, limit=15 if others else 8)
    peaks, mine, work = times.pop("peak"), times["smrl"], count * ours.flop(case)
    shares = [work / seconds / ours.peak(best) for seconds, best in zip(mine, peaks, strict=True)]
    records = [median_of(f"{title}: {who}", [1e3 * value / count for value in times[who]], "ms") for who in times]
    share_target = SHARES.get((name, cores())) if is_judged(name, reuse) else None
    records.append(median_of(f"{title}: fraction of peak", shares, "", share_target))
    for who in list(times)[1:]:
        target = RATIOS.get((name, who, cores())) if is_judged(name, reuse) else None
        records.append(ratio(times[who], mine, f"{title}: times as fast as {who}", target))
    return records


def makers(name: str, reuse: int) -> dict[str, tuple[Any, ...]]:
    """Return the makers of the peers of a case."""
    case, found = CASES[name], dict[str, tuple[Any, ...]]()
    if name in BY_LIBRARIES:
        policy = {"n_critics": 2} if case.algorithm == "tqc" else {}
        sizes = (case.algorithm, case.spec, policy, case.steps, case.batch, reuse)
        found |= {who: ("libraries", "training", package, *sizes) for who, package in LIBRARIES.items()}
    if name in EAGER:
        found["eager"] = (*EAGER[name], case.batch, reuse)
    found["smrl by XLA"] = ("without_kernels", "learning", name, reuse)
    # on one core their start alone takes minutes, so only those that a target is about
    return {who: maker for who, maker in found.items() if cores() != "1 core" or (name, who, "1 core") in RATIOS}
