# SPDX-License-Identifier: Apache-2.0
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from tfjax_batches.errors import BatchesError, ConfigError
from tfjax_batches.launch import child_process, distributed
from tfjax_batches.launch.distributed import initialize
from tfjax_batches.launch.launcher import launch, main

pytestmark = pytest.mark.multiprocess

# Far above what anything here takes on a busy machine, far below what a hang takes.
LIMIT_SECONDS = 120

# The programs that are started find the package even where it is not installed.
ROOT = pathlib.Path(__file__).parents[2]
ENV = {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}

SUM_OVER_ALL_DEVICES = """
import json, os
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from tfjax_batches.launch import initialize

assert initialize() and initialize()
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
    "flags": os.environ["XLA_FLAGS"],
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

# What a program ignores its children ignore too.
FAIL_IN_ONE_IGNORING_SIGTERM = """
import os, signal, subprocess, sys, time
from tfjax_batches.launch.distributed import INDEX_VARIABLE

signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("up", os.getpid(), child.pid)
time.sleep(1 if os.environ[INDEX_VARIABLE] == "1" else 600)
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


def python(program):
    return [sys.executable, "-c", program]


def run(program, processes=2, **kwargs):
    """Launch a program; what the test doesn't expect shows with the logs of all processes."""
    kwargs = {"timeout_seconds": LIMIT_SECONDS, "env": ENV, **kwargs}
    return launch(python(program), processes=processes, **kwargs)


def pids_in(text):
    return [int(pid) for line in re.findall(r"up ([\d ]+)", text) for pid in line.split()]


def is_running(pid):
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    # A zombie has ended; an orphan stays one where no init reaps it, as in some containers.
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def assert_all_end(pids):
    deadline = time.monotonic() + LIMIT_SECONDS
    while running := [pid for pid in pids if is_running(pid)]:
        if time.monotonic() >= deadline:
            for pid in running:
                os.kill(pid, signal.SIGKILL)
            pytest.fail(f"had to be killed by the test: {running}")
        time.sleep(0.05)


@pytest.fixture
def launcher():
    """Starts a launcher on its command line, and reads the pids that its processes print."""
    started = []
    # A program inherits the signals that are ignored, which they are where the tests run in
    # the background of a shell or under nohup.
    signals = (signal.SIGINT, signal.SIGHUP)
    before = {signum: signal.signal(signum, signal.default_int_handler) for signum in signals}

    def start(program, processes):
        command = [sys.executable, "-m", "tfjax_batches.launch", "--processes", str(processes)]
        process = subprocess.Popen(
            [*command, "--", *python(program)],
            # An empty value is none: stdout buffered, as it is for most.
            env={**os.environ, **ENV, "PYTHONUNBUFFERED": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        pids = []
        started.append((process, pids))
        lines = []
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
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=10)
        process.kill()
        for pid in pids:
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)


def test_two_processes_with_two_devices_share_one_mesh(capfd):
    env = {
        **ENV,
        "XLA_FLAGS": "--xla_force_host_platform_device_count=7 --xla_cpu_enable_fast_math=false",
        "JAX_NUM_CPU_DEVICES": "5",
        "http_proxy": "http://127.0.0.1:9",
    }
    result = run(SUM_OVER_ALL_DEVICES, devices_per_process=2, env=env)
    shown = capfd.readouterr().out
    assert result.returncode == 0, result
    assert (result.failed_process, result.timed_out) == (None, False)
    for index, output in enumerate(result.outputs):
        (line,) = [line for line in output.splitlines() if line.startswith("{")]
        assert json.loads(line) == {
            "process": [index, 2],
            "devices": [2, 4],
            "platform": "cpu",
            "collectives": "gloo",
            "sum": 10.0,
            "flags": "--xla_cpu_enable_fast_math=false --xla_force_host_platform_device_count=2",
        }
        assert f"[{index}] {line}\n" in shown


# Process 0 is the odd case: it runs the coordinator, and without it the others abort.
@pytest.mark.parametrize("failing", [0, 1])
def test_process_that_raises_ends_those_that_wait_for_it(failing, capfd):
    result = run(RAISE_IN_ONE, env={**ENV, "FAILING": str(failing)})
    assert (result.returncode, result.failed_process) == (1, failing), result
    assert not result.timed_out
    assert "ValueError: what went wrong" in result.outputs[failing]
    last_line = capfd.readouterr().err.splitlines()[-1]
    assert last_line == f"launch: process {failing} of 2 failed with exit code 1."


def test_failed_process_ends_all_even_those_that_ignore_sigterm():
    result = run(FAIL_IN_ONE_IGNORING_SIGTERM, echo=False)
    assert (result.returncode, result.failed_process) == (7, 1), result
    pids = pids_in("".join(result.outputs))
    assert pids
    assert_all_end(pids)


def test_killed_process_gives_128_plus_signal(capfd):
    result = run("import os; os.kill(os.getpid(), 9)", processes=1)
    assert (result.returncode, result.failed_process) == (137, 0), result
    assert "process 0 of 1 failed with signal 9 (Killed)." in capfd.readouterr().err


def test_time_limit_ends_all_and_keeps_their_output(capfd):
    result = run(SLEEP_WITH_A_CHILD, timeout_seconds=5)
    assert (result.returncode, result.timed_out, result.failed_process) == (124, True, None)
    assert "launch: not done after 5 s: process 0, 1." in capfd.readouterr().err
    pids = pids_in("".join(result.outputs))
    assert len(pids) == 4
    assert_all_end(pids)


def test_process_left_behind_by_a_good_one_is_asked_to_end():
    result = run(LEAVE_A_CHILD_BEHIND, processes=1)
    assert result.returncode == 0, result
    assert "asked to end" in result.outputs[0]
    assert_all_end(pids_in(result.outputs[0]))


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_to_the_launcher_leaves_no_process(launcher, signum):
    process, pids = launcher(SLEEP_WITH_A_CHILD, processes=2)
    assert len(pids) == 4
    process.send_signal(signum)
    _, errors = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == -signum
    assert "Traceback" not in errors
    assert_all_end(pids)


def test_killed_launcher_takes_its_processes_along(launcher):
    process, pids = launcher(INITIALIZE_AND_SLEEP, processes=2)
    process.kill()
    assert_all_end(pids)


def test_reader_that_goes_away_ends_the_launch(launcher):
    process, pids = launcher(
        "import os, time\n"
        "print('up', os.getpid(), flush=True)\n"
        "while True: print('more', flush=True); time.sleep(0.01)",
        processes=2,
    )
    process.stdout.close()
    process.stdout = None
    _, errors = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == 128 + signal.SIGPIPE
    assert errors == "launch: interrupted.\n"
    assert_all_end(pids)


def test_lines_are_prefixed_and_never_mixed(capfd):
    # Written a byte at a time, to stdout and stderr in turn, by both processes at once.
    result = run(
        "import os\n"
        "for i in range(50):\n"
        "    for byte in b'line %d\\n' % i: os.write(1 + i % 2, bytes([byte]))\n"
        "os.write(1, b'bad \\xff byte\\r\\n 10%\\r 20%\\r 30%\\n' + b'no end')\n"
    )
    shown = capfd.readouterr().out.splitlines()
    expected = [*(f"line {i}" for i in range(50)), "bad � byte", " 30%", "no end"]
    for index, output in enumerate(result.outputs):
        lines = [line for line in shown if line.startswith(f"[{index}]")]
        assert lines == [f"[{index}] {line}" for line in expected]
        assert output.endswith("line 49\nbad � byte\r\n 10%\r 20%\r 30%\nno end")


def test_progress_bar_is_shown_now_and_then_and_at_its_end(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(child_process.time, "monotonic", lambda: now[0])
    output = child_process.Output("[3] ")
    assert output.feed(b"\r 10%") == ""
    assert output.feed(b"\r 20%") == "[3]  10%\n"
    assert output.feed(b"\r 30%") == ""
    now[0] += child_process.REDRAW_SECONDS
    assert output.feed(b"\r 40%") == "[3]  30%\n"
    assert output.feed(b"\r100%\r") == ""
    assert output.feed(b"\nnext") == "[3] 100%\n"
    assert output.flush() == "[3] next\n"
    assert output.flush() == ""


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"processes": 0}, ["at least one process", "processes=0", "Pass processes=1"]),
        (
            {"devices_per_process": 0},
            ["one device in each", "devices_per_process=0", "Pass devices_per_process=1"],
        ),
        ({"command": []}, ["a program and its arguments", "command=[]", "`-- python train.py`"]),
        ({"command": "python x.py"}, ["one string each", "'python x.py'", "Pass command=["]),
        (
            {"timeout_seconds": 0},
            ["limit must be positive", "timeout_seconds=0", "leave timeout_seconds out"],
        ),
    ],
)
def test_bad_arguments_are_refused_by_name(kwargs, words):
    with pytest.raises(ConfigError) as raised:
        launch(**{"command": ["true"], "processes": 1, **kwargs})
    assert isinstance(raised.value, BatchesError)
    for word in words:
        assert word in str(raised.value)


def test_command_line_prints_errors_without_traceback(capfd):
    assert main(["--processes", "0", "--", "true"]) == 2
    assert capfd.readouterr().err.startswith("launch: A launch needs at least one process")
    with pytest.raises(SystemExit, match="2"):
        main(["--processes", "2"])
    assert "comes after --, as in: --processes 4 -- python" in capfd.readouterr().err
    assert main(["--processes", "2", "--", "no-such-program", "--help"]) == 127
    assert capfd.readouterr().err == (
        "launch: process 0 cannot be started: No such file or directory: 'no-such-program'.\n"
    )
    assert main(["--processes", "2", "--", str(ROOT)]) == 126


def test_command_line_help_has_an_example(capfd):
    with pytest.raises(SystemExit) as raised:
        main(["--help"])
    assert raised.value.code == 0
    assert "--processes 4 -- python scripts/train.py" in capfd.readouterr().out


def test_initialize_outside_a_launch_does_nothing(monkeypatch):
    monkeypatch.delenv(distributed.ADDRESS_VARIABLE, raising=False)
    hook = sys.excepthook
    assert initialize() is False
    assert sys.excepthook is hook
