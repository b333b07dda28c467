"""One notebook of all sorts of cells: `tracehost notebook` gives what plain Jupyter tools give."""

import asyncio
import copy
import sys

import pytest
from conftest import PYTHON, clean_environment
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from notebook_support import ACCEPTANCE, comparable, load, notebook, save, texts

# By C code, a child, and past Python.
WRITTEN = {1: ("stdout", "from C\n"), 2: ("stdout", "from a child\n"), 3: ("stderr", "raw\n")}


class PlainManager(AsyncKernelManager):
    @property
    def kernel_spec(self):
        argv = [str(PYTHON), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name="plain", language="python")


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What nbclient and a kernel of plain python make of it."""
    made = notebook(*ACCEPTANCE)
    folder = tmp_path_factory.mktemp("plain")
    client = NotebookClient(made, km=PlainManager(), resources={"metadata": {"path": str(folder)}})

    async def execute():
        await client.async_execute(env=clean_environment(), cleanup_kc=False)
        client.kc.stop_channels()  # nbclient ends what it has started, and that was given
        await client.km.shutdown_kernel(now=True)

    asyncio.run(execute())
    return made


@pytest.fixture(scope="module")
def ran(host, tmp_path_factory):
    """The result of `tracehost notebook`, with what it printed."""
    import subprocess

    folder = tmp_path_factory.mktemp("ran")
    source = notebook(
        *ACCEPTANCE, kernelspec={"name": "no-such-kernel", "display_name": "x"}, mine=[1]
    )
    source.cells.insert(0, copy.deepcopy(source.cells[1]))  # an id that occurs twice
    source.cells[0].update(cell_type="markdown", source="# all sorts", metadata={"mine": {"a": 1}})
    del source.cells[0]["outputs"], source.cells[0]["execution_count"]
    source.cells[2].outputs = [
        {"output_type": "stream", "name": "stdout", "text": "of an earlier run"}
    ]
    (folder / "all.ipynb").write_text(__import__("json").dumps(source))
    done = subprocess.run(
        [host, "notebook", "all.ipynb"],
        cwd=folder,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return load(folder / "all.out.ipynb"), done


@pytest.fixture(scope="module")
def executed(host, tmp_path_factory):
    """What `jupyter execute` and the installed kernel make of it."""
    import subprocess

    folder = tmp_path_factory.mktemp("executed")
    command = [host, "kernel", "install", "--prefix", "."]
    subprocess.run(command, cwd=folder, env=clean_environment(), check=True, capture_output=True)
    save(folder / "all.ipynb", notebook(*ACCEPTANCE))
    done = subprocess.run(
        [PYTHON, "-c", "from nbclient.cli import main; main()", "--kernel_name=tracehost", "--output=done", "all.ipynb"],
        cwd=folder,
        env=clean_environment(JUPYTER_PATH=str(folder / "share" / "jupyter")),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return load(folder / "done.ipynb")


@pytest.mark.parametrize("index", sorted(set(range(len(ACCEPTANCE))) - set(WRITTEN)))
def test_a_cell_shows_the_same_with_the_installed_kernel(expected, executed, index):
    assert comparable(executed.cells[index]) == comparable(expected.cells[index])


@pytest.mark.parametrize("index", range(len(ACCEPTANCE)))
def test_a_cell_shows_what_it_shows_in_plain_jupyter(expected, ran, index):
    count, outputs = comparable(ran[0].cells[index + 1])
    if index in WRITTEN:  # plain Jupyter tools drop what comes after the end of its cell
        assert outputs == [WRITTEN[index]]
    else:
        assert (count, outputs) == comparable(expected.cells[index])


def test_the_cells_show_what_they_were_written_for(expected):
    shown = [texts(cell) for cell in expected.cells]
    assert "image/png" in expected.cells[4].outputs[-1].data
    assert shown[6] == "'three'" and shown[7].endswith("all\n") and "wrong" in shown[10]
    assert "careful" in shown[11] and "StdinNotImplementedError" in shown[12]
    assert shown[14] == "([4.0, 4.0, 6.0], 2)"


def test_what_the_notebook_had_is_kept(ran):
    result = ran[0]
    assert (result.nbformat, result.nbformat_minor) == (4, 5)
    assert result.metadata.mine == [1] and result.metadata.kernelspec.name == "no-such-kernel"
    assert result.cells[0].metadata == {"mine": {"a": 1}}
    ids = [cell.id for cell in result.cells]
    assert ids[2:] == [f"c{n}" for n in range(1, len(ACCEPTANCE))] or len(set(ids)) == len(ids)
    assert result.cells[1].metadata.tags == ["parameters"]


def test_what_is_in_the_cells_of_traced_functions(ran):
    result, done = ran
    statistics = result.cells[-1].metadata.tracehost
    ms = statistics.pop("trace_ms")
    assert ms > 0
    assert statistics == {
        "calls": 3,
        "hits": 1,
        "traces": 2,
        "retraces": 1,
        "causes": [statistics.causes[0]],
    }
    assert "argument 'x', dimension 0, was 2, is 3" in statistics.causes[0]
    assert all("tracehost" not in cell.metadata for cell in result.cells[:-1])
    table = done.stderr.splitlines()[-2:]
    assert table[0].split() == "cell seconds calls hits traces retraces trace ms main cause".split()
    assert table[1].split()[0] == "15" and table[1].split()[2:6] == ["3", "1", "2", "1"]


def test_what_is_shown_while_it_runs(ran):
    result, done = ran
    assert "from C\n" in done.stdout and "from a child\n" in done.stdout
    assert "raw\n" in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("tracehost: all.ipynb: ")]
    assert lines[0].startswith("tracehost: all.ipynb: cell 1 of 15: ")
    assert lines[-1].startswith("tracehost: all.ipynb: 15 cells in ")
    assert lines[-1].endswith(" -> all.out.ipynb")


def test_the_cells_run_in_the_host(run_host, tmp_path):
    save(tmp_path / "n.ipynb", notebook("import sys\nprint(sys.executable)"))
    done = run_host("notebook", "n.ipynb")
    assert done.stdout == f"{sys.prefix}/bin/tracehost-python\n"
