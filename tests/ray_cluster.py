"""A Ray cluster of two nodes with one core each, on 127.0.0.1: `python ray_cluster.py` prints its address.

The line "node" on standard input kills the second node with all its processes, the line "worker" only Ray's
worker, which has started the process of a run; the end of the input ends the cluster.
"""

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

from ray.cluster_utils import Cluster

NODE: dict[str, Any] = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "include_dashboard": False}


def descendants(parent: int) -> list[int]:
    """The processes that a process has started, and those that they have started."""
    with contextlib.suppress(FileNotFoundError):
        children = map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split())
        return [pid for child in children for pid in (child, *descendants(child))]
    return []


def is_worker(pid: int) -> bool:
    """Whether a process is one in which Ray carries out a task."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().startswith("ray::train_on_node")
    return False


if __name__ == "__main__":
    cluster = Cluster(initialize_head=True, head_node_args=NODE)
    before = set(descendants(os.getpid()))
    cluster.add_node(**NODE)
    second = [pid for pid in descendants(os.getpid()) if pid not in before]
    cluster.wait_for_nodes()
    print(cluster.address, flush=True)
    for line in sys.stdin:
        all_pids = [*second, *(pid for one in second for pid in descendants(one))]
        for pid in all_pids if line.strip() == "node" else filter(is_worker, all_pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    cluster.shutdown()  # type: ignore[no-untyped-call]
