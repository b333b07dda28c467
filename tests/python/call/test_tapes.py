"""Functions with optimize="exact" beside eager: values, strides, versions, views, and what runs them."""

import threading
import warnings

import pytest
import torch
import torch.nn.functional as F
import tracehost
from tape_facts import facts
from torch import nn
from tracehost.testing import assert_traces

CASES = {}
HAS_REGIONS = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
TAPE = "a tape ({} of {} ops)"
REGIONS = "a tape + {} regions ({} of {} ops)" if HAS_REGIONS else "a tape ({1} of {2} ops)"
REGION = "a tape + 1 region ({} of {} ops)" if HAS_REGIONS else TAPE


def case(runs_by):
    """A maker of a body and of its calls' arguments."""

    def keep(make):
        CASES[make.__name__] = (make, runs_by)
        return make

    return keep


def floats(*sizes):
    return [torch.randn(*sizes) for _ in range(6)]


@case(REGION.format(90, 90))
def chain():
    def body(x):
        for _ in range(30):
            x = torch.relu(x * 1.01 + 0.1)
        return x

    return body, floats(3, 3)


@case(TAPE.format(4, 4))
def perceptron():
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2), nn.Tanh())
    return model, floats(5, 4)


@case(TAPE.format(3, 4))
def attention():
    projected = nn.Linear(8, 24)
    norm = nn.LayerNorm(8)

    def body(x):
        q, k, v = projected(x).view(2, 3, 3, 2, 4).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 3, 8)
        return norm(x + F.dropout(y, 0.1, False))

    return body, floats(2, 3, 8)


@case(TAPE.format(0, 1))
def transformer_layer_of_one_op():
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    return lambda x: model(x), floats(2, 3, 8)


@case(TAPE.format(1, 2))
def index():
    table = torch.randn(5, 3)
    return lambda i: torch.relu(table[i]), [torch.tensor([k % 5, 1]) for k in range(6)]


@case(TAPE.format(1, 1))
def views_of_one_result():
    def body(x):
        y = x * 2
        return y.t(), y[0], y, y.t()

    return body, floats(3, 4)


@case(TAPE.format(0, 0))
def views_of_the_input():
    return lambda x: (x.t(), x[1:], x), floats(3, 4)


@case(TAPE.format(4, 4))
def own_memory_is_written():
    def body(x):
        y = x * 2
        y[0] += 1
        return y, y.relu_()

    return body, floats(3, 4)


@case(TAPE.format(1, 4))
def numbers():
    def body(x):
        n = x.sum().item()
        return x * n, n

    return body, floats(3)


@case(TAPE.format(2, 3))
def integers():
    return lambda x: (x + 1).float().sin(), [torch.arange(5) + k for k in range(6)]


@case(REGION.format(2, 2))
def no_grad_inside():
    def body(x):
        with torch.no_grad():
            y = x * 2
        return y + 1

    return body, floats(3)


@case(TAPE.format(1, 1))
def writes_to_an_input():
    return lambda x: x.add_(1), floats(3)


@case(TAPE.format(1, 2))
def draws():
    return lambda x: x + torch.rand_like(x), floats(3)


@case(TAPE.format(0, 1))
def running_mean():
    mean, variance = torch.zeros(4), torch.ones(4)
    return lambda x: (F.batch_norm(x, mean, variance, training=True), mean, variance), floats(5, 4)


@case(TAPE.format(2, 5))
def branch():
    def body(x):
        if x.sum() > 0:
            y = x * 2
        else:
            y = x - 1
        return y + 1

    return body, floats(3)


@case(TAPE.format(4, 6))
def branch_that_gives_what_it_was_given():
    def body(x):
        y = x * 3
        if x.sum() > 0:
            y = y * 2
        return torch.relu(y)

    return body, floats(3)


@case("the interpreter: an output that a loop or a branch gives as it was given")
def branch_whose_result_is_an_argument():
    def body(x):
        y = x
        if x.sum() > 100:
            y = x * 2
        return y, x

    return body, floats(3)


@case(REGIONS.format(2, 6, 10))
def loop_until_it_converges():
    def body(x):
        x = x.abs() + 1
        y, turns = x, torch.zeros((), dtype=torch.long)
        while (y * y - x).abs().max() > 1e-4:
            y = (y + x / y) / 2
            turns = turns + 1
        return y, turns

    return body, floats(5)


@case(TAPE.format(0, 3))
def loop_that_draws():
    def body(x):
        total = torch.zeros(())
        for _ in tracehost.range(5):
            total = total + torch.rand(4, 2).sum()
        return total / 5

    return body, floats(1)


@case(TAPE.format(1, 3))
def loop_over_rows():
    def body(x):
        h = torch.zeros(4)
        for row in x:
            h = torch.tanh(h * 0.5 + row)
        return -h

    return body, floats(6, 4)


@case(TAPE.format(0, 2))
def branch_in_a_loop():
    def body(x):
        total = torch.zeros(3)
        for row in x:
            if row.sum() > 0:
                total = total + row
            else:
                total = total - row * 2
        return total

    return body, floats(6, 3)


@case(TAPE.format(0, 3))
def loop_in_a_loop():
    def body(x):
        total = torch.zeros(())
        for row in x:
            left = row
            while left.sum() > 0.5:
                left = left / 2
                total = total + left.max()
        return total * 2

    return body, floats(6, 3)


@case(TAPE.format(2, 5))
def loop_in_a_branch():
    def body(x):
        if x.sum() > 0:
            for _ in tracehost.range(3):
                x = x * 2 + 1
        else:
            x = x - 1
        return x * 1

    return body, floats(3)


@case(TAPE.format(0, 1))
def loops_in_loops_that_draw():
    def body(x):
        for _ in tracehost.range(2):
            for _ in tracehost.range(3):
                x = x + torch.rand(2)
                while x.sum() > 3:
                    x = x * torch.rand(2)
        return x

    return body, floats(2)


@case(TAPE.format(0, 2))
def loop_that_writes_to_what_it_made():
    def body(x):
        y = torch.zeros(3)
        for row in x:
            t = row * 2
            t.add_(1).mul_(row)
            t[1].neg_()
            y = t
        return y

    return body, floats(6, 3)


@case(TAPE.format(2, 4))
def branch_that_writes_to_what_it_made():
    def body(x):
        if x.sum() > 0:
            y = x * 2
            y.add_(1)
            y.relu_()
        else:
            y = x.clone()
        return y

    return body, floats(3)


@case(TAPE.format(3, 4))
def loop_that_writes():
    def body(x):
        total = x.sum(0) * 0
        for row in x:
            total.add_(row)
        return total * 2

    return body, floats(6, 3)


@pytest.mark.parametrize("name", CASES)
def test_as_eager(name):
    make, runs_by = CASES[name]
    torch.manual_seed(0)
    body, calls = make()
    torch.manual_seed(0)
    twin, _ = make()
    f = tracehost.function(body, optimize="exact")
    with assert_traces(f, 1):
        with torch.no_grad():
            for x in calls:
                mine, its = x.clone(), x.clone()
                torch.manual_seed(1)
                expected = facts([twin(its), its])
                torch.manual_seed(1)
                assert facts([f(mine), mine]) == expected
    (one,) = f.specializations()
    assert one.runs_by == runs_by
    assert f"runs by {runs_by}" in str(one)


def test_results_do_not_share_memory():
    f = tracehost.function(lambda x: (x * 2, (x * 3).t()), optimize="exact")
    results = [f(torch.full((2, 2), float(k))) for k in range(6)]
    for k, (double, triple) in enumerate(results):
        assert double.tolist() == [[2.0 * k] * 2] * 2 and triple.tolist() == [[3.0 * k] * 2] * 2


@pytest.mark.parametrize(
    "changed",
    [
        lambda x: x.t(),
        lambda x: x.double(),
        lambda x: x.requires_grad_(),
        lambda x: x.expand(3, 3),
        lambda x: torch.empty(9 * 4 + 1, dtype=torch.uint8)[1:].view(-1)[: 9 * 4].numpy(),
    ],
    ids=["strides", "dtype", "requires grad", "overlap", "unaligned"],
)
def test_a_call_that_differs(changed):
    body = lambda x: (torch.as_tensor(x) * 2 + 1).sin()
    f = tracehost.function(body, optimize="exact")
    for _ in range(4):
        f(torch.randn(3, 3))
    other = changed(torch.randn(3, 3))
    if not isinstance(other, torch.Tensor):
        other = torch.frombuffer(bytearray(37), dtype=torch.uint8, offset=1).view(torch.float32)
        other = other.view(3, 3)
    for _ in range(4):
        mine, eager = f(other), body(other)
        assert torch.equal(mine, eager) and mine.requires_grad == eager.requires_grad
        assert torch.equal(f(torch.ones(3, 3)), body(torch.ones(3, 3)))


def test_modes_around_a_call():
    w = torch.ones(2, requires_grad=True)
    body = lambda x: x * w
    f = tracehost.function(body, optimize="exact")
    x = torch.randn(2)
    for _ in range(4):
        with torch.no_grad():
            assert not f(x).requires_grad
        with torch.inference_mode():
            assert f(x).is_inference() and torch.equal(f(x), body(x))
        f(x).sum().backward()
        with torch.autocast("cpu", torch.bfloat16):
            assert f(x).dtype == body(x).dtype
    assert torch.equal(w.grad, 4 * x)


def test_forward_mode_behind_a_tape():
    from torch.autograd import forward_ad

    f = tracehost.function(lambda x: (x * x + 1).sin(), optimize="exact")
    x = torch.randn(5)
    for _ in range(4):
        f(x)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones(5))
        got = forward_ad.unpack_dual(f(dual)).tangent
        assert torch.equal(got, forward_ad.unpack_dual((dual * dual + 1).sin()).tangent)


def test_an_error_is_eagers_and_the_tape_serves_on():
    table = torch.arange(3.0)
    body = lambda i: table[i] * 2
    f = tracehost.function(body, optimize="exact")
    for k in (0, 1, 2, 0):
        f(torch.tensor([k]))
    with pytest.raises(IndexError) as caught:
        f(torch.tensor([7]))
    with pytest.raises(IndexError) as eager:
        body(torch.tensor([7]))
    assert str(caught.value) == str(eager.value)
    assert f(torch.tensor([1])).item() == 2
    assert f.specializations()[0].runs_by == TAPE.format(1, 2)


def test_sizes_that_depend_on_values():
    f = tracehost.function(lambda x: x[x > 0] * 2, optimize="exact")
    for values in (
        [1.0, -1, 2],
        [1.0, -1, 2],
        [3.0, -1, 4],
        [1.0, 1, 1],
        [-1.0, -1, -1],
        [5.0, 6, -1],
    ):
        x = torch.tensor(values)
        assert torch.equal(f(x), x[x > 0] * 2)


def test_a_changed_parameter_and_another_one():
    model = nn.Linear(2, 2)
    f = tracehost.function(model, optimize="exact")
    with torch.no_grad():
        for step in range(8):
            x = torch.randn(3, 2)
            assert torch.equal(f(x), F.linear(x, model.weight, model.bias))
            if step % 2:
                model.weight.add_(1)
            else:
                model.weight.data = torch.randn(2, 2)


def test_dynamic_sizes():
    f = tracehost.function(
        lambda x: (x * 2).sum(0) / x.shape[0],
        input_signature=[tracehost.TensorSpec([None, 2])],
        optimize="exact",
    )
    with assert_traces(f, 1):
        for n in (1, 2, 2, 2, 3, 1, 3, 3, 2, 0, 0, 0):
            x = torch.randn(n, 2)
            assert torch.equal(
                f(x).nan_to_num(), ((x * 2).sum(0) / n if n else x.sum(0) / 0).nan_to_num()
            )


def test_eight_threads():
    f = tracehost.function(lambda x: (x * 2 + 1).sin(), optimize="exact")
    wrong = []

    def work(k):
        x = torch.full((4,), float(k))
        expected = (x * 2 + 1).sin()
        wrong.extend(k for _ in range(300) if not torch.equal(f(x), expected))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_settings_of_the_process():
    body = lambda x: (x * 1e-30) * 1e-15
    f = tracehost.function(body, optimize="exact")
    x = torch.full((8,), 1.0)
    for _ in range(4):
        assert torch.equal(f(x), body(x))
    if torch.set_flush_denormal(True):
        try:
            assert torch.equal(f(x), body(x)) and not f(x).any()
        finally:
            torch.set_flush_denormal(False)
    assert torch.equal(f(x), body(x)) and f(x).all()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("fast", "optimize is 'fast', which is reserved; write 'exact' or 'off'"),
        ("now", "optimize must be 'exact' or 'off', got 'now'"),
        (True, "optimize must be 'exact' or 'off', got True"),
    ],
)
def test_a_value_that_is_none(value, text):
    with pytest.raises(ValueError) as caught:
        tracehost.function(lambda x: x, optimize=value)
    assert str(caught.value) == text


def test_off_says_nothing(monkeypatch):
    monkeypatch.setenv("TRACEHOST_OPTIMIZE", "exact")
    f = tracehost.function(lambda x: x * 2, optimize="off")
    for _ in range(4):
        f(torch.ones(2))
    assert f.specializations()[0].runs_by == ""


def optimizes(f):
    f(torch.ones(1))
    return f.specializations()[0].runs_by != ""


def test_the_variable_decides_where_nothing_is_given(monkeypatch):
    monkeypatch.setenv("TRACEHOST_OPTIMIZE", "exact")
    f = tracehost.function(lambda x: x * 2)
    for _ in range(4):
        f(torch.ones(2))
    assert f.specializations()[0].runs_by == TAPE.format(1, 1)
    monkeypatch.setenv("TRACEHOST_OPTIMIZE", "off")
    assert optimizes(tracehost.function(lambda x: x)) is False
    monkeypatch.delenv("TRACEHOST_OPTIMIZE")
    assert optimizes(tracehost.function(lambda x: x)) is True
    monkeypatch.setenv("TRACEHOST_OPTIMIZE", "quick")
    with pytest.raises(
        ValueError, match="TRACEHOST_OPTIMIZE must be 'exact' or 'off', got 'quick'"
    ):
        tracehost.function(lambda x: x)


def test_an_archive_with_tapes(tmp_path):
    path = tmp_path / "net.pt"
    tracehost.save(
        path,
        {"f": tracehost.function(lambda x: (x * 2 + 1).sin()).get_concrete_function(torch.ones(3))},
    )
    f = tracehost.load(path, optimize="exact")["f"]
    for k in range(5):
        x = torch.full((3,), float(k))
        assert torch.equal(f(x), (x * 2 + 1).sin())
    with pytest.raises(ValueError, match="optimize must be 'exact' or 'off', got 'on'"):
        tracehost.load(path, optimize="on")


def beside(body, calls, make=lambda: (), **options):
    """The results of the calls, of eager and of the Function, each with things of its own."""
    found = []
    for exact in (False, True):
        torch.manual_seed(0)
        things = make()
        of_things = lambda *a, things=things: body(*things, *a)
        f = tracehost.function(of_things, optimize="exact", **options) if exact else of_things
        log = []
        for arguments in calls():
            try:
                log.append(facts(f(*arguments)))
            except (RuntimeError, IndexError) as error:
                log.append(str(error))
            log.append(facts([*things, *arguments]) + [torch.get_rng_state().tolist()])
        found.append(log)
    assert found[1] == found[0]
    return f


BASE = torch.arange(20.0)
PLACES = [(0, 4), (0, 4), (0, 4), (8, 12), (3, 7), (0, 4)]


def places():
    return [(BASE.clone()[a:b],) for a, b in PLACES]


@pytest.mark.parametrize(
    "body",
    [
        lambda x: x[1:],
        lambda x: x.as_strided((3,), (1,), 0) * 2,
        lambda x: torch.slice_scatter(x, torch.zeros(2), 0, 1, 3),
        lambda x: torch.view_as_complex(x.view(2, 2)).abs() * 2,
        lambda x: x.view(torch.int32) + 1,
        lambda x: (x.view(2, 2).t(), x * 2),
    ],
)
def test_an_input_elsewhere_in_its_memory(body):
    beside(body, places)


def test_a_tensor_that_says_where_a_view_lies():
    starts = [
        (torch.tensor([0]),),
        (torch.tensor([0]),),
        (torch.tensor([2]),),
        (torch.tensor([1]),),
    ] * 2
    beside(
        lambda x, n: torch.narrow(x, 0, n[0], 1) * 2, lambda: starts, lambda: [torch.arange(4.0)]
    )


def given_then_written(buffer, x):
    if x.sum() > 0:
        z = buffer
    else:
        z = buffer * 2
    buffer.add_(1)
    return z.sum()


def test_a_branch_gives_what_is_written_afterwards():
    signs = lambda: [(torch.tensor([1.0 if k % 3 else -1.0]),) for k in range(9)]
    beside(given_then_written, signs, lambda: [torch.zeros(3)])


def test_a_draw_that_fails_behind_a_write():
    def body(buffer, p):
        buffer.add_(1)
        q = torch.multinomial(p, 2)
        buffer.mul_(2)
        return q

    chances = lambda: [(torch.ones(4) * (-1 if k == 5 else 1),) for k in range(8)]
    f = beside(body, chances, lambda: [torch.zeros(3)])
    ended = "the interpreter: a run ended behind a write or a draw"
    assert f.specializations()[0].runs_by == ended


def test_writes_in_inference_mode():
    f = tracehost.function(lambda x: x.add_(1) * 2, optimize="exact")
    mine, eager = torch.zeros(3), torch.zeros(3)
    with torch.inference_mode():
        for _ in range(6):
            f(mine)
            eager.add_(1)
    assert (mine.tolist(), mine._version) == (eager.tolist(), eager._version)


def test_a_recording_warns_of_nothing(capfd):
    said = []
    for optimize in ("off", "exact"):
        f = tracehost.function(lambda x: torch.std(x[:1]), optimize=optimize)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(6):
                f(torch.ones(3))
        said.append(capfd.readouterr().err.count("degrees of freedom"))
    assert said == [0, 0]
