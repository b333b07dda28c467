"""`tracehost fix`: what it writes into the source; which files it leaves alone."""

import json
import subprocess
import sys
import types
from typing import Any, NamedTuple

import pytest
import torch
from conftest import ROOT
from retrace_programs import PROGRAMS, run
from tracehost._reports.words import fixes as words
from tracehost_commands.fix import found
from tracehost_commands.fix.edits import Edits

# Programs whose fixes need more than a decorator or an argument, or have other results; then those without a fix.
LEFT_TO_THE_USER = {
    "a_closure_counter",
    "a_count_of_frames",
    "a_global_number",
    "a_lambda_for_each_call",
    "a_nonlocal_number_of_an_op_in_place",
    "a_size_as_a_key",
    "an_attribute_of_a_schedule",
    "an_attribute_of_the_module",
    "cleared_each_time",
    "decorated_in_a_loop",
    "dtypes_of_files",
    "dynamic_but_one_size_read",
    "in_a_dataclass",
    "transposed_inputs",
}
WITHOUT_A_FIX = {
    "a_check_without_autograph",
    "a_list_that_the_body_reads_and_grows",
    "a_memo_in_the_body",
    "a_new_optimizer_each_time",
    "a_partial_for_each_call",
    "a_shift_of_rows",
    "a_squeezed_batch",
    "a_value_decides_without_autograph",
    "an_array_that_the_body_fills",
    "an_index_of_a_table",
    "frames_in_a_list",
    "parts_of_a_sequence",
    "the_length_of_a_history",
}


def fixed(file):
    """The text of the file with all fixes of the last run, or None; what they save; why others are left, by their texts."""
    edits, saves = Edits(), {}
    rows = json.loads(words.all_fixes())
    for row in rows:
        for one in found.of_definition(row).fixes:
            edits.add(one)
    made = {source.file: text for source, text in edits.texts().items()}
    assert set(made) <= {str(file)}
    left = {one.fix.text: one.why for one in edits.left}
    for row in rows:
        for one in row["fixes"]:
            if one["text"] not in left and not one["together"]:
                saves[row["line"]] = max(saves.get(row["line"], 0), one["saves"])
    return made.get(str(file)), sum(saves.values()), left


@pytest.mark.parametrize("name", PROGRAMS)
def test_golden_programs(name, tmp_path):
    file = tmp_path / f"{name}.py"
    eager = run(PROGRAMS[name], file, eager=True)
    text, runs, most = PROGRAMS[name], 0, 0
    while text is not None:  # without one cause, another may be seen
        made = run(text, file)
        torch.testing.assert_close(made.results, eager.results, check_stride=False)
        assert runs == 0 or made.traces <= most
        text, saves, left = fixed(file)
        most, runs = made.traces - saves, runs + 1
    assert runs <= 3
    assert (runs > 1) == (name not in LEFT_TO_THE_USER | WITHOUT_A_FIX)
    assert runs > 1 or bool(left) == (name in LEFT_TO_THE_USER)


def changed(tmp_path, before):
    """The lines that the fixes of a program change; it has the same results with them, and no other fix."""
    file = tmp_path / "net.py"
    was = run(before, file)
    text, _, left = fixed(file)
    assert text is not None, left
    after = run(text, file)
    torch.testing.assert_close(after.results, was.results, check_stride=False)
    assert after.traces < was.traces and fixed(file)[0] is None
    return [line for line in text.splitlines() if line and line not in before.splitlines()]


SIZES = "for n in range(1, 9):\n    out(step(torch.ones(n)))\n"
RATES = "for i in range(8):\n    out(step(x, 0.1 * i))\n"


@pytest.mark.parametrize(
    "before, changes",
    [
        # How the decorator is spelled, and what it has already.
        ("import torch, tracehost as th\n@th.function\ndef step(x):\n    return x * 2\n" + SIZES,
         ["@th.function(input_signature=[th.TensorSpec([None], torch.float32)])"]),
        ("import torch\nfrom tracehost import function as traced, TensorSpec as Spec\n@traced()\ndef step(x):\n    return x * 2\n" + SIZES,
         ["@traced(input_signature=[Spec([None], torch.float32)])"]),
        ("import torch, tracehost\n@tracehost.function(\n    name='a',\n    limit=32,\n)\ndef step(x):\n    return x * 2\n" + SIZES,
         ["    limit=32, input_signature=[tracehost.TensorSpec([None], torch.float32)],"]),
        ("import torch, tracehost\n@tracehost.function(limit=2)\ndef step(x, kind):\n    return x * 2 if kind == 'a' else x * 3\nfor n in range(9):\n    out(step(torch.ones(2), 'abc'[n % 3]))\n",
         ["@tracehost.function(limit=4)"]),
        # How the Function is made and called.
        ("import torch, tracehost\nx = torch.ones(3)\ndef body(x, lr):\n    return x * lr\nstep = tracehost.function(body)\n" + RATES,
         ["    out(step(x, torch.tensor(0.1 * i)))"]),
        ("import torch, tracehost\nx = torch.ones(3)\nstep = tracehost.function(lambda x, lr: x * lr)\n" + RATES,
         ["    out(step(x, torch.tensor(0.1 * i)))"]),
        ("import torch, tracehost\nx = torch.ones(3)\nclass Net:\n    @tracehost.function\n    def step(self, x, lr):\n        return x * lr\nnet = Net()\nfor i in range(8):\n    out(net.step(x, 0.1 * i))\n    out(Net.step(net, x, lr=0.1 * i))\n",
         ["    out(net.step(x, torch.tensor(0.1 * i)))", "    out(Net.step(net, x, lr=torch.tensor(0.1 * i)))"]),
        ("import torch as t, tracehost\nx = t.ones(3)\n@tracehost.function\ndef step(x, lr):\n    return x * lr\n" + RATES,
         ["    out(step(x, t.tensor(0.1 * i)))"]),
        ("import numpy as np, tracehost\nfrom torch import ones\nx = ones(3)\n@tracehost.function\ndef step(x, lr):\n    return x * lr\n" + RATES,
         ["import torch", "    out(step(x, torch.tensor(0.1 * i)))"]),
        ("import tracehost\ndef data():\n    import torch as t\n    return t.ones(3)\nx = data()\n@tracehost.function\ndef step(x, lr):\n    return x * lr\n" + RATES,
         ["import torch", "    out(step(x, torch.tensor(0.1 * i)))"]),
        # Where the argument is written.
        ("import torch, tracehost\nx = torch.ones(3)\n@tracehost.function\ndef step(x, options):\n    return x * options['lr'][0]\nfor i in range(8):\n    out(step(\n        x,\n        options={'lr': (0.1 * i, 2)},  # noted\n    ))\n",
         ["        options={'lr': (torch.tensor(0.1 * i), 2)},  # noted"]),
        # The first line of the body.
        ("import torch, tracehost\n@tracehost.function\ndef step(x, k):\n    'Says what it does.'\n    return torch.topk(x, k).values.sum()\nfor k in range(1, 9):\n    out(step(torch.ones(9), k))\n",
         ["    k = int(k)", "    out(step(torch.ones(9), torch.tensor(k)))"]),
        # An argument that is never read.
        ("import torch, tracehost\nx = torch.ones(3)\n@tracehost.function\ndef step(x, name):\n    return x * 2\nfor i in range(8):\n    out(step(x, name=str))\n    out(step(x, f'{i}'))\n",
         ["    out(step(x, name=None))", "    out(step(x, None))"]),
    ],
)  # fmt: skip
def test_what_is_written(tmp_path, before, changes):
    assert changed(tmp_path, before) == changes


@pytest.mark.parametrize(
    "program, why",
    [
        ("def step(x, lr):\n    return x * lr\nstep = tracehost.function(step)\nother = step\nfor i in range(8):\n    other(x, 0.1 * i)\n",
         "net.py:8 calls it by another name"),
        ("@tracehost.function\ndef step(x, lr):\n    return x * lr\nfor i in range(8):\n    step(*(x, 0.1 * i))\n",
         "line 7 passes its arguments by a star"),
        ("@tracehost.function\ndef step(x, lr=0.5):\n    return x * lr\nfor i in range(8):\n    step(x)\n    step(x, 0.1 * i)\n",
         "line 7 passes no argument 'lr'"),
        ("@tracehost.function\ndef step(x, options):\n    return x * options['lr']\nfor i in range(8):\n    o = {'lr': 0.1 * i}\n    step(x, o)\n",
         "options['lr'] is not written in the call"),
        ("def now():\n    global count\n    count += 1\n    return str(count)\ncount = 0\n@tracehost.function\ndef step(x, time):\n    return x * 2\nfor i in range(8):\n    step(x, now())\n",
         "line 12 calls code for this argument"),
        ("options = {}\n@tracehost.function(**options)\ndef step(x):\n    return x * 2\nfor n in range(1, 9):\n    step(torch.ones(n))\n",
         "its options are in a dict"),
        ("step = tracehost.function(lambda x, k: torch.topk(x, k).values)\nfor k in range(1, 8):\n    step(torch.ones(9), k)\n",
         "its body is one line"),
    ],
)  # fmt: skip
def test_what_is_left_to_the_user(tmp_path, monkeypatch, program, why):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "net.py"
    run("import torch, tracehost\nx = torch.ones(3)\n" + program, file)
    text, _, left = fixed(file)
    assert text is None
    assert list(left.values()) == [why]


# The traces before and after, and those that the example has by hand.
EXAMPLES = {
    "shapes": (10, 1, 2),
    "declared": (5, 1, 1),
    "python_values": (20, 1, 1),
    "python_or_tensor": (3, 1, 1),
    "python_control_flow": (16, 1, 1),
    "objects": (16, 2, 2),
    "boundary": (5, 4, 1),  # lists need a conversion
    # A dtype changes results. Others need more than a decorator or an argument.
    "dtypes": (5, 5, 1),
    "external_state": (7, 7, 1),
    "created_in_a_loop": (10, 10, 1),
    "prediction": (4, 4, 2),
    "weight_swapping": (12, 12, 1),
    "monte_carlo": (8, 8, 1),
}


class Program(NamedTuple):
    functions: Any
    calls: Any


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_retracing(tmp_path, monkeypatch, name):
    """What runs is the part before the cure."""
    seen = []

    def compare(title, before, after, *, traces):
        for call in before.calls:
            call()
        seen.append((sum(f.tracing_count() for f in before.functions), traces))

    measure = types.SimpleNamespace(Program=Program, compare=compare)
    monkeypatch.setitem(sys.modules, "measure", measure)
    file = tmp_path / f"{name}.py"
    run((ROOT / "examples/retracing" / file.name).read_text(), file)
    text, _, _ = fixed(file)
    run(text or file.read_text(), file)
    before, after, by_hand = EXAMPLES[name]
    assert seen == [(before, (before, by_hand)), (after, (before, by_hand))]
    assert fixed(file)[0] is None


def test_all_examples_are_here():
    names = {path.stem for path in (ROOT / "examples/retracing").glob("*.py")}
    assert names - {"measure", "run"} == set(EXAMPLES)


NET = """\
import torch
import tracehost


@tracehost.function
def step(x, lr):
    return x * lr


for i in range(8):
    step(torch.ones(3), 0.1 * i)
print("done")
"""
FIXED = NET.replace("0.1 * i)", "torch.tensor(0.1 * i))")
QUIET = {"TRACEHOST_RETRACE_WARN": "off"}


def test_the_diff(run_host, tmp_path):
    (tmp_path / "net.py").write_text(NET)
    done = run_host("fix", "net.py", env=QUIET)
    assert (done.returncode, done.stderr) == (
        0,
        "done\ntracehost: no file is changed; 'tracehost fix --apply ...' writes these changes\n",
    )
    assert done.stdout == (
        "--- a/net.py\n"
        "+++ b/net.py\n"
        "@@ -8,5 +8,5 @@ # net.py:5: saves 7 of 8 traces\n"
        " \n"
        " \n"
        " for i in range(8):\n"
        "-    step(torch.ones(3), 0.1 * i)\n"
        "+    step(torch.ones(3), torch.tensor(0.1 * i))\n"
        ' print("done")\n'
    )
    assert (tmp_path / "net.py").read_text() == NET
    subprocess.run(["git", "apply", "-"], input=done.stdout, text=True, cwd=tmp_path, check=True)
    assert (tmp_path / "net.py").read_text() == FIXED


@pytest.mark.parametrize(
    "encode",
    [
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: text.encode("utf-8-sig"),
        lambda text: f"# -*- coding: latin-1 -*-\n# caf\xe9\n{text}".encode("latin-1"),
        lambda text: text.rstrip("\n").encode(),
        lambda text: text.replace("\n\n\n", "\n\x0c\n\n").replace("):\n    ", "):\n\t").encode(),
    ],
    ids=["crlf", "bom", "latin-1", "no_newline", "form_feed_and_tabs"],
)
def test_bytes_are_kept(run_host, tmp_path, encode):
    file = tmp_path / "net.py"
    file.write_bytes(encode(NET))
    file.chmod(0o755)
    done = run_host("fix", "--apply", "net.py", env=QUIET)
    assert (done.returncode, done.stderr) == (0, "done\ntracehost: net.py is written\n")
    assert file.read_bytes() == encode(FIXED)
    assert file.stat().st_mode & 0o777 == 0o755
    done = run_host("fix", "--apply", "net.py", env=QUIET)
    assert (done.returncode, done.stdout) == (0, "")
    assert (
        done.stderr == "done\ntracehost: there is nothing to fix: no function was retraced often\n"
    )
    assert file.read_bytes() == encode(FIXED)


def left_alone(done):
    """Why the fix was not written."""
    start = "tracehost: left to you: net.py:5: saves 7 of 8 traces: pass torch.tensor(0.1 * i) for 'lr' at net.py:11: a tensor's value is not part of the signature ("
    (line,) = [one for one in done.stderr.splitlines() if one.startswith("tracehost: ")]
    assert line.startswith(start) and line.endswith(")")
    assert done.stdout == ""
    return done.returncode, line.removeprefix(start)[:-1]


def test_a_file_that_changed(run_host, tmp_path):
    file = tmp_path / "net.py"
    file.write_text(NET + "open(__file__, 'a').write('# later')\n")
    done = run_host("fix", "--apply", "net.py", env=QUIET)
    assert left_alone(done) == (1, "net.py has changed since the run; run the command again")
    assert file.read_text().endswith("# later")


def test_links(run_host, tmp_path):
    """A link in the project is followed."""
    project, outside = tmp_path / "project", tmp_path / "outside"
    project.mkdir(), outside.mkdir()
    (outside / "net.py").write_text(NET)
    (project / "net.py").symlink_to(outside / "net.py")
    done = run_host("fix", "--apply", "net.py", env=QUIET, cwd=project)
    where = f"a link to {outside}/net.py, which is outside of {project}"
    assert left_alone(done) == (1, f"net.py is {where}")
    assert left_alone(run_host("fix", "net.py", env=QUIET, cwd=project))[0] == 0
    assert (outside / "net.py").read_text() == NET
    (project / "net.py").unlink()
    (project / "own.py").write_text(NET)
    (project / "net.py").symlink_to("own.py")
    assert run_host("fix", "--apply", "net.py", env=QUIET, cwd=project).returncode == 0
    assert (project / "own.py").read_text() == FIXED
    assert (project / "net.py").is_symlink()


def test_packages_and_files_that_may_not_be_written(run_host, tmp_path):
    package = tmp_path / "site-packages"
    package.mkdir()
    (package / "net.py").write_text(NET)
    done = run_host("fix", "--apply", "-c", "import net", env={**QUIET, "PYTHONPATH": str(package)})
    assert left_alone(done) == (1, "site-packages/net.py belongs to an installed package")
    assert (package / "net.py").read_text() == NET


def test_errors(run_host, tmp_path):
    (tmp_path / "net.py").write_text(NET + "raise SystemExit(5)\n")
    done = run_host("fix", "--apply", "net.py", env=QUIET)
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.endswith("tracehost: nothing is fixed: the program ended with exit code 5\n")
    assert (tmp_path / "net.py").read_text().startswith(NET)
    done = run_host("fix", "a.ipynb")
    assert (done.returncode, done.stderr) == (
        2,
        "tracehost: 'a.ipynb' is a notebook, which has no lines to change; make a script of it: "
        "jupyter nbconvert --to script a.ipynb\n",
    )
    assert run_host("fix").returncode == 2
    done = run_host("fix", "-c", "pass")
    assert (done.returncode, done.stderr) == (
        1,
        "tracehost: the program never imported tracehost, or was ended from outside, so nothing was traced. Write "
        "@tracehost.function above a function that is called often, or try one as it is: tracehost --trace "
        "__main__:FUNCTION SCRIPT.py\n",
    )


def test_a_cause_without_a_fix_is_left_with_where_to_look(run_host, tmp_path):
    (tmp_path / "net.py").write_text(
        """import torch
import tracehost

TABLE = [torch.ones(3) * i for i in range(20)]


@tracehost.function
def step(x):
    return TABLE[int(x.sum())] + 1


for i in range(7):
    step(torch.full((2,), float(i)))
"""
    )
    done = run_host("fix", "net.py")
    assert (done.returncode, done.stdout) == (0, "")
    assert [line for line in done.stderr.splitlines() if line.startswith("tracehost: ")] == [
        "tracehost: left to you, no change can be written: step (net.py:7): net.py:9: Python needs the number itself "
        "there; keep the computation in tensors (an index of a tensor in place of a list, torch.where in place of if)"
    ]


def test_without_libcst(run_host, tmp_path):
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as util\nfind = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'libcst' else find(name, *rest)\n"
    )
    done = run_host("fix", "net.py", env={"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout, done.stderr) == (
        69,
        "",
        "tracehost: 'tracehost fix' needs libcst, which is not installed: pip install libcst\n",
    )


def test_libcst_is_imported_by_fix_alone(run_host):
    code = "import sys, tracehost; print([name for name in ('libcst', 'jinja2') if name in sys.modules])"
    done = run_host("--events=run.jsonl", "--report=run.json", "-c", code)
    assert (done.returncode, done.stdout) == (0, "[]\n")


def test_children(run_host, tmp_path):
    """Each process has its fixes, and a definition in a module is changed where it is."""
    (tmp_path / "net.py").write_text(NET.replace("print", "child = print"))
    (tmp_path / "main.py").write_text(
        "import subprocess, sys\n"
        "for _ in range(2):\n    subprocess.run([sys.executable, '-m', 'net'], check=True)\n"
    )
    done = run_host("fix", "--apply", "main.py", env=QUIET)
    assert done.stderr.splitlines()[-1] == "tracehost: net.py is written", done.stderr
    assert (tmp_path / "net.py").read_text() == FIXED.replace("print", "child = print")
