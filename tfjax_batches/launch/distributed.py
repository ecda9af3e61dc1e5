# SPDX-License-Identifier: Apache-2.0
"""How the processes of a launch find each other: by what the launcher puts in their environment."""

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

# Between the report of an uncaught exception and the exit, see `_exit_after`.
EXIT_DELAY_SECONDS = 1.0
# The exit code of what a signal ended, as the shell has it, is that much more than the signal.
SIGNAL_BASE = 128

_DEVICE_COUNT_FLAG = "--xla_force_host_platform_device_count"


def environment(
    base: Mapping[str, str], processes: int, devices_per_process: int
) -> dict[str, str]:
    """Return what all processes of a launch have in their environment."""
    env = dict(base)
    flags = re.sub(rf"{_DEVICE_COUNT_FLAG}(=\S*)?(\s+|$)", "", env.get("XLA_FLAGS", ""))
    env["XLA_FLAGS"] = f"{flags.strip()} {_DEVICE_COUNT_FLAG}={devices_per_process}".strip()
    env.pop("JAX_NUM_CPU_DEVICES", None)  # would win over that flag
    env["JAX_PLATFORMS"] = "cpu"
    env["JAX_CPU_COLLECTIVES_IMPLEMENTATION"] = "gloo"
    # That service catches SIGTERM, and the process would then live on until SIGKILL.
    env.setdefault("JAX_ENABLE_PREEMPTION_SERVICE", "false")
    # gRPC takes a proxy even to 127.0.0.1 and then waits for ever, of which JAX warns.
    no_proxy = env.get("no_grpc_proxy", env.get("no_proxy", ""))
    env["no_grpc_proxy"] = f"{no_proxy},127.0.0.1".lstrip(",")
    env.setdefault("JAX_CHECK_PROXY_ENVS", "false")
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

    To be called before JAX is used. From then on an exception that nothing catches ends this
    process within a second, without the exit barrier of JAX, which waits minutes for processes
    that in turn wait for this one. (`sys.exit(1)` in one process alone does wait there: raise
    instead.) When the launcher itself is killed, this process follows within a second or so.

    Returns:
        True if this process belongs to a launch; False, and nothing is done, if not.
    """
    if (address := os.environ.get(ADDRESS_VARIABLE)) is None:
        return False
    if jax.distributed.is_initialized():
        return True
    launcher_pid = int(os.environ[LAUNCHER_VARIABLE])
    # The parent may be a wrapper (`bash -c`) instead, whose life tells nothing.
    if os.getppid() == launcher_pid:
        threading.Thread(target=_end_with, args=(launcher_pid,), daemon=True).start()
    sys.excepthook = functools.partial(_exit_after, sys.excepthook)
    jax.distributed.initialize(
        coordinator_address=address,
        num_processes=int(os.environ[COUNT_VARIABLE]),
        process_id=int(os.environ[INDEX_VARIABLE]),
        # JAX's own default listens on every network interface.
        coordinator_bind_address=address,
        # All is known; a Slurm job around the launcher must not add to it.
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

    The others fail as soon as this process is gone, with errors about a lost connection. As
    they too wait before they leave, the launcher sees first which process was the cause.
    """
    try:
        hook(kind, error, traceback)
        sys.stdout.flush()
        sys.stderr.flush()
        time.sleep(EXIT_DELAY_SECONDS)
    finally:
        os._exit(SIGNAL_BASE + signal.SIGINT if issubclass(kind, KeyboardInterrupt) else 1)
