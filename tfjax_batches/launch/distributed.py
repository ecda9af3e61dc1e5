# SPDX-License-Identifier: Apache-2.0
"""How the processes of a launch find each other: through variables of their environment."""

import functools
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType

import jax

ADDRESS_VARIABLE = "TFJAX_BATCHES_COORDINATOR_ADDRESS"
COUNT_VARIABLE = "TFJAX_BATCHES_PROCESS_COUNT"
INDEX_VARIABLE = "TFJAX_BATCHES_PROCESS_INDEX"
LAUNCHER_VARIABLE = "TFJAX_BATCHES_LAUNCHER_PID"

# From the report of an uncaught exception to the exit, see `_exit_after`.
_EXIT_DELAY_SECONDS = 1.0
_DEVICE_COUNT_FLAG = "--xla_force_host_platform_device_count"


def environment(
    base: Mapping[str, str], processes: int, devices_per_process: int
) -> dict[str, str]:
    """Return the environment of all processes of a launch.

    Args:
        base: Variables to start from.
        processes: Number of processes.
        devices_per_process: CPU devices that each process shows to JAX.
    """
    env = dict(base)
    flags = re.sub(rf"{_DEVICE_COUNT_FLAG}(=\S*)?(\s+|$)", "", env.get("XLA_FLAGS", ""))
    env["XLA_FLAGS"] = f"{flags.strip()} {_DEVICE_COUNT_FLAG}={devices_per_process}".strip()
    env.pop("JAX_NUM_CPU_DEVICES", None)  # would win over that flag
    env["JAX_PLATFORMS"] = "cpu"
    env["JAX_CPU_COLLECTIVES_IMPLEMENTATION"] = "gloo"
    # The preemption service catches SIGTERM, and the process would live on until SIGKILL.
    env.setdefault("JAX_ENABLE_PREEMPTION_SERVICE", "false")
    # gRPC would use a proxy even for 127.0.0.1, and then wait for ever.
    no_proxy = env.get("no_grpc_proxy", env.get("no_proxy", ""))
    env["no_grpc_proxy"] = f"{no_proxy},127.0.0.1".lstrip(",")
    env["PYTHONUNBUFFERED"] = "1"
    env[ADDRESS_VARIABLE] = f"127.0.0.1:{_free_port()}"
    env[COUNT_VARIABLE] = str(processes)
    env[LAUNCHER_VARIABLE] = str(os.getpid())
    return env


def _free_port() -> int:
    """Return a TCP port of 127.0.0.1 that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def initialize() -> bool:
    """Join the other processes of the launch that started this one.

    Call it before JAX is used. From then on an uncaught exception ends this process within two
    seconds. It skips JAX's barrier at exit, which waits minutes for processes that in turn wait for
    this one; `sys.exit(1)` in one process alone does wait there, so raise instead. When the
    launcher is killed, this process ends within two seconds too.

    Returns:
        True if this process belongs to a launch; if not, nothing is done.

    Example::

        tjb.launch.initialize()
        loader = tjb.build("mnist", global_batch_size=256)
    """
    if (address := os.environ.get(ADDRESS_VARIABLE)) is None:
        return False
    if jax.distributed.is_initialized():
        return True
    launcher_pid = int(os.environ[LAUNCHER_VARIABLE])
    # The parent may also be a wrapper such as `bash -c`, which says nothing about the launcher.
    if os.getppid() == launcher_pid:
        threading.Thread(target=_end_with, args=(launcher_pid,), daemon=True).start()
    sys.excepthook = functools.partial(_exit_after, sys.excepthook)
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


def _end_with(launcher_pid: int) -> None:
    """Kill this process and what it started once the launcher, its parent, is gone."""
    while os.getppid() == launcher_pid:
        time.sleep(1)
    os.killpg(0, signal.SIGKILL)  # a child of the launcher leads this group


def _exit_after(
    hook: Callable[[type[BaseException], BaseException, TracebackType | None], object],
    kind: type[BaseException],
    error: BaseException,
    traceback: TracebackType | None,
) -> None:
    """Report an uncaught exception as before, then leave without running exit handlers.

    As soon as this process is gone, the others fail too, because they lose the connection. They
    wait a second as well before they leave, so that the launcher sees first who caused it.
    """
    hook(kind, error, traceback)
    sys.stdout.flush()
    sys.stderr.flush()
    time.sleep(_EXIT_DELAY_SECONDS)
    os._exit(1)
