"""Updates of SAC with normalised and residual networks: milliseconds, fraction of peak, and the speed over peers.

SBX has the same networks; its CrossQ has BatchNorm in the sizes of the critics with LayerNorm, no target critics, and
an actor that learns in every third update. RLtools has plain networks only, so that its SAC and TD3 are compared with
smrl's on these. Its step includes an environment step, here of an environment that does nothing.
"""

from typing import Any

from benchmarks import ours
from benchmarks.harness import Call, Record, cores, interleaved, median_of, ratio
from benchmarks.ours import CASES, Case
from benchmarks.peers import peers

SECTION = "Critics: SAC with LayerNorm and SimBa, 17 observations and 6 actions, batch 256, M = 10"
CORES = (1, 2)
REUSE = 10
DEEP, NARROW = (256, 256, 256), (128, 128)
CRITICS = {
    "SAC, critics 3 × 256 with LayerNorm": Case("sac", changes={"critic_hidden": DEEP, "layer_norm": True}),
    "the same with projected weights": Case(
        "sac", changes={"critic_hidden": DEEP, "layer_norm": True, "weight_projection": True}
    ),
    "SAC, SimBa 128": Case("sac", changes={"network": "simba", "critic_hidden": NARROW, "actor_hidden": (128,)}),
    "SAC": CASES["sac"],
    "TD3": CASES["td3"],
}
PEERS = {  # case → name of the peer, and the model of `libraries` or `rltools_loop`
    "SAC, critics 3 × 256 with LayerNorm": {"SBX": "sac-layer-norm", "SBX's CrossQ": "crossq"},
    "SAC, SimBa 128": {"SBX": "sac-simba"},
    "SAC": {"RLtools": "sac"},
    "TD3": {"RLtools": "td3"},
}
SHARES = {(name, "1 core"): 0.85 for name in ("SAC, critics 3 × 256 with LayerNorm", "SAC, SimBa 128")}


def measure(quick: bool) -> list[Record]:
    return [record for name in CRITICS for record in compare(name)]


def compare(name: str) -> list[Record]:
    """Measure a case beside its peers."""
    case, title = CRITICS[name], f"{name}, {cores()}"
    count, work = case.updates(REUSE), ours.flop(case)
    calls: dict[str, Call] = {"smrl": ours.learning(case, REUSE), "peak": ours.multiplication()}
    with peers({who: maker(who, model, case) for who, model in PEERS.get(name, {}).items()}) as others:
        times = interleaved(calls | others, limit=15)
    peaks, mine = times.pop("peak"), times["smrl"]
    shares = [count * work / seconds / ours.peak(best) for seconds, best in zip(mine, peaks, strict=True)]
    records = [Record(f"{title}: GFLOP per update", work / 1e9, "")]
    records += [median_of(f"{title}: {who}", [1e3 * value / count for value in times[who]], "ms") for who in times]
    records.append(median_of(f"{title}: fraction of peak", shares, "", SHARES.get((name, cores()))))
    return records + [ratio(times[who], mine, f"{title}: times as fast as {who}") for who in list(times)[1:]]


def maker(who: str, model: str, case: Case) -> tuple[Any, ...]:
    """Return the maker of a peer that makes as many updates."""
    if who == "RLtools":
        return ("rltools_loop", "training", model, case.batch, REUSE * case.steps)
    return ("libraries", "training", "sbx", model, case.spec, {}, case.steps, case.batch, REUSE)
