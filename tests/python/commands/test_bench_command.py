"""tracehost bench, on a clock that only the measured functions move."""

import json
import re
import sys

import pytest
import torch
import tracehost
from archive_module import plain
from tracehost import TensorSpec
from tracehost_commands.bench import bench, timing
from tracehost_commands.bench import report as bench_report
from tracehost_commands.bench.report import Case
from tracehost_commands.bench.timing import Contender, measure
from tracehost_commands.errors import CommandError
from tracehost_commands.reading import read

MS = 1_000_000


class Clock:
    """A list is not appended to by hits."""

    def __init__(self):
        self.spent = []

    def __call__(self):
        return sum(self.spent)

    def takes(self, ns):
        self.spent.append(ns)


clock = Clock()


def in_graph(x, ns):
    return tracehost.py_function(lambda t: (clock.takes(ns), t)[1], [x], torch.float32)


def faster(x):
    """Eager takes 4 ms; the graph has the 1 ms of the second line."""
    clock.takes(3 * MS)
    return in_graph(x, MS) + 1


def slower(x):
    clock.takes(-3 * MS)
    return in_graph(x, 4 * MS) + 1


def reads(x):
    clock.takes(8 * MS)
    return x * 2 if x.sum().numpy().tolist() else x


def broken(x):
    return x.no_such_thing


def fickle(x):
    """Raises at its third call."""
    clock.takes(8 * MS)
    calls.append(x)
    if len(calls) == 3:
        raise ValueError("the third call")
    return x


calls = []
shaped = tracehost.function(lambda x: in_graph(x, 6 * MS), input_signature=[TensorSpec([2])])
concrete = tracehost.function(lambda x: x).get_concrete_function(TensorSpec([2]))


class Net:
    @tracehost.function
    def run(self, x):
        return in_graph(x, 6 * MS)


net = Net()
net.run(torch.ones(2))  # its trace is no first call of the benchmark's


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    monkeypatch.setattr("sys.argv", [*sys.argv])
    monkeypatch.setattr(bench, "_clock", clock)
    clock.spent.clear()
    calls.clear()


def run_bench(*words):
    return bench.main(*read("bench", list(words)))


@pytest.fixture
def table(capsys):
    """table(function, *options) -> the exit code, the lines below the first, and what is on stderr"""

    def run(function, *options):
        code = run_bench("--repeat=4", *options, f"test_bench_command:{function}")
        out, err = capsys.readouterr()
        assert out.startswith(f"tracehost {tracehost.__version__}, torch {torch.__version__}, ")
        return code, out.splitlines()[2:], err

    return run


AGAINST = "--against=eager"
PAIR = "--signature=f32[2]"


def test_the_table(table):
    assert table("faster", AGAINST, PAIR, "--max-regress=0") == (
        0,
        [
            "faster(float32[2])",
            "                 p10   median      p90  of eager  first call  pays back",
            "  eager      4.00 ms  4.00 ms  4.00 ms      1.00     4.00 ms",
            "  tracehost  1.00 ms  1.00 ms  1.00 ms      0.25     4.00 ms  at call 1",
        ],
        "",
    )


@pytest.mark.parametrize(
    "switch", [lambda: tracehost.run_functions_eagerly(True), lambda: tracehost.stance("eager")]
)
def test_calls_run_graphs_whatever_is_switched(table, switch):
    with switch():
        _, lines, _ = table("faster", AGAINST, PAIR)
    assert lines[-1].split()[1:] == "1.00 ms 1.00 ms 1.00 ms 0.25 4.00 ms at call 1".split()


def test_a_signature_each(table):
    _, lines, _ = table("faster", AGAINST, PAIR, "--signature=f32[3,4]")
    assert [line for line in lines if line.startswith("faster")] == [
        "faster(float32[2])",
        "faster(float32[3, 4])",
    ]
    assert lines.count("") == 1 and len(lines) == 9


def compared(eager_ms, ours_ms):
    eager, ours = Contender("eager", plain, ()), Contender("tracehost", plain, ())
    eager.samples, ours.samples = [n * MS for n in eager_ms], [n * MS for n in ours_ms]
    ours.first_ns = 12 * MS
    return Case("f()", [eager, ours])


def test_rounds_are_compared_one_by_one():
    """A machine that is slow for a while is slow for both."""
    case = compared([4, 4, 4, 40, 40, 40], [2, 2, 2, 20, 20, 99])
    rows = bench_report.as_text([case]).splitlines()[-2:]
    assert rows[0].split()[1:] == "4.00 ms 22.00 ms 40.00 ms 1.00 0.00 us".split()
    assert rows[1].split()[1:] == "2.00 ms 11.00 ms 59.50 ms 0.50 12.00 ms at call 1".split()


def test_rounds_that_disagree(capsys):
    case = compared([4, 4, 4, 4], [2, 8, 2, 8])
    assert bench_report.as_text([case]).endswith("  12.00 ms  too noisy to say\n")
    assert case.rows()[1]["noisy"] is True
    assert bench_report.slower([case], 10) == ""
    assert capsys.readouterr().err == (
        "tracehost: f(): too noisy to say whether it takes 1.10 times eager's time; raise --repeat, or run it on a quiet machine\n"
    )
    assert "times eager's time" in bench_report.slower([compared([4] * 4, [5, 6, 6, 7])], 10)


def test_slower_than_allowed_is_code_3(table):
    message = "tracehost: slower(float32[2]): 4.00 times eager's time, {} allowed (--max-regress)\n"
    code, lines, err = table("slower", AGAINST, PAIR, "--max-regress=50")
    assert (code, err) == (3, message.format("1.50"))
    assert re.search(r" 4\.00 +1\.00 ms +never$", lines[-1])
    assert table("slower", AGAINST, PAIR, "--max-regress=299")[::2] == (3, message.format("3.99"))
    assert table("slower", AGAINST, PAIR, "--max-regress=300")[::2] == (0, "")
    assert table("slower", AGAINST, PAIR)[::2] == (0, "")


def test_json(capsys):
    code = run_bench(
        "--json", "--repeat=4", AGAINST, PAIR, "--max-regress=1", "test_bench_command:slower"
    )
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert (code, len(err.splitlines())) == (3, 1)
    assert {k: document[k] for k in ("schema", "function", "tracehost", "torch", "threads")} == {
        "schema": "tracehost.bench/1",
        "function": "slower",
        "tracehost": tracehost.__version__,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }
    row = {"rounds": 4, "first_call_ns": MS, "pays_back_calls": None}
    times = ("median_ns", "p10_ns", "p90_ns")
    assert document["signatures"] == [
        {
            "signature": "slower(float32[2])",
            "rows": [
                {
                    "name": "eager",
                    "of_eager": 1.0,
                    "noisy": False,
                    **dict.fromkeys(times, MS),
                    **row,
                },
                {
                    "name": "tracehost",
                    "of_eager": 4.0,
                    "noisy": False,
                    **dict.fromkeys(times, 4 * MS),
                    **row,
                },
            ],
        }
    ]


def test_torch_compile_where_it_fails(table, monkeypatch):
    def compiled(body):
        def call(x):
            raise RuntimeError("\nno compiler here\nand more lines")

        return call

    monkeypatch.setattr(torch, "compile", compiled)
    code, lines, err = table("faster", PAIR)
    assert (code, err, len(lines)) == (0, "", 5)
    assert lines[3] == "  torch.compile  failed: RuntimeError: no compiler here"
    assert lines[4].startswith("  tracehost      1.00 ms ")


def test_torch_compile_where_it_runs(table, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda body: lambda x: clock.takes(2 * MS))
    _, lines, _ = table("faster", PAIR)
    assert (
        lines[3].split() == "torch.compile 2.00 ms 2.00 ms 2.00 ms 0.50 2.00 ms at call 1".split()
    )
    _, lines, _ = table("faster", PAIR, "--against=compile")
    assert [line.split()[0] for line in lines[2:]] == ["torch.compile", "tracehost"]
    assert lines[2].split() == "torch.compile 2.00 ms 2.00 ms 2.00 ms 2.00 ms".split()


def test_a_function_that_cannot_be_traced(capsys):
    with pytest.raises(CommandError) as caught:
        run_bench("--repeat=1", AGAINST, PAIR, "test_bench_command:reads")
    assert caught.value.code == 1
    assert re.match(
        r"reads\(float32\[2\]\): the body reads .* at \S*test_bench_command\.py:\d+",
        str(caught.value),
    )
    eager, ours = capsys.readouterr().out.splitlines()[-2:]
    assert eager.startswith("  eager      8.00 ms  ")
    assert ours.startswith("  tracehost  failed: ValueReadError: the body reads ")


@pytest.mark.filterwarnings("ignore::tracehost.SideEffectWarning")
def test_a_function_that_raises(capsys):
    with pytest.raises(AttributeError, match="no_such_thing"):
        run_bench(AGAINST, PAIR, "test_bench_command:broken")
    with pytest.raises(ValueError, match="the third call"):
        run_bench("--warmup=5", AGAINST, PAIR, "test_bench_command:fickle")
    assert capsys.readouterr().out == ""


def test_the_input_signature_is_what_is_measured(table):
    _, lines, _ = table("shaped", AGAINST)
    assert lines[0] == "shaped(float32[2])"


def test_methods(table):
    """The trace is made again: the first call has it."""
    _, lines, _ = table("net.run", AGAINST, PAIR)
    assert lines[0] == "net.run(float32[2])"
    assert net.run.stats()["traces"] == 2


def test_archives(table, capsys, tmp_path):
    f = tracehost.function(plain)
    f.warm_up([TensorSpec([2])])
    f.save("a.pt")
    timing_of_calls = ["--repeat=1", "--warmup=0", PAIR]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing, "MOST_CALLS", 3)
        assert run_bench(*timing_of_calls, "a.pt:plain") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "plain(float32[2])" and len(lines) == 5
    assert lines[4].split() == ["tracehost", *["0.00", "us"] * 4]


NAME = "test_bench_command:faster"
TAKES = "'bench' takes one MODULE:FUNCTION, SCRIPT.py:FUNCTION or ARCHIVE:FUNCTION"
WRONG = [
    ([], [], TAKES),
    ([], [NAME, "x"], f"{TAKES}, got '{NAME} x'"),
    ([], ["faster"], "'faster' names no function: write MODULE:FUNCTION or SCRIPT.py:FUNCTION"),
    ([], ["test_bench_command:none"], "test_bench_command has no 'none'"),
    ([], ["test_bench_command:MS"], "test_bench_command:MS is of type int, not a function"),
    ([], ["test_bench_command:concrete"], "test_bench_command:concrete is a ConcreteFunction; name the function that it was made of"),
    ([], [NAME], f"{NAME}(x) takes arguments: give them, --signature 'f32[32,128], 2'"),
    (["--signature=f32[2], 3"], [NAME], "--signature 'f32[2], 3' does not fit (x): too many positional arguments"),
    (["--signature=f32[?]"], [NAME], "--signature 'f32[?]': a size must be a number to be measured with"),
    (["--signature=f33[2]"], [NAME], "'f33' in --signature is not a dtype; write one of f16, f32, f64, bf16, i8, i16, i32, i64, u8, c64, c128, bool"),
    (["--against=jax"], [NAME], "--against takes eager and compile, got 'jax'"),
    (["--against=compile", "--max-regress=5"], [NAME], "--max-regress compares with eager, which --against leaves out"),
    (["--repeat=0"], [NAME], "--repeat takes a whole number from 1 on, got '0'"),
    (["--warmup=x"], [NAME], "--warmup takes a non-negative integer, got 'x'"),
    (["--max-regress=-1"], [NAME], "--max-regress takes a non-negative number, got '-1'"),
    (["--max-regress=5"], ["a.pt:plain"], "a.pt:plain is in an archive: --max-regress has no eager to compare it with"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "words", "message"), WRONG)
def test_what_is_wrong(options, words, message, tmp_path):
    (tmp_path / "a.pt").write_bytes(b"hello")
    with pytest.raises(CommandError) as caught:
        run_bench(*options, *words)
    assert (caught.value.code, str(caught.value)) == (2, message)


def test_archives_that_are_wrong(tmp_path):
    (tmp_path / "b.pt").write_bytes(b"hello")
    f = tracehost.function(plain)
    f.warm_up([TensorSpec([2])])
    f.save("a.pt")
    for target, code, message in (
        ("b.pt:plain", 1, "b.pt is not a tracehost archive: it is not a zip file"),
        ("a.pt:none", 2, "a.pt has no 'none'; there is plain"),
        (
            "no.pt:plain",
            2,
            "there is no module 'no.pt', and no such file; a script needs its suffix .py",
        ),
    ):
        with pytest.raises(CommandError) as caught:
            run_bench(PAIR, target)
        assert (caught.value.code, str(caught.value)) == (code, message)


def test_through_the_binary(run_host, tmp_path):
    (tmp_path / "tool.py").write_text("def twice(x, n): return x * n\n")
    words = ["--against=eager", "--signature", "f32[2,3], 4", "--warmup=1", "--repeat=2"]
    done = run_host("bench", *words, "tool.py:twice")
    assert (done.returncode, done.stderr) == (0, "")
    first, empty, title, *rows = done.stdout.splitlines()
    assert re.fullmatch(
        r"tracehost \S+, torch \S+, \d+ threads? on \d+ cores, 2 rounds in turns", first
    )
    assert (empty, title) == ("", "twice(float32[2, 3], 4)")
    assert [row.split()[0] for row in rows] == ["p10", "eager", "tracehost"]


# -- the measuring itself ----------------------------------------------------------------------------------


def contender(name, *ns):
    """Its calls take these times, then the last one again and again; `order` has who was called."""

    def call():
        order.append(name)
        clock.takes(times.pop(0) if len(times) > 1 else times[0])

    times = list(ns)
    return Contender(name, call, ())


order = []


@pytest.fixture
def contenders():
    order.clear()
    return lambda **times: [contender(name, *ns) for name, ns in times.items()]


def test_rounds_take_turns(contenders):
    a, b, c = contenders(a=[9 * MS], b=[8 * MS], c=[7 * MS])
    measure([a, b, c], clock, warmup=2, rounds=4)
    # The first call of each, its warm-up and one block to see how long it takes, then the rounds.
    assert "".join(order) == "abc" + "aaa" + "bbb" + "ccc" + "abc" + "bca" + "cab" + "abc"
    assert (a.first_ns, a.samples, b.samples) == (9 * MS, [9 * MS] * 4, [8 * MS] * 4)


def test_quick_calls_are_measured_by_the_block(contenders):
    (a,) = contenders(a=[MS // 10])
    measure([a], clock, warmup=0, rounds=1)
    assert a.samples == [MS // 10]
    # The first call, blocks of 1, 35, 70, of which the last one took 5 ms, and the round.
    assert len(order) == 1 + (1 + 35 + 70) + 70


def test_the_first_call_is_told_apart(contenders):
    (a,) = contenders(a=[70 * MS, 6 * MS])
    measure([a], clock, warmup=1, rounds=2)
    assert (a.first_ns, timing.quantile(a.samples, 50)) == (70 * MS, 6 * MS)


def test_spread(contenders):
    (a,) = contenders(a=[0, 9 * MS, *(i * MS for i in range(10, 21)), 0])
    measure([a], clock, warmup=0, rounds=11)
    assert [timing.quantile(a.samples, p) for p in (10, 50, 90)] == [11 * MS, 15 * MS, 19 * MS]


def test_rounds_end_after_ten_seconds_where_their_number_was_not_asked_for(contenders):
    (a,) = contenders(a=[1000 * MS])
    measure([a], clock, warmup=0)
    assert len(a.samples) == 11
    (b,) = contenders(b=[9000 * MS])
    measure([b], clock, warmup=0)
    assert len(b.samples) == timing.FEWEST_ROUNDS
    (c,) = contenders(c=[6 * MS])
    measure([c], clock, warmup=0)
    assert len(c.samples) == timing.ROUNDS
    (d,) = contenders(d=[9000 * MS])
    measure([d], clock, warmup=0, rounds=8)
    assert len(d.samples) == 8


def test_one_that_fails_leaves_the_others_alone(contenders):
    def fails():
        raise OSError("always")

    a, b = contenders(a=[6 * MS], b=[6 * MS])
    b.call = fails
    measure([a, b], clock, warmup=1, rounds=3)
    assert len(a.samples) == 3 and b.samples == [] and isinstance(b.failure, OSError)
