"""The processors of this machine as JAX devices: one host device a core, one thread each.

Clients are independent, so a core per client keeps every core busy without the cost of splitting each small
matrix product. The flags count only before JAX starts, hence `prepare` runs when gradveil is imported;
`GRADVEIL_DEVICES=off` leaves JAX as it is and `GRADVEIL_DEVICES=n` asks for n devices.
"""

import os

from gradveil.errors import BadInput

_COUNT_FLAG = "--xla_force_host_platform_device_count"
# Neither matrix products nor loops are split among threads: with a client on every core there is none to spare.
_ONE_THREAD = "--xla_cpu_multi_thread_eigen=false --xla_disable_hlo_passes=cpu-parallel-task-assigner"
# XLA uses 256 bits by default also where a processor has 512, with which noise takes two thirds of the time.
_WIDE = "--xla_cpu_prefer_vector_width=512"
# XLA starts a thread a core whatever the devices, and those without work look for it: a quarter of the processor's time
# where one device runs on two cores.
_THREADS = "PJRT_NPROC"


def prepare() -> None:
    """Ask XLA for one single-threaded host device a core, unless the user decided otherwise."""
    wish, flags = os.environ.get("GRADVEIL_DEVICES", ""), os.environ.get("XLA_FLAGS", "")
    if wish == "off" or _COUNT_FLAG in flags:
        return
    count = _count(wish)
    os.environ["XLA_FLAGS"] = f"{flags} {_COUNT_FLAG}={count} {_ONE_THREAD} {_WIDE}".strip()
    os.environ.setdefault(_THREADS, str(count))


def _count(wish: str) -> int:
    if not wish:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not wish.isdigit() or not 1 <= int(wish) <= 512:
        raise BadInput(f"GRADVEIL_DEVICES = {wish!r}: must be a whole number from 1 to 512, or off")
    return int(wish)
