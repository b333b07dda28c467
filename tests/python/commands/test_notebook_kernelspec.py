"""`tracehost kernel` and `tracehost repl`."""

import json
import re
import sys

import pytest
from conftest import clean_environment

BINARY = f"{sys.prefix}/bin/tracehost-python"


@pytest.fixture
def kernel(run_host, tmp_path):
    """kernel(*words): with Jupyter's own folders below tmp_path."""

    def kernel(*words):
        env = {
            "JUPYTER_PATH": str(tmp_path / "share" / "jupyter"),
            "JUPYTER_DATA_DIR": str(tmp_path / "user"),
        }
        return run_host("kernel", *words, env=env)

    return kernel


def test_a_kernel_is_installed_and_runs(kernel, tmp_path, monkeypatch):
    done = kernel("install", "--prefix", ".")
    folder = tmp_path / "share" / "jupyter" / "kernels" / "tracehost"
    assert (done.returncode, done.stdout) == (0, f"installed {folder}\n")
    assert kernel("install", "--prefix", ".", "--display-name", "Mine").returncode == 0, "again"
    written = json.loads((folder / "kernel.json").read_text())
    assert written["argv"] == [BINARY, "-Xfrozen_modules=off", "-m", "ipykernel_launcher", "-f", "{connection_file}"]  # fmt: skip
    assert written["display_name"] == "Mine" and (folder / "logo-64x64.png").exists()
    assert kernel("list").stdout == f"tracehost  {folder}\n"

    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share" / "jupyter"))
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="tracehost", env=clean_environment())
    try:
        shown = []
        client.execute_interactive(
            "import sys; print(sys.executable)", output_hook=shown.append, timeout=60
        )
        texts = [m["content"]["text"] for m in shown if m["msg_type"] == "stream"]
        assert "".join(texts) == BINARY + "\n"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)

    assert kernel("uninstall", "--prefix", ".").stdout == f"removed {folder}\n"
    assert not folder.exists()
    assert (
        kernel("uninstall", "--prefix", ".").stderr
        == f"tracehost: there is no kernel at {folder}\n"
    )
    assert kernel("list").stderr == "tracehost: no kernel is installed: tracehost kernel install\n"


GRAPH = """
import torch, tracehost

@tracehost.function
def count(turns, last):
    while turns < last:
        turns.add_(1)
    return turns * 2

count(torch.tensor(0), torch.tensor(3))
turns = torch.tensor(0)
"""


def test_an_interrupt_ends_a_graph_and_leaves_its_function_usable(kernel, tmp_path, monkeypatch):
    assert kernel("install", "--prefix", ".").returncode == 0
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share" / "jupyter"))
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="tracehost", env=clean_environment())

    def run(code, hook=lambda message: None):
        return client.execute_interactive(code, output_hook=hook, timeout=60)["content"]

    try:
        assert run(GRAPH)["status"] == "ok"
        interrupting = run(  # the kernel prints when it is about to run the graph
            "print('runs', flush=True); count(turns, torch.tensor(2 ** 62))",
            lambda m: m["msg_type"] == "stream" and manager.interrupt_kernel(),
        )
        assert (interrupting["status"], interrupting["ename"]) == ("error", "KeyboardInterrupt")
        usable = (
            "assert count(torch.tensor(0), torch.tensor(3)) == 6 and count.tracing_count() == 1"
        )
        assert run(usable)["status"] == "ok"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_where_a_kernel_goes(kernel, tmp_path):
    done = kernel("install", "--user", "--name", "my-own")
    assert done.stdout == f"installed {tmp_path}/user/kernels/my-own\n"
    done = kernel("uninstall", "--name", "never-installed")
    assert (
        f"there is no kernel at {sys.prefix}/share/jupyter/kernels/never-installed" in done.stderr
    )


def test_kernels_of_others_are_left_alone(kernel, tmp_path):
    folder = tmp_path / "share" / "jupyter" / "kernels" / "other"
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text('{"argv": [], "display_name": "x", "language": "x"}')
    for action, message in [("install", "is another kernel: choose another --name"), ("uninstall", "is another kernel, it stays")]:  # fmt: skip
        done = kernel(action, "--prefix", ".", "--name", "other")
        assert (done.returncode, done.stderr) == (2, f"tracehost: {folder} {message}\n")
    assert kernel("list").stdout == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "'kernel' takes install, uninstall or list"),
        (["instal"], "'kernel' takes install, uninstall or list, got 'instal'"),
        (
            ["install", "--name", "python3"],
            "'python3' is plain Python's kernel: choose another --name",
        ),
        (["install", "--name", "a/b"], "--name takes letters, digits and . _ -, got 'a/b'"),
        (["install", "--user", "--prefix", "."], "give one of --sys-prefix, --user and --prefix"),
    ],
)
def test_bad_input_is_one_line(kernel, words, message):
    done = kernel(*words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"tracehost: {message}\n")


SESSION = "import sys, os\nprint(sys.argv, x, os.path.basename(sys.executable))\n1 + 1\n"


@pytest.mark.parametrize("which", ["--plain", "--ipython"])
def test_the_prompt(run_host, tmp_path, which):
    (tmp_path / "start.py").write_text("x = 'from the script'\n")
    (tmp_path / "near.py").write_text("here = 1\n")
    stdin = SESSION + "import near; near.here + 40\nraise SystemExit(3)\n"
    env = {"IPYTHONDIR": str(tmp_path / "ipython")}
    done = run_host("repl", which, "-i", "start.py", "one", stdin=stdin, env=env)
    assert "['start.py', 'one'] from the script tracehost-python\n" in done.stdout
    assert re.search(r"^(Out\[\d+\]: |In \[\d+\]: Out\[\d+\]: )?2$", done.stdout, re.MULTILINE)
    assert "41" in done.stdout
    if which == "--plain":
        assert done.returncode == 3


def test_the_prompt_without_a_script(run_host):
    done = run_host("repl", "--plain", stdin="import sys; print(sys.argv)\n")
    assert done.stdout == "['']\n" and done.returncode == 0
    done = run_host("repl", "--plain", "a", stdin="import sys; print(sys.argv)\n")
    assert done.stdout.endswith("['-', 'a']\n")


def test_prompts_that_are_asked_for_wrongly(run_host):
    done = run_host("repl", "--plain", "--ipython")
    assert (
        done.stderr == "tracehost: --ipython and --plain say different things; give one of them\n"
    )
    done = run_host("repl", "-i", "none.py")
    assert (done.returncode, done.stderr) == (2, "tracehost: there is no file 'none.py' (--init)\n")
