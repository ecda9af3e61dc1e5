# SPDX-License-Identifier: Apache-2.0
"""How the processes of a launch find each other: through variables of their environment."""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from types import TracebackType

import jax

ADDRESS_VARIABLE = "TFJAX_BATCHES_COORDINATOR_ADDRESS"
COUNT_VARIABLE = "TFJAX_BATCHES_PROCESS_COUNT"
INDEX_VARIABLE = "TFJAX_BATCHES_PROCESS_INDEX"


def environment(base: Mapping[str, str], processes: int, devices: int) -> dict[str, str]:
    """Return the environment of all processes of a launch, each with `devices` CPU devices."""
    return {
        # The preemption service catches SIGTERM, and the process would live on until SIGKILL.
        "JAX_ENABLE_PREEMPTION_SERVICE": "false",
        **base,
        "JAX_NUM_CPU_DEVICES": str(devices),
        "JAX_PLATFORMS": "cpu",
        "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo",
        # gRPC would use a proxy even for 127.0.0.1, and then wait for ever.
        "no_grpc_proxy": "127.0.0.1",
        "PYTHONUNBUFFERED": "1",
        ADDRESS_VARIABLE: f"127.0.0.1:{_free_port()}",
        COUNT_VARIABLE: str(processes),
    }


def _free_port() -> int:
    """Return a TCP port of 127.0.0.1 that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def initialize() -> bool:
    """Join the other processes of the launch that started this one.

    Call it before JAX is used. From then on an uncaught exception, or the end of the launcher,
    ends this process within two seconds. `sys.exit(1)` in one process alone waits minutes in JAX's
    barrier at exit, for processes that wait for this one; raise instead.

    Returns:
        True if this process belongs to a launch; if not, nothing is done.
    """
    if (address := os.environ.get(ADDRESS_VARIABLE)) is None:
        return False
    if jax.distributed.is_initialized():
        return True
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    sys.excepthook = _report_and_exit
    # JAX warns of any proxy variable; the environment of a launch already avoids the problem.
    jax.config.update("jax_check_proxy_envs", False)
    jax.distributed.initialize(
        coordinator_address=address,
        num_processes=int(os.environ[COUNT_VARIABLE]),
        process_id=int(os.environ[INDEX_VARIABLE]),
        # JAX's default listens on every network interface.
        coordinator_bind_address=address,
        # Everything is known; a Slurm job around the launcher must not change it.
        cluster_detection_method="deactivate",
    )
    return True


def _end_with(parent_pid: int) -> None:
    """Kill this process and what it started once its parent, the launcher, is gone."""
    while os.getppid() == parent_pid:
        time.sleep(1)
    os.killpg(0, signal.SIGKILL)  # a child of the launcher leads this group


def _report_and_exit(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    """Print the traceback, then leave without the exit handlers of JAX, which wait for the others.

    The others fail as soon as this process is gone, and wait a second as well: so the launcher
    sees first who caused it.
    """
    sys.__excepthook__(kind, error, traceback)
    sys.stdout.flush()
    sys.stderr.flush()
    time.sleep(1.0)
    os._exit(1)
