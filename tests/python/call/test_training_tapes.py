"""Training steps with optimize="exact" beside eager: parameters, gradients, optimizer states, versions, the generator."""

import pytest
import torch
import torch.nn.functional as F
import tracehost
from tape_facts import facts
from torch import nn

STEPS = {}
CALLS = 9


class Step:
    """A step over a model of its own, from the same seed for each twin."""

    def __init__(self, make):
        torch.manual_seed(0)
        self.tensors, self.step = make()

    def facts(self):
        return [facts(t) for t in self.tensors() if t is not None]


def step(make):
    STEPS[make.__name__] = make
    return make


def everything(model, optimizer):
    def tensors():
        states = [t for state in optimizer.state.values() for t in state.values()]
        return [*model.parameters(), *model.buffers(), *states]

    return tensors


def trained_by(model, optimizer, loss_of):
    """A whole step."""

    def body(x):
        optimizer.zero_grad()
        loss = loss_of(x)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return everything(model, optimizer), body


def of_optimizer(make):
    def build():
        model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
        optimizer = make(model.parameters())

        return trained_by(model, optimizer, lambda x: model(x).pow(2).sum())

    return build


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
    "adadelta": lambda p: torch.optim.Adadelta(p),
    "adamax": lambda p: torch.optim.Adamax(p),
    "nadam": lambda p: torch.optim.NAdam(p),
    "rmsprop": lambda p: torch.optim.RMSprop(p, momentum=0.9, centered=True),
    "rprop": lambda p: torch.optim.Rprop(p),
}
STEPS.update({name: of_optimizer(make) for name, make in OPTIMIZERS.items()})


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


@step
def dropout_and_running_mean():
    model = nn.Sequential(
        nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(), nn.Linear(6, 2)
    )
    optimizer = sgd(model)

    def body(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    return everything(model, optimizer), body


@step
def clipped():
    model = nn.Linear(4, 3)
    optimizer = sgd(model)

    def body(x):
        optimizer.zero_grad()
        F.cross_entropy(model(x), torch.tensor([0, 2, 1])).backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        return norm

    return everything(model, optimizer), body


@step
def gradients_add_up():
    model = nn.Linear(4, 3)

    def body(x):
        model(x).sin().sum().backward()
        return x * 2

    return everything(model, sgd(model)), body


@step
def gradients_are_zeroed():
    model = nn.Linear(4, 3)
    optimizer = sgd(model)

    def body(x):
        optimizer.zero_grad(set_to_none=False)
        model(x).sin().sum().backward()
        optimizer.step()

    return everything(model, optimizer), body


@step
def gradients_of_autograd():
    model = nn.Linear(4, 3)

    def body(x):
        loss = model(x).pow(3).sum()
        grads = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
        penalty = sum(g.square().sum() for g in grads)
        second = torch.autograd.grad(penalty, list(model.parameters()))
        return [g.detach() for g in grads], second

    return everything(model, sgd(model)), body


@step
def one_parameter_twice_and_one_frozen():
    first, second = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
    second.weight = first.weight
    first.bias.requires_grad_(False)
    model = nn.Sequential(first, nn.ReLU(), second)
    optimizer = sgd(model)

    return trained_by(model, optimizer, lambda x: model(x).sum())


@step
def norms_and_attention():
    model = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.1, batch_first=True)
    optimizer = sgd(model)

    return trained_by(model, optimizer, lambda x: model(x[None]).square().sum())


@step
def convolutions():
    model = nn.Sequential(nn.Conv1d(1, 2, 2), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(6, 2))
    optimizer = sgd(model)

    return trained_by(model, optimizer, lambda x: model(x[:, None]).square().sum())


@step
def embeddings():
    table, head = nn.Embedding(5, 4, padding_idx=0), nn.Linear(4, 2)
    model = nn.ModuleList([table, head])
    optimizer = sgd(model)

    def body(x):
        optimizer.zero_grad()
        at = (x.abs() * 3).long().clamp(max=4)
        loss = head(table(at)).tanh().sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return everything(model, optimizer), body


@step
def recurrent():
    model, head = nn.LSTM(4, 5), nn.Linear(5, 2)
    both = nn.ModuleList([model, head])
    optimizer = sgd(both)

    return trained_by(both, optimizer, lambda x: head(model(x)[0]).square().sum())


@step
def gradients_that_the_engine_adds():
    w = nn.Parameter(torch.randn(4))

    def body(x):
        w.grad = None
        (w * x + w.sin()).sum().backward()
        return w.grad, w.detach(), w.grad[1:]

    return lambda: [w], body


@step
def views_of_a_flat_buffer():
    flat = torch.arange(8.0)
    w = nn.Parameter(torch.ones(4))
    w.data = flat[4:]

    def body(x):
        w.grad = None
        (w * x).sum().backward()
        return w.detach()[1:], w.detach(), w.grad.view(2, 2)

    return lambda: [w, flat], body


@pytest.mark.parametrize("name", STEPS)
def test_as_eager(name):
    mine, eager = Step(STEPS[name]), Step(STEPS[name])
    f = tracehost.function(mine.step, optimize="exact")
    for call in range(CALLS):
        x = torch.randn(3, 4)
        torch.manual_seed(call)
        expected = facts(eager.step(x)), eager.facts(), torch.get_rng_state().tolist()
        torch.manual_seed(call)
        found = facts(f(x)), mine.facts(), torch.get_rng_state().tolist()
        assert found == expected, f"call {call}"
    assert f.specializations()[-1].runs_by.startswith("a tape"), f.specializations()[-1].runs_by


def trained(changes):
    """Nine steps, with a change before the sixth."""
    results = []
    for optimize in (None, "exact"):
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def body(x, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        f = body if optimize is None else tracehost.function(body, optimize=optimize)
        log = []
        for call in range(9):
            if call == 5:
                assert optimize is None or f.specializations()[-1].runs_by.startswith("a tape")
                changes(model, optimizer, log)
            log.append(facts([f(torch.randn(4, 3)), *everything(model, optimizer)()]))
        results.append(log)
    return results


def later(what):
    return pytest.param(what, id=what.__name__)


def hook_on_a_parameter(model, optimizer, log):
    model.weight.register_hook(lambda g: log.append(g.tolist()))


def hook_that_changes_a_gradient(model, optimizer, log):
    model.bias.register_hook(lambda g: g * 2)


def hook_behind_accumulation(model, optimizer, log):
    model.weight.register_post_accumulate_grad_hook(lambda p: log.append(p.grad.tolist()))


def frozen(model, optimizer, log):
    model.bias.requires_grad_(False)


def other_data(model, optimizer, log):
    model.weight.data = torch.ones(2, 3)


def transposed_data(model, optimizer, log):
    model.weight.data = torch.ones(3, 2).t()


def loaded(model, optimizer, log):
    model.load_state_dict({"weight": torch.zeros(2, 3), "bias": torch.ones(2)})


def gradient_of_the_user(model, optimizer, log):
    model.weight.grad = torch.ones(2, 3)


def expanded_gradient(model, optimizer, log):
    model.weight.grad = torch.ones(1, 1).expand(2, 3)


def no_gradients(model, optimizer, log):
    model.zero_grad()


def momentum_and_parameter_share_memory(model, optimizer, log):
    memory = torch.arange(6.0).view(2, 3)
    model.weight.data = memory
    optimizer.state[model.weight]["momentum_buffer"] = memory


@pytest.mark.parametrize(
    "changes",
    [
        later(f)
        for f in (
            hook_on_a_parameter,
            hook_that_changes_a_gradient,
            hook_behind_accumulation,
            frozen,
            other_data,
            transposed_data,
            loaded,
            gradient_of_the_user,
            expanded_gradient,
            no_gradients,
            momentum_and_parameter_share_memory,
        )
    ],
)
def test_what_changes_between_steps(changes):
    eager, mine = trained(changes)
    assert mine == eager


def test_hooks_on_saved_tensors_and_anomaly_mode():
    w = torch.ones(3, requires_grad=True)

    @tracehost.function(optimize="exact")
    def body(x):
        w.grad = None
        (w * x).exp().sum().backward()
        return w.grad * 1

    x = torch.randn(3)
    expected = x * x.exp()
    for _ in range(4):
        assert torch.equal(body(x), expected)
    assert body.specializations()[-1].runs_by.startswith("a tape")
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        assert torch.equal(body(x), expected)
    assert packed
    with torch.autograd.set_detect_anomaly(True):
        assert torch.equal(body(x), expected)


def test_a_loss_with_its_graph_records_gradients():
    w = torch.ones(3, requires_grad=True)
    f = tracehost.function(lambda x: (w * x).sum(), optimize="exact")
    for _ in range(4):
        f(torch.ones(3)).backward()
    assert w.grad.tolist() == [4, 4, 4]
    assert f.specializations()[0].runs_by == (
        "the interpreter: a result records gradients: return its detach()"
    )


def test_a_step_that_fails_leaves_what_eager_leaves():
    results = []
    for optimize in (None, "exact"):
        torch.manual_seed(0)
        table = nn.Parameter(torch.randn(4, 2))
        seen = torch.zeros(1)

        def body(i, table=table, seen=seen):
            seen.add_(1)
            noise = torch.rand(2)
            table.grad = None
            (table[i] * noise).sum().backward()
            with torch.no_grad():
                table.add_(table.grad, alpha=-0.5)
            return noise

        f = body if optimize is None else tracehost.function(body, optimize=optimize)
        log = []
        for call in range(8):
            i = torch.tensor([call % 4, 7 if call == 5 else 1])
            try:
                log.append(f(i).tolist())
            except IndexError as error:
                log.append(str(error))
            log.append(facts([table, seen]) + [torch.get_rng_state().tolist()])
            if optimize and call == 4:
                assert f.specializations()[-1].runs_by.startswith("a tape")
        results.append(log)
        if optimize:  # the call that failed was the tape's
            ended = "the interpreter: a run ended behind a write or a draw"
            assert f.specializations()[-1].runs_by == ended
    assert results[0] == results[1]


NO_TAPES = {
    "aten::ctc_loss reads the values of a tensor": lambda x, w: F.ctc_loss(
        (x[:, :, None] * w).log_softmax(2), torch.tensor([1, 1, 2, 1]), torch.tensor([2, 3, 2, 1]),
        torch.tensor([1, 1, 1, 1]), reduction="sum",
    ),
    "aten::tensor_split reads the values of a tensor": lambda x, w: torch.tensor_split(
        x[:, :, None] * w, torch.tensor([1, 2])
    )[1].sum(),
}  # fmt: skip


@pytest.mark.parametrize("why", NO_TAPES)
def test_a_step_without_a_tape(why):
    w = torch.ones(3, requires_grad=True)

    def body(x):
        w.grad = None
        loss = NO_TAPES[why](x, w)
        loss.backward()
        return loss.detach(), w.grad

    f = tracehost.function(body, optimize="exact")
    for _ in range(5):
        x = torch.randn(3, 4)
        assert facts(f(x)) == facts(body(x))
    assert f.specializations()[-1].runs_by == f"the interpreter: {why}"


def test_an_input_that_becomes_differentiable():
    w = torch.ones(3, requires_grad=True)

    def body(x):
        x.mul_(w)
        x.sum().backward()
        return x.detach()

    f = tracehost.function(body, optimize="exact")
    for _ in range(5):
        mine, eager = torch.ones(3), torch.ones(3)
        assert facts(f(mine)) == facts(body(eager))
        assert mine.requires_grad and (mine.grad_fn is None) == (eager.grad_fn is None)


def test_a_leaf_is_the_root_of_a_backward():
    w = torch.ones(3, requires_grad=True)

    @tracehost.function
    def body(x):
        w.backward(x)
        return x * 2

    for k in range(1, 4):
        body(torch.ones(3))
        assert w.grad.tolist() == [k] * 3


@pytest.mark.parametrize("optimize", ["off", "exact"])
def test_a_gradient_without_memory(optimize):
    def body(x):
        loss = (torch.sgn(x) * 1.5).sum()
        loss.backward()
        return loss.detach()

    f = tracehost.function(body, optimize=optimize)
    for _ in range(4):
        mine = torch.randn(5, requires_grad=True)
        eager = mine.detach().clone().requires_grad_()
        assert torch.equal(f(mine), body(eager)) and torch.equal(mine.grad, eager.grad)
