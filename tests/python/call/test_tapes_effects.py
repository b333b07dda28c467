"""What a tape does besides its results: sizes that it changes, draws, warnings, signals, memory."""

import signal
import textwrap
import threading

import pytest
import torch
import tracehost
from tape_facts import facts


def resized(x, n):
    z = x.clone()
    z.resize_(n.item())
    return z


def transposed(x, n):
    y = x.reshape(2, 2) * 2
    y.transpose_(0, n.item() - 3)
    return torch.cumsum(y, 0)


def squeezed(x, n):
    y = x.reshape(1, 4, 1) * 2
    y.squeeze_(n.item() - 3)
    return y


def arange(x, n):
    z = x[:3] * 0
    return torch.arange(n.item(), out=z), z


def topk(x, n):
    values, places = x[:3] * 0, x[:3].long() * 0
    torch.topk(x, n.item(), out=(values, places))
    return values, places


def counted(x, n):
    z = x.long() * 0
    return torch.ops.aten.bincount.out(n.reshape(1), None, 0, out=z), z


def repeated(x, n):
    z = x[:3].long() * 0
    return torch.ops.aten.repeat_interleave.Tensor_out(n.reshape(1), out=z), z


@pytest.mark.filterwarnings("ignore:The number of elements")
@pytest.mark.parametrize(
    "body",
    [resized, transposed, squeezed, arange, topk, counted, repeated],
    ids=lambda b: b.__name__,
)
def test_what_a_number_resizes(body):
    """Where the number of the recording changes no size, and a later one does."""
    f = tracehost.function(body, optimize="exact")
    for n in (3, 3, 3, 3, 4, 3, 4, 3):
        n = torch.tensor(n)
        assert facts(f(torch.arange(4.0), n)) == facts(body(torch.arange(4.0), n))


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: torch.bernoulli(x, 0.0),
        lambda x: x.clone().bernoulli_(0.0),
        lambda x: torch.native_dropout(x, 0.0, True)[0],
        lambda x: torch.dropout(x, 0.0, True),
        lambda x: torch.feature_dropout(x, 0.0, True),
        lambda x: torch.alpha_dropout(x, 0.0, True),
    ],
    ids=["bernoulli", "bernoulli_", "native", "dropout", "feature", "alpha"],
)
@pytest.mark.parametrize("optimize", ["off", "exact"])
def test_draws_with_a_probability_of_0(draw, optimize):
    """Also where an op behind it fails: the body then runs with the generator as it was."""
    table = torch.arange(3.0)

    def body(x, i):
        return draw(x), table[i]

    def next_draws(f):
        drawn = []
        for i in (0, 0, 0, 0, 7):
            torch.manual_seed(0)
            try:
                f(torch.ones(2, 3, 4), torch.tensor([i]))
            except IndexError:
                drawn.append("fails")
            drawn.append(torch.rand(1).item())
        return drawn

    assert next_draws(tracehost.function(body, optimize=optimize)) == next_draws(body)


@pytest.fixture
def run(run_host, tmp_path):
    """In a process of its own, from a file: a body without source has no staged branches."""

    def run_program(program):
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(program))
        # Memory that is freed goes back to the system at once, so that a program can see it.
        env = {"OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}
        done = run_host(path, env=env)
        assert done.returncode == 0, done.stderr
        return done

    return run_program


def test_a_warning_that_torch_gives_once_in_a_process(run):
    """The recording runs before the call, and must not use the warning up."""
    program = """
        import torch, tracehost

        def body(x, s):
            if s > 0:
                y = x.to(torch.float32)
            else:
                y = x.real * 1
            return y + 1

        f = tracehost.function(body, optimize="exact")
        for s in (-1, 1, 1, 1):
            f(torch.ones(2, dtype=torch.complex64), torch.tensor(s))
        print(f.specializations()[0].runs_by)
        """
    done = run(program)
    assert "a tape" in done.stdout
    assert done.stderr.count("discards the imaginary part") == 1


def test_a_handler_of_a_signal_has_autograd():
    """A long tape runs handlers between its ops, which run as outside of the tape."""
    w = torch.ones(3, requires_grad=True)
    seen = []

    def handler(*_):
        y = torch.ones(3)
        before = y._version
        y.add_(1)
        loss = (w * 2).sum()
        loss.backward()
        seen.append((w.grad.tolist(), y._version - before, loss.requires_grad))

    @tracehost.function(optimize="exact")
    def f(x):
        i = torch.zeros(())
        while i < 1e9:  # the handler raises first
            x = torch.sin(x) + 0.1
            i = i + x.max() * 0 + step[0]
        return x

    class End(Exception):
        pass

    def end(*arguments):
        handler(*arguments)
        raise End

    step = [torch.tensor(1e9)]
    for _ in range(4):
        f(torch.ones(5))
    assert f.specializations()[0].runs_by.startswith("a tape")
    step[0].fill_(0.0)
    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(End):
            f(torch.ones(5))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert seen == [([2.0, 2.0, 2.0], 1, True)]


PEAK = """
    import torch, tracehost

    def line(name, path="/proc/self/status"):
        return next(int(l.split()[1]) for l in open(path) if l.startswith(name)) / 1024

    def body(x):
        {body}

    f = tracehost.function(body, optimize="exact")
    """


def test_results_of_called_ops_live_as_long_as_they_are_read(run):
    program = (
        PEAK.format(body="for _ in range(40): x = x + 1\n        return x")
        + """
    x = torch.zeros(1 << 17, dtype=torch.long)  # 1 MB, by ops that a tape calls
    for _ in range(8):
        f(x)
    open("/proc/self/clear_refs", "w").write("5")
    before = line("VmHWM")
    f(x)
    print(f.specializations()[0].runs_by, line("VmHWM") - before < 8)
    """
    )
    done = run(program)
    assert done.stdout == "a tape (0 of 40 ops) True\n"


def test_a_run_that_ends_early_keeps_no_results(run):
    program = (
        PEAK.format(
            body="v, i, n = torch.unique_consecutive(x, return_inverse=True, return_counts=True)\n"
            "        return v.sum()"
        )
        + """
    big, small = torch.arange(1 << 20), torch.zeros(1 << 20, dtype=torch.long)
    for _ in range(5):
        f(small)
    f(big), f(small)
    before = line("VmRSS")
    f(big)
    print(f.specializations()[0].runs_by, line("VmRSS") - before < 8)
    """
    )
    done = run(program)
    assert done.stdout == "a tape (0 of 2 ops) True\n"


def test_a_recording_takes_no_numbers_from_another_thread():
    """The numbers of a recording come from a copy of the generator, so that nothing is set back."""
    drawn, done = [], threading.Event()

    def draw():
        while not done.is_set():
            drawn.append(torch.randint(1 << 62, (1,)).item())

    thread = threading.Thread(target=draw)
    thread.start()
    for _ in range(100):
        f = tracehost.function(
            lambda x: torch.nn.functional.dropout(x * 2, 0.5) + torch.rand_like(x),
            optimize="exact",
            validate="off",  # a validation does set the generator back
        )
        for _ in range(4):
            f(torch.ones(20_000))
        assert f.specializations()[0].runs_by.startswith("a tape")
    done.set()
    thread.join()
    assert len(set(drawn)) == len(drawn)


def tape_events(f):
    return [(e.kind, e.signature, e.ops, e.text) for e in tracehost.events(f, graphs=True)]


def test_an_event_says_that_a_graph_has_a_tape():
    f = tracehost.function(lambda x: x * 2, optimize="exact", reduce_retracing=True)
    for size in (3, 3, 3, 4, 4, 4, 5, 5, 5):
        f(torch.ones(size))
    assert tape_events(f) == [
        ("tape", "(x: float32[3])", 1, "a tape (1 of 1 ops)"),
        ("tape", "(x: float32[None])", 1, "a tape (1 of 1 ops)"),
    ]


def test_an_event_says_why_a_graph_has_no_tape():
    f = tracehost.function(lambda x: torch.linalg.matrix_power(x, 2), optimize="exact")
    for _ in range(5):
        f(torch.eye(3))
    none = "aten::linalg_matrix_power"
    assert tape_events(f) == [("no_tape", "(x: float32[3, 3])", 0, none)]
    assert f.specializations()[0].runs_by == f"the interpreter: {none}"


def test_an_event_says_that_a_graph_gives_its_tapes_up():
    def body(counter, i):
        counter.add_(1)
        return torch.index_select(counter, 0, i)

    f = tracehost.function(body, optimize="exact")
    counter = torch.zeros(3)
    for i in (0, 1, 2, 0, 1):
        f(counter, torch.tensor([i]))
    with pytest.raises(IndexError):
        f(counter, torch.tensor([7]))
    f(counter, torch.tensor([1]))
    assert counter.tolist() == [7.0] * 3
    made, gone = tape_events(f)
    assert made[0] == "tape"
    assert gone[0] == "drop_tape" and gone[3] == "a run ended behind a write or a draw"


def test_off_has_no_events():
    f = tracehost.function(lambda x: x * 2, optimize="off")
    for _ in range(5):
        f(torch.ones(3))
    assert tape_events(f) == []
