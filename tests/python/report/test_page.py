"""The page of a run: what it says, that each text is escaped, and its size."""

import json
import re
from html.parser import HTMLParser

import pytest
from tracehost._reports import run
from tracehost._reports.page import page

VOID = {"meta", "line", "rect", "br"}


class Reader(HTMLParser):
    """The text of a page; asserts that tags are closed in order, and that nothing is run or loaded."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "link", "img", "iframe", "object"), tag
        for name, value in attrs:
            assert not name.startswith("on") and name != "src", (tag, name)
            assert name != "href" or value.startswith("#"), value
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


def place(line: int, file: str = "/src/train.py") -> dict:
    return {"file": file, "line": line, "text": f"train.py:{line}"}


def trace(at: float, causes: list[str], function: str = "step", **more) -> dict:
    known = {
        "version": 1,
        "time": at,
        "pid": 1,
        "event": "trace",
        "function": function,
        "site": hash(function) % 1000,
    }
    sites = {"definition": place(12), "call": place(40), "signature": "(x: float32[2])"}
    figures = {
        "causes": causes,
        "notes": [],
        "ms": 2.5,
        "ops": 3,
        "dynamic": False,
        "requested": False,
    }
    return {**known, **sites, **figures, **more}


def lines_of(events: list[dict], end: list[dict] | None = None) -> list[str]:
    records = [
        {
            "version": 1,
            "time": 100.0,
            "pid": 1,
            "event": "start",
            "program": ["train.py"],
            "python": "3",
        },
        *events,
    ]
    if end is not None:
        records.append(
            {"version": 1, "time": 110.0, "pid": 1, "event": "functions", "functions": end}
        )
    return [json.dumps(record) + "\n" for record in records]


def row(**changes) -> dict:
    counts = {"calls": 9, "hits": 7, "traces": 2, "retraces": 1, "eager": 0, "ms": 5.0}
    advice = "\n  why   argument 'x' took 2 sizes\n  fix   pad it   would save 1 of 2 traces"
    texts = {
        "function": "step (train.py:12)",
        "qualified": "train.step",
        "cause": "'x' size",
        "advice": advice,
    }
    return {**counts, **texts, "definition": place(12), "site": hash("step") % 1000, **changes}


def test_a_run_to_its_end():
    text = Reader(
        page(run.of_lines(lines_of([trace(101, []), trace(102, ["'x' was 1, is 2"])], [row()])))
    ).text
    assert (
        "1 Function, 9 calls, 7 hits, 2 traces, 1 of them again. The traces took 5.0 ms, 0.1 % of the run."
        in text
    )
    assert "why argument 'x' took 2 sizes fix pad it would save 1 of 2 traces" in text
    assert "2.00 train.py:40 (x: float32[2]) 2.5 ms 3 'x' was 1, is 2" in text


def test_a_run_that_was_killed():
    made = run.of_lines(lines_of([trace(101, []), trace(102, ["'x' was 1, is 2"])]))
    text = Reader(page(made)).text
    assert (
        "without figures at its end, as a child or a killed run has none: calls and hits are not known"
        in text
    )
    assert "? calls, ? hits, 2 traces, 1 of them again" in text


def test_a_request_of_a_run_that_was_killed_is_no_retrace():
    requested = trace(102, ["'x' was 1, is 2"], requested=True)
    (one,) = run.of_lines(lines_of([trace(101, []), requested]))["functions"]
    assert (one["traces"], one["retraces"], one["cause"]) == (2, 0, "")


def test_a_last_line_that_is_not_whole_is_left_out():
    lines = lines_of([trace(101, [])])
    assert run.of_lines([*lines, '{"version":1,"ti'])["events"] == run.of_lines(lines)["events"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("no\n", "line 1 is not JSON: 'no\\n'"),
        ("[1]\n", "line 1 is no event: '[1]\\n'"),
        ('{"event": "trace", "version": 2}\n', "line 1 has version 2, not 1"),
    ],
)
def test_files_that_events_did_not_write(line, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        run.of_lines([line])


def test_every_text_is_escaped():
    evil = "<script>alert('1')</script>"
    named = place(12, f"/src/{evil}.py")
    event = trace(101, [evil], function=evil, signature=evil, definition={**named, "text": evil})
    event["call"] = {**place(40), "text": evil}
    fail = {**trace(101, []), "event": "fail", "text": evil}
    shown = row(
        site=event["site"],
        function=f"{evil} ({evil})",
        cause=evil,
        advice=f"\n  why   {evil}",
        qualified=evil,
        definition=named,
    )
    lines = lines_of([event, fail], [shown])
    lines[0] = lines[0].replace("train.py", evil)
    assert evil in Reader(page(run.of_lines(lines))).text


def test_a_page_without_functions():
    assert "No Function was called." in Reader(page(run.of_lines([]))).text


def test_five_thousand_traces_are_a_page_under_three_megabytes():
    events = [
        trace(100 + n / 1000, ["'x' " + "was 1, is 2" * 20], function=f"f{n % 20}")
        for n in range(5000)
    ]
    assert len(page(run.of_lines(lines_of(events)))) < 3_000_000


def test_source_is_marked(run_host, tmp_path):
    (tmp_path / "net.py").write_text(
        "import torch, tracehost\n\n@tracehost.function\ndef step(x):\n    return x * 2\n\n"
        "for n in (1, 2, 3):\n    step(torch.ones(n))\n"
    )
    done = run_host("--report=run.html", "--events=run.jsonl", "net.py")
    assert (done.returncode, done.stderr) == (0, "")
    made = (tmp_path / "run.html").read_text()
    assert re.search(
        r'<span class="hit"> +8 +step\(torch\.ones\(n\)\) +<b>2 traced again</b></span>', made
    )
    assert re.search(r"<span> +5 +return x \* 2</span>", made)
    done = run_host("report", "run.jsonl", "-o", "again.html")
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 traced again" in Reader((tmp_path / "again.html").read_text()).text


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["nowhere.jsonl"], 2, "cannot open 'nowhere.jsonl': No such file or directory"),
        (
            ["net.txt"],
            1,
            "'net.txt' is not a file that 'tracehost --events FILE SCRIPT.py' wrote: line 1 is not JSON: 'text\\n'",
        ),
        (
            ["net.txt", "-o", "a.pdf"],
            2,
            "--output takes a name that ends in .html or .json, got 'a.pdf'",
        ),
        ([], 2, "'report' takes one FILE"),
    ],
)
def test_errors_of_the_command(run_host, tmp_path, words, code, message):
    (tmp_path / "net.txt").write_text("text\n")
    done = run_host("report", *words)
    assert (done.returncode, done.stderr) == (code, f"tracehost: {message}\n")


def test_graphs_where_graphviz_is(run_host, tmp_path):
    """The latest graph of each Function that is alive, by `dot`. Each instance of a method has its own."""
    (tmp_path / "net.py").write_text(
        "import torch, tracehost\n"
        "@tracehost.function\ndef kept(x):\n    return x * 2\n"
        "class Net:\n    @tracehost.function\n    def step(self, x):\n        return x + 1\n"
        "def gone():\n    return tracehost.function(lambda x: x - 1)(torch.ones(2))\n"
        "net = Net()\nkept(torch.ones(2)), net.step(torch.ones(2)), gone()\n"
    )
    tools = tmp_path / "tools"
    tools.mkdir()
    dot = tools / "dot"
    dot.write_text(
        '#!/bin/sh\necho "<?xml?><svg><title>$(grep -c aten /dev/stdin; true)</title></svg>"\n'
    )
    dot.chmod(0o755)
    path = {"PATH": f"{tools}:/usr/bin:/bin"}
    done = run_host("--report=run.html", "net.py", env=path)
    assert (done.returncode, done.stderr) == (0, "")
    text = (tmp_path / "run.html").read_text()
    Reader(text)
    assert text.count("the graph of the latest trace") == text.count("<svg><title>") == 1
    dot.write_text("#!/bin/sh\nexit 1\n")
    done = run_host("--report=run.html", "net.py", env=path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "the graph of the latest trace" not in (tmp_path / "run.html").read_text()
