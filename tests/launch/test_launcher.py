# SPDX-License-Identifier: Apache-2.0
"""However a launch ends, it says how, and leaves no process behind."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tfjax_batches as tjb
from tfjax_batches.launch import LaunchResult, initialize, launch, launcher, main
from tfjax_batches.launch.distributed import ADDRESS_VARIABLE, INDEX_VARIABLE

pytestmark = pytest.mark.multiprocess

# Far above what anything here takes on a busy machine, far below what a hang takes.
LIMIT_SECONDS = 120

# The programs that are started find the package even where it is not installed.
ROOT = Path(__file__).parents[2]
ENV = {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}

Start = Callable[[str, int], tuple[subprocess.Popen[str], list[int]]]

SUM_OVER_ALL_DEVICES = """
import json
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
import tfjax_batches as tjb

assert tjb.launch.initialize() and tjb.launch.initialize()
mesh = Mesh(np.array(jax.devices()), ("data",))
values = np.arange(1, jax.device_count() + 1, dtype=np.float32)
sharding = NamedSharding(mesh, PartitionSpec("data"))
array = jax.make_array_from_callback(values.shape, sharding, lambda index: values[index])
psum = jax.shard_map(
    lambda x: jax.lax.psum(x, "data"), mesh=mesh, in_specs=PartitionSpec("data"),
    out_specs=PartitionSpec(),
)
print(json.dumps({
    "process": [jax.process_index(), jax.process_count()],
    "devices": [jax.local_device_count(), jax.device_count()],
    "platform": jax.default_backend(),
    "collectives": jax.config.jax_cpu_collectives_implementation,
    "sum": float(jax.jit(psum)(array)[0]),
}))
"""

# One process raises while the other waits for it; at exit JAX would make the first wait as well.
RAISE_IN_ONE = """
import os
import jax
from jax.experimental import multihost_utils
from tfjax_batches.launch import initialize

initialize()
multihost_utils.sync_global_devices("start")
if jax.process_index() == int(os.environ["FAILING"]):
    raise ValueError("what went wrong")
multihost_utils.sync_global_devices("never")
"""

# Each process starts one of its own, as a data loader may.
SLEEP_WITH_A_CHILD = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("up", os.getpid(), child.pid, flush=True)
time.sleep(600)
"""

# The children of a program ignore what it ignores.
FAIL_IN_ONE_IGNORING_SIGTERM = f"""
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("up", os.getpid(), child.pid)
time.sleep(1 if os.environ["{INDEX_VARIABLE}"] == "1" else 600)
sys.exit(7)
"""

LEAVE_A_CHILD_BEHIND = """
import subprocess, sys
program = '''
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit("asked to end"))
print("ready", flush=True)
time.sleep(600)
'''
child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
child.stdout.readline()
print("up", child.pid)
"""

INITIALIZE_AND_SLEEP = """
import os, time
from tfjax_batches.launch import initialize
initialize()
print("up", os.getpid(), flush=True)
time.sleep(600)
"""

PRINT_FOR_EVER = """
import os, time
print("up", os.getpid(), flush=True)
while True:
    print("more", flush=True)
    time.sleep(0.01)
"""

# Written a byte at a time, to stdout and stderr in turn, by both processes at once.
PRINT_LINES = """
import os
for i in range(50):
    for byte in b"line %d\\n" % i:
        os.write(1 + i % 2, bytes([byte]))
os.write(1, b"bad \\xff byte\\r\\n 10%\\r 20%\\r 30%\\n" + b"no end")
"""


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def run(program: str, processes: int = 2, **options: object) -> LaunchResult:
    """Launch a program with a time limit."""
    options = {"timeout_seconds": LIMIT_SECONDS, "env": ENV, **options}
    return launch(python(program), processes=processes, **options)  # type: ignore[arg-type]


def pids_in(text: str) -> list[int]:
    return [int(pid) for line in re.findall(r"up ([\d ]+)", text) for pid in line.split()]


def is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    # A zombie has ended; an orphan stays one where no init reaps it, as in some containers.
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def assert_all_end(pids: list[int]) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while running := [pid for pid in pids if is_running(pid)]:
        if time.monotonic() >= deadline:
            for pid in running:
                os.kill(pid, signal.SIGKILL)
            pytest.fail(f"had to be killed by the test: {running}")
        time.sleep(0.05)


@pytest.fixture
def start_launcher() -> Iterator[Start]:
    """Start a launcher on its command line, and read the pids that its processes print."""
    started: list[tuple[subprocess.Popen[str], list[int]]] = []
    # A program inherits ignored signals: those of the tests are, in the background of a shell or
    # under nohup.
    signals = (signal.SIGINT, signal.SIGHUP)
    before = {signum: signal.signal(signum, signal.default_int_handler) for signum in signals}

    def start(program: str, processes: int) -> tuple[subprocess.Popen[str], list[int]]:
        command = [sys.executable, "-m", "tfjax_batches.launch", "--processes", str(processes)]
        process = subprocess.Popen(
            [*command, "--", *python(program)],
            # Empty: stdout is buffered, as it usually is.
            env={**os.environ, **ENV, "PYTHONUNBUFFERED": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        pids: list[int] = []
        started.append((process, pids))
        lines: list[str] = []
        while "".join(lines).count("up ") < processes:
            lines.append(process.stdout.readline())
            assert lines[-1], f"the launcher ended: {lines} {process.stderr.read()}"
        pids += pids_in("".join(lines))
        return process, pids

    yield start
    for signum, handler in before.items():
        signal.signal(signum, handler)
    for process, pids in started:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired, ValueError):
            process.communicate(timeout=10)
        process.kill()
        for pid in pids:
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)


def test_launch_two_processes_with_two_devices_share_one_mesh(
    capfd: pytest.CaptureFixture[str],
) -> None:
    env = {
        **ENV,
        "XLA_FLAGS": "--xla_force_host_platform_device_count=7",
        "JAX_NUM_CPU_DEVICES": "5",
        "http_proxy": "http://127.0.0.1:9",
    }
    result = run(SUM_OVER_ALL_DEVICES, devices_per_process=2, env=env)
    shown = capfd.readouterr().out
    assert result.returncode == 0, result
    assert result.reason == ""
    for index, output in enumerate(result.outputs):
        (line,) = [line for line in output.splitlines() if line.startswith("{")]
        assert json.loads(line) == {
            "process": [index, 2],
            "devices": [2, 4],
            "platform": "cpu",
            "collectives": "gloo",
            "sum": 10.0,
        }
        assert f"[{index}] {line}\n" in shown
        assert "proxy" not in output  # JAX warns of it by default


# Process 0 is the odd case: it runs the coordinator, and without it the others abort.
@pytest.mark.parametrize("failing", [0, 1])
def test_launch_process_that_raises_ends_those_that_wait_for_it(
    failing: int, capfd: pytest.CaptureFixture[str]
) -> None:
    result = run(RAISE_IN_ONE, env={**ENV, "FAILING": str(failing)})
    assert result.returncode == 1, result
    assert result.reason == f"process {failing} of 2 failed with exit code 1."
    assert "ValueError: what went wrong" in result.outputs[failing]
    assert capfd.readouterr().err.splitlines()[-1] == f"launch: {result.reason}"


def test_launch_failed_process_ends_all_even_those_that_ignore_sigterm() -> None:
    result = run(FAIL_IN_ONE_IGNORING_SIGTERM, echo=False)
    assert result.returncode == 7, result
    assert "process 1 of 2" in result.reason
    pids = pids_in("".join(result.outputs))
    assert len(pids) == 4
    assert_all_end(pids)


def test_launch_killed_process_gives_128_plus_signal() -> None:
    result = run("import os; os.kill(os.getpid(), 9)", processes=1)
    assert result.returncode == 137, result
    assert "process 0 of 1 failed with signal 9 (Killed)." in result.reason


def test_launch_time_limit_ends_all_and_keeps_their_output() -> None:
    result = run(SLEEP_WITH_A_CHILD, timeout_seconds=5)
    assert result.returncode == 124, result
    assert "not done after 5 s: process 0, 1." in result.reason
    pids = pids_in("".join(result.outputs))
    assert len(pids) == 4
    assert_all_end(pids)


def test_launch_process_left_behind_by_a_good_one_is_asked_to_end() -> None:
    result = run(LEAVE_A_CHILD_BEHIND, processes=1)
    assert result.returncode == 0, result
    assert "asked to end" in result.outputs[0]
    assert_all_end(pids_in(result.outputs[0]))


@pytest.mark.parametrize(
    ("signum", "returncode"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
)
def test_launcher_that_gets_a_signal_leaves_no_process(
    start_launcher: Start, signum: signal.Signals, returncode: int
) -> None:
    process, pids = start_launcher(SLEEP_WITH_A_CHILD, 2)
    assert len(pids) == 4
    process.send_signal(signum)
    _, errors = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == returncode
    assert "Traceback" not in errors
    assert_all_end(pids)


def test_launcher_that_is_killed_takes_its_processes_along(start_launcher: Start) -> None:
    process, pids = start_launcher(INITIALIZE_AND_SLEEP, 2)
    process.kill()
    assert_all_end(pids)


def test_launcher_without_a_reader_of_its_output_ends(start_launcher: Start) -> None:
    process, pids = start_launcher(PRINT_FOR_EVER, 2)
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(LIMIT_SECONDS) != 0
    assert_all_end(pids)


def test_launch_lines_are_prefixed_and_never_mixed(capfd: pytest.CaptureFixture[str]) -> None:
    result = run(PRINT_LINES)
    shown = capfd.readouterr().out.splitlines()
    expected = [*(f"line {i}" for i in range(50)), "bad � byte", " 10%", " 20%", " 30%", "no end"]
    for index, output in enumerate(result.outputs):
        lines = [line for line in shown if line.startswith(f"[{index}]")]
        assert lines == [f"[{index}] {line}" for line in expected]
        assert output == "\n".join(expected)


def test_launch_keeps_the_last_lines_of_a_run_that_prints_for_days(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(launcher, "_KEPT_LINES", 2)
    result = run("for i in range(5): print(i)", processes=1, echo=False)
    assert result.outputs == ("3\n4\n",)


def test_launch_without_processes_is_refused() -> None:
    with pytest.raises(tjb.ConfigError, match=r"a process or more.* processes=0.* processes=1"):
        launch(["true"], processes=0)


def test_main_prints_errors_without_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--processes", "0", "--", "true"]) == 2
    assert re.match(r"launch: .* processes=0", capfd.readouterr().err)
    with pytest.raises(SystemExit, match="2"):
        main(["--processes", "2"])
    assert "-- COMMAND" in capfd.readouterr().err
    assert main(["--processes", "2", "--", "no-such-program", "--help"]) == 2
    assert re.match(r"launch: .*'no-such-program'", capfd.readouterr().err)
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    assert "python scripts/train.py" in capfd.readouterr().out


def test_initialize_outside_a_launch_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ADDRESS_VARIABLE, raising=False)
    hook = sys.excepthook
    assert initialize() is False
    assert sys.excepthook is hook
