"""`%load_ext tracehost`, and what a notebook shows of Functions and graphs."""

import html.parser
import os

import pytest
import torch
import tracehost
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from tracehost import _html
from tracehost._reports.drawing import Drawing


@pytest.fixture(scope="module")
def shell():
    made = InteractiveShell.instance()
    made.history_manager.enabled = False
    made.run_line_magic("load_ext", "tracehost")
    made.user_ns.update(torch=torch, tracehost=tracehost)
    yield made
    InteractiveShell.clear_instance()


@pytest.fixture
def step(shell):
    tracehost.reset()  # the decorator below is not "applied again"

    @tracehost.function
    def step(x, mode="<b>&'\""):
        return x * 2 if mode else x

    shell.user_ns["step"] = step
    yield step
    step.clear()


class Checked(html.parser.HTMLParser):
    """Well-formed, and with tags that show text only."""

    def __init__(self, text):
        super().__init__()
        self.open, self.text = [], ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        assert tag in {"table", "caption", "thead", "tbody", "tr", "th", "td", "br", "details", "summary", "pre"}  # fmt: skip
        assert {name for name, _ in attributes} <= {"style", "colspan"}
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data + " "


def test_a_function_shows_its_traces(step):
    step(torch.ones(2))
    step(torch.ones(3))
    step(torch.ones(3))
    text = " ".join(Checked(step._repr_html_()).text.split())
    assert text.startswith("step: 3 calls, 1 hits, 2 traces in ")
    assert "(x: float32[2], mode='<b>&\\'\"') 0 " in text or "mode=" in text
    assert "first trace" in text and "argument 'x', dimension 0, was 2, is 3" in text


def test_what_is_shown_is_bounded(step):
    for n in range(40):
        step(torch.ones(2), mode="m" * 5000 + str(n))
    shown = step._repr_html_()
    assert "15 earlier ones are not shown" in Checked(shown).text
    assert len(shown) < 60_000


def test_a_concrete_function_shows_what_it_takes(shell):
    weight = torch.ones(3)

    @tracehost.function
    def apply(x):
        return x * weight

    concrete = apply.get_concrete_function(tracehost.TensorSpec([None, 3]))
    text = " ".join(Checked(concrete._repr_html_()).text.split())
    assert "input x torch.float32" in text and "capture " in text and "weight" in text
    assert "output" in text and "torch.mul(x, " in text
    assert text.startswith("apply (x: float32[None, 3]) -> float32[None, 3] name dtype shape ")


def test_a_signature_in_short():
    @tracehost.function
    def both(pair, n, *, names=("a", "b")):
        return {"sum": pair[0] + pair[1]["k"], "n": n, "all": [pair[0], n]}

    vector = tracehost.TensorSpec([None])
    made = both.get_concrete_function((vector, {"k": vector}), 2)
    assert _html.signature_of(made) == (
        "(pair: (float32[None], {'k': float32[None]}), n=2, names=('a', 'b'))"
        " -> {'sum': float32[None], 'n': 2, 'all': [float32[None], 2]}"
    )
    alone = tracehost.function(lambda x: (x * 2,)).get_concrete_function(vector)
    assert _html.signature_of(alone) == "(x: float32[None]) -> (float32[None],)"


def test_the_trace_magic(shell, step):
    with capture_output() as shown:
        result = shell.run_cell(
            "%%trace\nfor n in (2, 3, 3): out = step(torch.ones(n))\nprint('ran')",
            store_history=True,
        )
    (table,) = shown.outputs
    assert shown.stdout == "ran\n"
    text = table.data["text/plain"]
    assert text.splitlines()[0] == "3 calls, 1 hit, 2 traces"
    assert "argument 'x', dimension 0, was 2, is 3" in text.splitlines()[2]
    assert f" at In[{result.execution_count}]:1: " in text.splitlines()[2]
    Checked(table.data["text/html"])


def test_the_trace_magic_and_an_error(shell, step):
    with capture_output() as shown:
        result = shell.run_cell("%%trace\nstep(torch.ones(2))\n1 / 0")
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert shown.outputs[-1].data["text/plain"].startswith("1 call, 0 hits, 1 trace\n")
    assert shown.stdout.count("division by zero") == 1 and "magics.py" not in shown.stdout


def test_the_retraces_magic(shell, step):
    for n in (2, 3):
        step(torch.ones(n))
    text = repr(shell.run_line_magic("retraces", "step"))
    assert text.splitlines()[0] == "1 retrace" and "dimension 0, was 2, is 3" in text
    assert "dimension 0, was 2, is 3" in repr(shell.run_line_magic("retraces", ""))


def test_the_config_magic(shell, capsys):
    shell.run_line_magic("tracehost_config", "stance=fail_on_miss eager=on")
    assert capsys.readouterr().out == "stance=fail_on_miss eager=on\n"
    shell.run_line_magic("tracehost_config", "stance=default eager=off")
    shell.run_line_magic("tracehost_config", "")
    assert capsys.readouterr().out.splitlines()[-1] == "stance=default eager=off"


@pytest.mark.parametrize(
    ("magic", "line", "message"),
    [
        ("graph", "", "%graph takes a Function, and the number of a trace if you like"),
        ("graph", "step", "step has no trace yet: call it first"),
        ("graph", "torch.ones", "%graph takes a Function, got "),
        ("graph", "nowhere", "%graph: name 'nowhere' is not defined"),
        ("retraces", "torch.ones", "%retraces takes a Function, got "),
        (
            "tracehost_config",
            "stance=none",
            "there is no stance 'none'; there are default, eager, ",
        ),
        ("tracehost_config", "x", "%tracehost_config takes stance=NAME and eager=on|off, got 'x'"),
    ],
)
def test_magics_used_wrongly(shell, step, magic, line, message):
    from IPython.core.error import UsageError

    with pytest.raises(UsageError) as raised:
        shell.run_line_magic(magic, line)
    assert str(raised.value).startswith(message)


@pytest.fixture
def dot(tmp_path, monkeypatch):
    """dot(script): a Graphviz that does what a shell script says."""

    def make(script):
        file = tmp_path / "dot"
        file.write_text("#!/bin/sh\n" + script)
        file.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    return make


def test_the_graph_magic(shell, step, dot):
    step(torch.ones(2))
    step(torch.ones(3))
    number = step.specializations()[0].number
    first, last = (shell.run_line_magic("graph", line) for line in (f"step {number}", "step"))
    assert repr(first).splitlines()[0].startswith(f"step #{number} (x: ")
    assert repr(first) != repr(last) and "aten::mul" in repr(last)
    dot('cat >/dev/null; echo "<?xml?><svg>drawn</svg>"\n')
    assert last._repr_svg_() == "<svg>drawn</svg>\n"
    for broken in ("exit 1\n", "echo no picture\n", "kill -9 $$\n"):
        dot(broken)
        assert last._repr_svg_() is None


def test_a_graph_without_graphviz_is_text(shell, step, monkeypatch):
    step(torch.ones(2))
    monkeypatch.setenv("PATH", "/nowhere")
    drawing = shell.run_line_magic("graph", "step")
    data, _ = shell.display_formatter.format(drawing)
    assert set(data) == {"text/plain"} and "aten::mul" in data["text/plain"]


def test_a_graph_with_branches_and_loops_in_graphviz_language():
    @tracehost.function
    def run(x, n):
        if x.sum() > 0:
            x = x + 1
        else:
            x = x - 1
        while n > 0:
            x = x * 2
            n = n - 1
        return x

    concrete = run.get_concrete_function(
        tracehost.TensorSpec([3]), tracehost.TensorSpec([], torch.int64)
    )
    text = Drawing(concrete.graph, 'a "title"').dot()
    assert text.count("{") == text.count("}") and 'label="a \\"title\\""' in text
    for part in (
        'label="then"',
        'label="else"',
        'label="body"',
        'label="prim::Loop',
        'label="output"',
    ):
        assert part in text
    import shutil
    import subprocess

    if shutil.which("dot"):  # the real one takes it
        assert "<svg" in subprocess.run(["dot", "-Tsvg"], input=text, capture_output=True, text=True, check=True).stdout  # fmt: skip
