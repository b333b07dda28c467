"""Runs a row with one executable, and takes out of its output what two runs of one program differ in."""

import os
import pty
import re
import select
import subprocess
from pathlib import Path

from conftest import HOST, HOST_PYTHON, PYTHON, clean_environment

from .row import Row

MOST_SECONDS = 120
CTRL_C = "\x03"


def run(row: Row, exe: Path, folder: Path) -> tuple[int, str, str]:
    """Its exit status, standard output and standard error; a terminal's output is all standard output."""
    command = _prepare(row, exe, folder)
    env = clean_environment(**row.env)
    if row.types:
        status, out, err = _at_a_terminal(row, command, env, folder)
    else:
        status, out, err = _with_pipes(row, command, env, folder)
    if row.send or any(CTRL_C in typed for _, typed in row.types):
        out, err = _without_carets(out), _without_carets(err)
    return status, _plain(out, exe, folder), _plain(err, exe, folder)


def _prepare(row: Row, exe: Path, folder: Path) -> list:
    folder.mkdir(parents=True)
    for name, content in row.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            content = content.replace("{exe}", str(exe)).encode()
        path.write_bytes(content)
    if row.shell:
        return ["bash", "-c", row.shell.replace("{exe}", str(exe))]
    return [exe, *row.args]


def _with_pipes(row: Row, command: list, env: dict, folder: Path) -> tuple[int, bytes, bytes]:
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    first = b""
    if row.send:
        first = process.stdout.readline()
        if not row.spins:
            _until_they_wait([process.pid])
        process.send_signal(row.send)
    try:
        out, err = process.communicate(row.stdin.encode(), timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.returncode, first + out, err


def _until_they_wait(pids: list[int]) -> None:
    """Until each process waits in the kernel: a signal then finds it at one place of its code, not on the way there.
    A signal that comes between Python's last look and the system call would be seen when the call returns."""
    for pid in pids:
        while _stat(pid)[0] not in "SZ":
            os.sched_yield()


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third: the state, the parent, the process group."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _of_group(group: int) -> list[int]:
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    found = []
    for pid in pids:
        try:
            if int(_stat(pid)[2]) == group:
                found.append(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended in between
    return found


def _at_a_terminal(row: Row, command: list, env: dict, folder: Path) -> tuple[int, bytes, bytes]:
    """Each text is typed when its prompt stands at the end: so that the terminal's echo, and what a program
    does to the terminal before it asks, come in one order only."""
    leader, follower = pty.openpty()
    # setsid makes it the controlling one: Ctrl-C is a signal then.
    process = subprocess.Popen(
        ["setsid", "--ctty", *command],
        cwd=folder,
        env=env,
        stdin=follower,
        stdout=follower,
        stderr=follower,
    )
    os.close(follower)
    output, seen = b"", 0
    for prompt, text in row.types:
        while not output[seen:].endswith(prompt.encode()):
            more = _read(leader)
            if not more:
                break
            output += more
        seen = len(output)
        if text == CTRL_C:
            _until_they_wait(_of_group(process.pid))
        os.write(leader, text.encode())
    while more := _read(leader):
        output += more
    os.close(leader)
    return process.wait(MOST_SECONDS), output, b""


def _read(leader: int) -> bytes:
    """Nothing at the end, or after too long a silence."""
    if not select.select([leader], [], [], MOST_SECONDS / 4)[0]:
        return b""
    try:
        return os.read(leader, 65536)
    except OSError:  # all that had the terminal open are gone
        return b""


def _without_carets(output: bytes) -> bytes:
    """Below a line of code, Python 3.13 marks which part of the line a signal met: now one part, now another."""
    return re.sub(rb"(?m)^ +[~^]+\r?\n", b"", output)


def _plain(output: bytes, exe: Path, folder: Path) -> str:
    """Without its own path, the folder, addresses, process ids, times."""
    text = output.decode("utf-8", "backslashreplace").replace(str(folder), "<folder>")
    # The longer names first: one is the beginning of the other.
    for path in (HOST_PYTHON, HOST, PYTHON):
        text = text.replace(str(path), "<python>")
    text = re.sub(r"\bpid[= ]\d+|0x[0-9a-fA-F]+|ForkServerProcess-\d+", "<n>", text)
    text = re.sub(r"(bash: line \d+:) +\d+ ", r"\1 ", text)
    # From Python 3.14 on: the name of a thread, and in argparse's usage that of sys.executable.
    text = re.sub(r"\[[^\]\n]{1,15}\](?= \(most recent call first\))", "[<name>]", text)
    text = re.sub(r"(?m)^  Binary file .*\n", "", text)  # faulthandler's C frames
    text = re.sub(r"\b(tracehost-python|python3)(?= -m )", "<python>", text)
    return re.sub(r"(\d+\.)?\d+s\b", "<time>", text)
