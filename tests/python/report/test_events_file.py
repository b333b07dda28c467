"""`--events FILE`: every event as a line of JSON, as it comes; what is written at exit is written at SIGTERM."""

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path

import jsonschema
import pytest
from conftest import PYTHON, ROOT, clean_environment

SCHEMA = json.loads((ROOT / "docs/operations/events.schema.json").read_text())
RUN_SCHEMA = json.loads((ROOT / "docs/operations/run.schema.json").read_text())

STEP = """
import torch, tracehost

@tracehost.function
def step(x):
    return x * 2
"""


def written(path: Path) -> list[dict]:
    """The lines, each checked against the schema."""
    check = jsonschema.Draft202012Validator(SCHEMA)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        check.validate(line)
    return lines


def kinds(lines: list[dict]) -> list[str]:
    return [line["event"] for line in lines]


def test_lines_of_a_run(run_host, tmp_path):
    (tmp_path / "net.py").write_text(
        STEP + "step(torch.ones(2))\nstep(torch.ones(3))\nstep(torch.ones(3))\n"
    )
    done = run_host("--events", "run.jsonl", "net.py", "a", env={"TRACEHOST_OPTIMIZE": "off"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    start, first, second, last = written(tmp_path / "run.jsonl")
    assert start["program"] == ["net.py", "a"]
    assert first["definition"] == {"file": str(tmp_path / "net.py"), "line": 4, "text": "net.py:4"}
    assert (first["call"]["line"], first["causes"]) == (7, [])
    assert second["causes"] == ["argument 'x', dimension 0, was 2, is 3"]
    (row,) = last["functions"]
    assert row["function"] == "step (net.py:4)" and row["qualified"] == "__main__.step"
    assert [row[name] for name in ("calls", "hits", "traces", "retraces")] == [3, 1, 2, 1]
    assert first["time"] <= second["time"] <= last["time"]


def test_each_kind_of_event(run_host, tmp_path):
    (tmp_path / "net.py").write_text(
        STEP
        + """
import warnings
warnings.simplefilter("ignore")
small = tracehost.function(lambda x: x + 1, limit=1)
for n in range(1, 8):
    step(torch.ones(n))
for n in (1, 2):
    small(torch.ones(n))

@tracehost.function
def broken(x):
    raise ValueError("no")
try:
    broken(torch.ones(1))
except ValueError:
    pass

@tracehost.function(input_signature=[tracehost.TensorSpec([None])])
def declared(x):
    return x.sum() + x
declared.get_concrete_function()
for _ in range(6):
    step(torch.ones(1))
"""
    )
    done = run_host("--events=run.jsonl", "net.py")
    assert done.returncode == 0, done.stderr
    lines = written(tmp_path / "run.jsonl")
    assert {"start", "trace", "warn", "evict", "fail", "tape", "functions"} <= set(kinds(lines))
    assert [line["text"] for line in lines if line["event"] == "fail"] == ["ValueError: no"]
    assert [line["requested"] for line in lines if line.get("function") == "declared"] == [True]


def test_lines_are_whole_after_a_kill_and_of_eight_threads(run_host, tmp_path):
    (tmp_path / "net.py").write_text(
        STEP.replace("@tracehost.function\n", "@tracehost.function(limit=1000)\n")
        + """
import os, threading, warnings
warnings.simplefilter("ignore")
def work(k):
    for n in range(25):
        step(torch.ones(1 + n, 1 + k))
threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
[t.start() for t in threads], [t.join() for t in threads]
os.kill(os.getpid(), 9)
"""
    )
    done = run_host("--events", "run.jsonl", "net.py")
    assert done.returncode == -signal.SIGKILL
    lines = written(tmp_path / "run.jsonl")
    signatures = [line["signature"] for line in lines if line["event"] == "trace"]
    assert sorted(signatures) == sorted(
        f"(x: float32[{n}, {k}])" for n in range(1, 26) for k in range(1, 9)
    )
    assert kinds(lines)[0] == "start" and "functions" not in kinds(lines)


def test_children_have_files_of_their_own(run_host, tmp_path):
    (tmp_path / "net.py").write_text(
        STEP
        + """
import os, subprocess, sys
step(torch.ones(1))
if len(sys.argv) > 1:
    sys.exit()
quiet = os.fork()
if quiet == 0:
    os._exit(0)
child = os.fork()
if child == 0:
    step(torch.ones(2))
    os._exit(0)
os.waitpid(quiet, 0), os.waitpid(child, 0)
spawned = subprocess.Popen([sys.executable, __file__, "spawned"])
spawned.wait()
print(child, spawned.pid)
"""
    )
    done = run_host("--events", "run.jsonl", "net.py")
    assert done.returncode == 0, done.stderr
    forked, spawned = done.stdout.split()
    names = {path.name for path in tmp_path.iterdir()}
    assert names - {"net.py", "__pycache__"} == {
        "run.jsonl",
        f"run.jsonl.{forked}",
        f"run.jsonl.{spawned}",
    }
    (own,) = written(tmp_path / f"run.jsonl.{forked}")
    assert own["causes"] == ["argument 'x', dimension 0, was 1, is 2"] and str(own["pid"]) == forked
    assert kinds(written(tmp_path / f"run.jsonl.{spawned}")) == ["trace"]
    assert kinds(written(tmp_path / "run.jsonl")) == ["start", "trace", "functions"]


def test_a_full_disk_fails_no_program(run_host, tmp_path):
    (tmp_path / "net.py").write_text(STEP + "print(step(torch.ones(1)).item())\n")
    done = run_host(
        "--events", "/dev/full", "--metrics-file=/dev/full", "--report=/dev/full", "net.py"
    )
    assert (done.returncode, done.stdout) == (0, "2.0\n")
    assert done.stderr == (
        "tracehost: the metrics file can't be written to /dev/full: No space left on device\n"
        "tracehost: the report can't be written to /dev/full: No space left on device\n"
    )


def test_a_line_that_was_cut_is_followed_by_whole_ones(run_host, tmp_path):
    (tmp_path / "net.py").write_text(
        STEP
        + """
import os, resource
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
step(torch.ones(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize("run.jsonl") + 20, hard))
step(torch.ones(2))
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
step(torch.ones(3)), step(torch.ones(4))
"""
    )
    done = run_host("--events", "run.jsonl", "net.py")
    assert (done.returncode, done.stderr) == (0, "")
    lines = (tmp_path / "run.jsonl").read_text().splitlines()
    assert [len(line) for line in lines if not line.endswith("}")] == [20]
    whole = [json.loads(line) for line in lines if line.endswith("}")]
    assert kinds(whole) == ["start", "trace", "trace", "trace", "functions"]


def test_a_file_that_cannot_be_opened(run_host, tmp_path):
    done = run_host("--events", "nowhere/run.jsonl", "-c", "1")
    assert (done.returncode, done.stderr) == (
        2,
        f"tracehost: cannot write '{tmp_path}/nowhere/run.jsonl' (--events): No such file or directory; "
        "name a file in a directory you can write to\n",
    )


def test_events_to_stderr(run_host):
    done = run_host(
        "--events",
        "-",
        "-c",
        "import torch, tracehost\ntracehost.function(torch.neg)(torch.ones(1))",
    )
    assert kinds([json.loads(line) for line in done.stderr.splitlines()]) == [
        "start",
        "trace",
        "functions",
    ]


# At SIGTERM.


def ended(host, tmp_path, code: str, *options: str) -> tuple[int, str]:
    """The status of a program that prints a line, is sent SIGTERM, and would not end by itself."""
    (tmp_path / "net.py").write_text(STEP + code)
    with subprocess.Popen(
        [host, *options, "net.py"],
        cwd=tmp_path,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        process.send_signal(signal.SIGTERM)
        text = process.stderr.read()
        status = process.wait(60)
    with contextlib.suppress(ProcessLookupError):  # what it has started
        os.killpg(process.pid, signal.SIGKILL)
    return status, text


IN_PYTHON = 'print("ready", flush=True)\nwhile True: pass\n'
IN_C = 'import time\nprint("ready", flush=True)\ntime.sleep(1000)\n'
IN_A_GRAPH = """
@tracehost.function
def count(n):
    i = torch.zeros((), dtype=torch.int64)
    while i < n:
        i = i + 1
    return i

count(torch.tensor(2))
print("ready", flush=True)
count(torch.tensor(2**62))
"""


@pytest.mark.parametrize("code", [IN_PYTHON, IN_C, IN_A_GRAPH])
@pytest.mark.parametrize("report", ["run.txt", "run.html"])
def test_figures_are_written_at_sigterm(host, tmp_path, code, report):
    code = "step(torch.ones(1))\n" + code
    status, text = ended(host, tmp_path, code, "--events=run.jsonl", f"--report={report}")
    assert (status, text) == (-signal.SIGTERM, "")
    assert "step (net.py:4)" in (tmp_path / report).read_text()
    assert "functions" in kinds(written(tmp_path / "run.jsonl"))  # the graph runs meanwhile


def test_c_code_that_keeps_the_lock_is_ended(host, tmp_path):
    code = """
import ctypes
ctypes.PyDLL(None).system(b"echo ready; exec sleep 1000 >&- 2>&-")  # with the GIL
"""
    status, text = ended(host, tmp_path, code, "--events=run.jsonl", "--report")
    assert (status, text) == (-signal.SIGTERM, "")
    assert kinds(written(tmp_path / "run.jsonl")) == ["start"]


def test_a_handler_of_the_program_is_called(host, tmp_path):
    code = (
        """
import signal, sys
assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
step(torch.ones(1))
"""
        + IN_PYTHON
    )
    status, text = ended(host, tmp_path, code, "--report")
    assert status == 7 and text.startswith("function")


def test_a_call_that_a_signal_cuts_short(host, tmp_path):
    code = """
import ctypes
print("ready", flush=True)
ctypes.CDLL(None).sleep(1000)  # ends at any signal
"""
    status, text = ended(host, tmp_path, code, "--report=run.html")
    assert (status, text) == (-signal.SIGTERM, "")
    assert "No Function was called." in (tmp_path / "run.html").read_text()


def test_a_forked_child_that_exits_writes_no_report(run_host, tmp_path):
    (tmp_path / "net.py").write_text(
        STEP
        + """
import os, sys
child = os.fork()
if child == 0:
    step(torch.ones(1))
    sys.exit()
os.waitpid(child, 0)
"""
    )
    done = run_host("--report", "net.py")
    assert (done.returncode, done.stderr) == (0, "tracehost: no Function was called.\n")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_child_is_terminated(run_host, tmp_path, method):
    (tmp_path / "net.py").write_text(
        STEP
        + """
import multiprocessing, sys, time

def work(ready):
    step(torch.ones(1))
    ready.set()
    time.sleep(1000)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    ready = context.Event()
    process = context.Process(target=work, args=(ready,))
    process.start()
    ready.wait()
    process.terminate()
    process.join()
    print(process.exitcode)
"""
    )
    done = run_host("--report", "net.py", method)
    assert (done.returncode, done.stdout) == (0, "-15\n")
    assert done.stderr == "tracehost: no Function was called.\n"


def test_run_as_data(run_host, tmp_path):
    (tmp_path / "net.py").write_text(STEP + "step(torch.ones(2))\nstep(torch.ones(3))\n")
    done = run_host("--report=run.json", "--events=run.jsonl", "net.py")
    assert done.returncode == 0, done.stderr
    run = json.loads((tmp_path / "run.json").read_text())
    jsonschema.validate(run, RUN_SCHEMA)
    done = run_host("report", "run.jsonl", "-o", "again.json")
    assert (done.returncode, done.stderr) == (0, "")
    again = json.loads((tmp_path / "again.json").read_text())
    jsonschema.validate(again, RUN_SCHEMA)
    same = ("version", "program", "pid", "functions", "events", "earlier")
    assert {name: run[name] for name in same} == {name: again[name] for name in same}


def test_other_forms_of_a_report(run_host):
    done = run_host("--report=run.pdf", "-c", "1")
    assert done.returncode == 2
    assert done.stderr.endswith(
        "run.pdf' (--report) ends in '.pdf'; a report is .html, .json or .txt\n"
    )


def test_a_handler_that_calls_the_one_before(host, tmp_path):
    code = "import faulthandler, signal\nfaulthandler.register(signal.SIGTERM, chain=True)\n"
    status, _ = ended(host, tmp_path, code + IN_PYTHON, "--report=run.txt")
    assert status == -signal.SIGTERM and (tmp_path / "run.txt").exists()


def test_a_program_that_closes_all_descriptors(run_host, tmp_path):
    """What it opens then has their numbers, and gets none of the events."""
    (tmp_path / "net.py").write_text(
        STEP
        + """
import os
os.closerange(3, 64)
files = [open(f"own{n}", "w") for n in range(10)]
step(torch.ones(1))
"""
    )
    done = run_host("--events=run.jsonl", "--report=run.txt", "net.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert [path.read_text() for path in tmp_path.glob("own*")] == [""] * 10
    assert kinds(written(tmp_path / "run.jsonl")) == ["start"]
    assert "step (net.py:4)" in (tmp_path / "run.txt").read_text()


def test_other_commands_leave_the_files_of_a_run(run_host, tmp_path):
    (tmp_path / "net.py").write_text(STEP + "step(torch.ones(1))\n")
    assert run_host("--events=run.jsonl", "net.py").returncode == 0
    before = (tmp_path / "run.jsonl").read_bytes()
    names = {"TRACEHOST_EVENTS": str(tmp_path / "run.jsonl"), "TRACEHOST_REPORT": str(tmp_path / "run.html")}  # fmt: skip
    for words in (["report", "run.jsonl"], ["doctor"], ["help"]):
        run_host(*words, env=names)
        assert (tmp_path / "run.jsonl").read_bytes() == before
    assert "step (net.py:4)" in (tmp_path / "run.html").read_text()


def test_plain_python_and_its_children(tmp_path):
    (tmp_path / "net.py").write_text(
        STEP
        + """
import os, subprocess, sys
os.chdir("below")
step(torch.ones(1))
if len(sys.argv) == 1:
    print(subprocess.run([sys.executable, "../net.py", "child"], capture_output=True).returncode)
"""
    )
    (tmp_path / "below" / "below").mkdir(parents=True)
    done = subprocess.run(
        [PYTHON, "net.py"],
        cwd=tmp_path,
        env=clean_environment(TRACEHOST_EVENTS="run.jsonl", TRACEHOST_REPORT="run.txt"),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
    assert kinds(written(tmp_path / "run.jsonl")) == ["start", "trace", "functions"]
    (child,) = tmp_path.glob("run.jsonl.*")
    assert kinds(written(child)) == ["trace"]
    assert "step (net.py:4)" in (tmp_path / "run.txt").read_text()


def test_arguments_that_are_no_text(run_host, tmp_path):
    (tmp_path / "net.py").write_text(STEP + "step(torch.ones(1))\n")
    names = ("--events=run.jsonl", "--report=run.html", "--metrics-file=run.prom")
    done = run_host(*names, "net.py", b"\xff")
    assert (done.returncode, done.stderr) == (0, "")
    assert written(tmp_path / "run.jsonl")[0]["program"] == ["net.py", "\udcff"]
    assert "step (net.py:4)" in (tmp_path / "run.html").read_text()


def test_a_pipe_is_opened_once(host, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "net.py").write_text(STEP + "step(torch.ones(1))\n")
    with (
        subprocess.Popen(
            ["cat", "pipe"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
        ) as reader,
        subprocess.Popen(
            [host, "--events=pipe", "net.py"], cwd=tmp_path, env=clean_environment()
        ) as program,
    ):
        text, _ = reader.communicate(timeout=100)
        assert program.wait() == 0
    assert kinds([json.loads(line) for line in text.splitlines()]) == [
        "start",
        "trace",
        "functions",
    ]


def test_a_page_is_not_written_over_its_events(run_host, tmp_path):
    (tmp_path / "run.html").write_text("")
    done = run_host("report", "run.html")
    assert done.returncode == 2
    assert (
        done.stderr == "tracehost: 'run.html' would be overwritten; name another file by --output\n"
    )
