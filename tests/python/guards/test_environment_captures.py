"""Tensors that a traced body reaches without being passed them are inputs, read again at each call."""

import gc
import weakref
from operator import setitem

import pytest
import torch
import tracehost
from environment_support import BATCH, Config, Net, X, checked, row, same, take, take_steps
from torch import nn
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


def test_attribute_rebound_many_times():
    m = Config()
    m.w = torch.zeros(4)
    check = checked(lambda x: x + m.w)
    for i in range(50):
        m.w = torch.full((4,), float(i))
        check(1)


def test_tensors_in_a_list_rebound():
    ws = [torch.zeros(4), torch.ones(4)]
    check = checked(lambda x: x + ws[0] * ws[1])
    for i in range(50):
        ws[i % 2] = torch.full((4,), float(i))
        check(1)


def test_tensor_in_a_cell_rebound():
    w = torch.zeros(4)
    check = checked(lambda x: x + w)
    for i in range(50):
        w = torch.full((4,), float(i))
        check(1)


# Steps with a net of Linear, BatchNorm, Dropout and Linear, in eval mode.
OF_A_NET = {
    "whether a parameter requires a gradient": [
        (lambda net: net.fc.weight.requires_grad_(False), 2),
        (lambda net: net.fc.weight.requires_grad_(True), 2),
    ],
    "a submodule": [(lambda net: setattr(net, "fc", nn.Linear(4, 4)), 2)],
    "a parameter: another, none and one again": [
        (lambda net: setattr(net.fc, "weight", nn.Parameter(torch.ones(4, 4))), 1),
        (lambda net: setattr(net.fc, "bias", None), 2),
        (lambda net: setattr(net.fc, "bias", nn.Parameter(torch.ones(4))), 2),
    ],
}


@pytest.mark.parametrize("name", OF_A_NET)
def test_of_a_net(name, net):
    take_steps(OF_A_NET[name], net, checked(net), BATCH)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4, bias=False)
        self.b = nn.Linear(4, 4, bias=False)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(self.a(x))


class Lists(nn.Module):
    def __init__(self):
        super().__init__()
        self.list = nn.ParameterList([torch.ones(4), torch.ones(4)])
        self.dict = nn.ParameterDict({"one": torch.ones(4)})
        self.subs = nn.ModuleDict({"fc": nn.Linear(4, 4)})

    def forward(self, x):
        return self.subs["fc"](x * self.list[0] + self.list[1] + self.dict["one"])


def swap(net):
    net[0], net[1] = net[1], net[0]


OF_A_MODULE = {
    "the order of a Sequential": row(
        lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU()), lambda net: lambda x: net(x), (swap, 2)
    ),
    "tied weights, untied": row(
        Tied,
        lambda net: net,
        (lambda net: setattr(net.b, "weight", nn.Parameter(torch.ones(4, 4))), 2),
    ),
    "containers of parameters": row(
        Lists,
        lambda net: net,
        (lambda net: setitem(net.list, 1, nn.Parameter(torch.full((4,), 3.0))), 1),
        (lambda net: setitem(net.dict, "one", nn.Parameter(torch.full((4,), 4.0))), 1),
    ),
}


@pytest.mark.parametrize("name", OF_A_MODULE)
def test_of_a_module(name):
    take(OF_A_MODULE[name])


def test_load_state_dict_and_optimizer_step(net):
    f = tracehost.function(net)
    check = checked(net, f)
    check(1, BATCH)
    net.load_state_dict(Net().state_dict())
    check(1, BATCH)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    f(BATCH).sum().backward()
    assert net.fc.weight.grad is not None
    optimizer.step()
    check(1, BATCH)


def test_module_to_another_dtype(net):
    check = checked(net)
    check(1, BATCH)
    net.to(torch.float64)
    check(2, BATCH.double())
    net.float()
    check(2, BATCH)


def test_train_and_eval(net):
    f = tracehost.function(net)
    with assert_traces(f, 2):
        check = checked(net, f)
        check(1, BATCH)
        net.train()
        before = net.bn.running_mean.clone()
        f(BATCH)
        f(BATCH)
    assert not torch.equal(before, net.bn.running_mean)
    assert net.bn.num_batches_tracked.item() == 2
    net.eval()
    check(2, BATCH)


def test_forward_hook_added(net):
    check = checked(net)
    check(1, BATCH)
    handle = net.fc.register_forward_hook(lambda module, args, out: out * 2)
    check(2, BATCH)
    handle.remove()
    check(2, BATCH)


def test_recurrent_module():
    rnn = nn.LSTM(4, 3)
    check = checked(lambda x: rnn(x)[0])
    x = torch.ones(2, 1, 4)
    check(1, x)
    with torch.no_grad():
        rnn.weight_ih_l0.mul_(2)
    check(1, x)


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
    with assert_traces(owner.run, 1):
        same(Owner.run.__get__(owner), owner.body, X)


def test_closure_that_refers_to_its_owner_is_freed():
    check = checked(lambda owner, x: owner.act(x))
    owner = Config()
    owner.act = (lambda o: lambda x: x * o.scale)(owner)
    check(1, owner, X)
    check(1, owner, X)
    owner.scale = 3.0
    check(2, owner, X)
    dead = weakref.ref(owner)
    del owner
    gc.collect()
    assert dead() is None


def test_capture_that_is_also_an_argument(net):
    check = checked(lambda w, x: net.fc(x) + w.sum())
    check(1, net.fc.weight, BATCH)
    check(1, net.fc.weight, BATCH)
    check(2, torch.ones(4, 4, requires_grad=True), BATCH)
    check(2, net.fc.weight, BATCH)


def test_object_argument_with_tensors():
    check = checked(lambda x, m: m(x))
    a, b = nn.Linear(4, 4), nn.Linear(4, 4)
    check(1, X, a)
    check(2, X, b)
    with torch.no_grad():
        a.weight.add_(1)
    check(2, X, a)
