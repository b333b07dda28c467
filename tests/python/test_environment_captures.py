"""Tensors that a traced body reaches without being passed them are inputs, read again at each call."""

import collections
import gc
import weakref

import pytest
import torch
import tracehost
from environment_support import BATCH, Config, Net, X, same
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


WEIGHT = torch.ones(4)

QUEUE = collections.deque()


def test_captured_tensor_rebound(change):
    def body(x):
        return x + WEIGHT

    f = tracehost.function(body)
    same(f, body, X)
    change("WEIGHT", torch.full((4,), 7.0))
    same(f, body, X)
    assert f.tracing_count() == 1
    change("WEIGHT", torch.ones(4, dtype=torch.float64))
    same(f, body, X)
    change("WEIGHT", torch.ones(1))
    same(f, body, X)
    assert f.tracing_count() == 3
    change("WEIGHT", 1.0)
    same(f, body, X)
    assert f.tracing_count() == 4


def test_attribute_rebound_many_times():
    m = Config()
    m.w = torch.zeros(4)

    def body(x):
        return x + m.w

    f = tracehost.function(body)
    for i in range(50):
        m.w = torch.full((4,), float(i))
        same(f, body, X)
    assert f.tracing_count() == 1


def test_tensors_in_a_list_rebound():
    ws = [torch.zeros(4), torch.ones(4)]

    def body(x):
        return x + ws[0] * ws[1]

    f = tracehost.function(body)
    for i in range(50):
        ws[i % 2] = torch.full((4,), float(i))
        same(f, body, X)
    assert f.tracing_count() == 1


def test_tensor_in_a_cell_rebound():
    w = torch.zeros(4)

    def body(x):
        return x + w

    f = tracehost.function(body)
    for i in range(50):
        w = torch.full((4,), float(i))
        same(f, body, X)
    assert f.tracing_count() == 1


def test_load_state_dict_and_optimizer_step(net):
    f = tracehost.function(net)
    same(f, net, BATCH)
    net.load_state_dict(Net().state_dict())
    same(f, net, BATCH)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    f(BATCH).sum().backward()
    assert net.fc.weight.grad is not None
    optimizer.step()
    same(f, net, BATCH)
    assert f.tracing_count() == 1


def test_module_to_another_dtype(net):
    f = tracehost.function(net)
    same(f, net, BATCH)
    net.to(torch.float64)
    same(f, net, BATCH.double())
    net.float()
    same(f, net, BATCH)
    assert f.tracing_count() == 2


def test_requires_grad_of_a_parameter(net):
    f = tracehost.function(net)
    f(BATCH)
    net.fc.weight.requires_grad_(False)
    f(BATCH)
    net.fc.weight.requires_grad_(True)
    f(BATCH)
    assert f.tracing_count() == 2


def test_train_and_eval(net):
    f = tracehost.function(net)
    same(f, net, BATCH)
    net.train()
    before = net.bn.running_mean.clone()
    f(BATCH)
    f(BATCH)
    assert f.tracing_count() == 2
    assert not torch.equal(before, net.bn.running_mean)
    assert net.bn.num_batches_tracked.item() == 2
    net.eval()
    same(f, net, BATCH)
    assert f.tracing_count() == 2


def test_submodule_replaced(net):
    f = tracehost.function(net)
    same(f, net, BATCH)
    net.fc = nn.Linear(4, 4)
    same(f, net, BATCH)
    assert f.tracing_count() == 2


def test_parameter_replaced_and_added(net):
    f = tracehost.function(net)
    same(f, net, BATCH)
    net.fc.weight = nn.Parameter(torch.ones(4, 4))
    same(f, net, BATCH)
    assert f.tracing_count() == 1
    net.fc.bias = None
    same(f, net, BATCH)
    assert f.tracing_count() == 2
    net.fc.bias = nn.Parameter(torch.ones(4))
    same(f, net, BATCH)
    assert f.tracing_count() == 2


def test_forward_hook_added(net):
    f = tracehost.function(net)
    same(f, net, BATCH)
    handle = net.fc.register_forward_hook(lambda module, args, out: out * 2)
    same(f, net, BATCH)
    assert f.tracing_count() == 2
    handle.remove()
    same(f, net, BATCH)


def test_sequential_order_counts():
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    f = tracehost.function(lambda x: net(x))
    same(f, net, X)
    net[0], net[1] = net[1], net[0]
    same(f, net, X)
    assert f.tracing_count() == 2


def test_tied_weights_untied():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4, bias=False)
            self.b = nn.Linear(4, 4, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    net = Tied()
    f = tracehost.function(net)
    same(f, net, X)
    net.b.weight = nn.Parameter(torch.ones(4, 4))
    same(f, net, X)
    assert f.tracing_count() == 2


def test_parameter_containers():
    class Lists(nn.Module):
        def __init__(self):
            super().__init__()
            self.list = nn.ParameterList([torch.ones(4), torch.ones(4)])
            self.dict = nn.ParameterDict({"one": torch.ones(4)})
            self.subs = nn.ModuleDict({"fc": nn.Linear(4, 4)})

        def forward(self, x):
            return self.subs["fc"](x * self.list[0] + self.list[1] + self.dict["one"])

    net = Lists()
    f = tracehost.function(net)
    same(f, net, X)
    net.list[1] = nn.Parameter(torch.full((4,), 3.0))
    net.dict["one"] = nn.Parameter(torch.full((4,), 4.0))
    same(f, net, X)
    assert f.tracing_count() == 1


def test_recurrent_module():
    rnn = nn.LSTM(4, 3)
    f = tracehost.function(lambda x: rnn(x)[0])
    x = torch.ones(2, 1, 4)
    same(f, lambda x: rnn(x)[0], x)
    with torch.no_grad():
        rnn.weight_ih_l0.mul_(2)
    same(f, lambda x: rnn(x)[0], x)
    assert f.tracing_count() == 1


def test_two_instances_of_one_class():
    class Two(nn.Module):
        def __init__(self, k):
            super().__init__()
            self.k = k
            self.w = nn.Parameter(torch.full((4,), float(k)))

        def body(self, x):
            return self.w * x * self.k

        run = tracehost.function(body)

    a, b = Two(1), Two(2)
    for m in (a, b, a, b):
        same(m.run, m.body, X)
    assert a.run.tracing_count() == b.run.tracing_count() == 1


def test_instance_is_freed():
    class Owner(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)
            self.k = 2.0
            self.act = torch.relu
            self.list = [1.0, Config()]

        def body(self, x):
            return self.act(self.fc(x)) * self.k * self.list[0]

        run = tracehost.function(body)

    owner = Owner()
    same(owner.run, owner.body, X)
    same(owner.run, owner.body, X)
    dead = [weakref.ref(owner), weakref.ref(owner.fc.weight), weakref.ref(owner.list[1])]
    enabled = gc.isenabled()
    gc.disable()
    try:
        del owner
        assert [d() for d in dead] == [None, None, None]
    finally:
        if enabled:
            gc.enable()
    owner = Owner()
    same(Owner.run.__get__(owner), owner.body, X)
    assert owner.run.tracing_count() == 1


def test_closure_that_refers_to_its_owner_is_freed():
    def body(owner, x):
        return owner.act(x)

    f = tracehost.function(body)
    owner = Config()
    owner.act = (lambda o: lambda x: x * o.scale)(owner)
    same(f, body, owner, X)
    same(f, body, owner, X)
    owner.scale = 3.0
    same(f, body, owner, X)
    assert f.tracing_count() == 2
    dead = weakref.ref(owner)
    del owner
    gc.collect()
    assert dead() is None


def test_capture_without_a_path_is_held_and_seen_in_place():
    QUEUE.append(torch.ones(4))

    def body(x):
        return x + QUEUE[0]

    f = tracehost.function(body)
    same(f, body, X)
    QUEUE[0].mul_(5)
    same(f, body, X)
    assert f.tracing_count() == 1
    QUEUE.clear()


def test_capture_that_is_also_an_argument(net):
    def body(w, x):
        return net.fc(x) + w.sum()

    f = tracehost.function(body)
    same(f, body, net.fc.weight, BATCH)
    same(f, body, net.fc.weight, BATCH)
    assert f.tracing_count() == 1
    same(f, body, torch.ones(4, 4, requires_grad=True), BATCH)
    same(f, body, net.fc.weight, BATCH)
    assert f.tracing_count() == 2


def test_object_argument_with_tensors():
    def body(x, m):
        return m(x)

    f = tracehost.function(body)
    a, b = nn.Linear(4, 4), nn.Linear(4, 4)
    same(f, body, X, a)
    same(f, body, X, b)
    assert f.tracing_count() == 2
    with torch.no_grad():
        a.weight.add_(1)
    same(f, body, X, a)
    assert f.tracing_count() == 2
