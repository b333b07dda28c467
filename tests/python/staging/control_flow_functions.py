"""Small programs with control flow on tensors: functions, objects, modules, mutation of tensors."""

import functools

import torch
import torch.nn as nn
from control_flow_registry import COUNTS, SIGNS, program

# -- functions


def helper(v, limit=0.0):
    if v.sum() > limit:
        return v * 2
    return v + 1


@program(*SIGNS)
def call_helper(x):
    return helper(x) + helper(x, limit=10.0)


@program(*SIGNS)
def call_helper_in_branch(x):
    if x.max() > 1:
        return helper(x)
    return helper(-x) * 3


@program(*COUNTS)
def call_helper_in_loop(x, k):
    for _ in range(k):
        x = helper(x, 12.0)
    return x


@program(*SIGNS)
def nested_function(x):
    def inner(v):
        if v.sum() > 0:
            return v * 2
        return v

    return inner(x) + inner(-x)


@program(*SIGNS)
def nested_function_reads_state(x):
    if x.sum() > 0:
        scale = x.max()
    else:
        scale = x.min()

    def inner(v):
        return v * scale

    return inner(x)


@program(*SIGNS)
def nonlocal_state(x):
    s = x

    def update():
        nonlocal s
        if x.sum() > 0:
            s = s * 2
        else:
            s = s - 1

    update()
    update()
    return s


@program(*SIGNS)
def nonlocal_through_a_call(x):
    s = x

    def update():
        nonlocal s
        s = s * 2

    if x.sum() > 0:
        update()
    return s


GLOBAL = None


@program(*SIGNS)
def global_state(x):
    global GLOBAL
    GLOBAL = x
    if x.sum() > 0:
        GLOBAL = x * 2
    result, GLOBAL = GLOBAL, None
    return result


@program(*SIGNS)
def lambda_with_ternary(x):
    f = lambda v: v * 2 if v.sum() > 0 else v - 1
    return f(x) + f(-x)


@program(*SIGNS)
def two_lambdas_on_one_line(x):
    f, g = lambda v: v * 2 if v.sum() > 0 else v, lambda v: v if v.sum() > 0 else v * 3
    return f(x) - g(x)


@program(*SIGNS)
def map_and_sum(x):
    return sum(map(lambda v: v + 1 if v.sum() > 0 else v, [x, -x]))


@program(*SIGNS)
def default_arguments(x):
    def inner(v, factor=3.0, *rest, bias=1.0, **more):
        if v.sum() > 0:
            return v * factor
        return v + bias

    return inner(x) + inner(x, 2.0, x, bias=5.0, other=x)


@program(*SIGNS)
def partial_of_helper(x):
    return functools.partial(helper, limit=10.0)(x)


def recursive(v, depth):
    if depth == 0:
        return v
    if v.sum() > 0:
        v = v - 1
    return recursive(v, depth - 1)


@program(*SIGNS)
def recursion_python_depth(x):
    return recursive(x, 3)


def ping(v, depth):
    return v if depth == 0 else pong(v * 2 if v.sum() > 0 else v, depth - 1)


def pong(v, depth):
    return v if depth == 0 else ping(v + 1 if v.sum() > 10 else v, depth - 1)


@program(*SIGNS)
def mutual_recursion(x):
    return ping(x, 4)


def doubled(f):
    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        return f(*args, **kwargs) * 2

    return wrapper


@doubled
def decorated_helper(v):
    if v.sum() > 0:
        return v
    return v * 5


@program(*SIGNS)
def decorated_function(x):
    return decorated_helper(x)


@program(*SIGNS)
def star_arguments(x):
    def total(*values, **named):
        s = values[0]
        for v in values[1:]:
            if v.sum() > 0:
                s = s + v
        return s * named["scale"]

    return total(x, *[x, -x], **{"scale": 2.0})


def positive_sum(*values):
    return sum(v if v.sum() > 0 else v * 0 for v in values)


@program(*SIGNS)
def generator_expression_in_helper(x):
    return positive_sum(x, -x, x * 2)


# -- objects


class Counter:
    def __init__(self):
        self.value = None
        self.steps = 0

    def step(self, v):
        if v.sum() > 0:
            self.value = v * 2
            self.steps = self.steps + 1
        else:
            self.value = v
        return self.value + self.steps

    def __call__(self, v):
        return v * 3 if v.sum() > 0 else v


class Bounded(Counter):
    def step(self, v):
        y = super().step(v)
        if y.max() > 3:
            y = y + 1
        return y


class Private:
    def __init__(self):
        self.__factor = 2.0

    def apply(self, v):
        if v.sum() > 0:
            return v * self.__factor
        self.__factor = self.__factor + v.sum()
        return v * self.__factor


@program(*SIGNS)
def method_with_state(x):
    counter = Counter()
    return counter.step(x) + counter.step(-x)


@program(*SIGNS)
def method_of_subclass(x):
    return Bounded().step(x)


@program(*SIGNS)
def callable_object(x):
    return Counter()(x)


@program(*SIGNS)
def private_attribute(x):
    return Private().apply(x)


@program(*SIGNS)
def attribute_in_branches(x):
    counter = Counter()
    counter.value = x
    if x.sum() > 0:
        counter.value = x * 3
    return counter.value


@program(*SIGNS)
def attribute_made_in_both(x):
    counter = Counter()
    if x.sum() > 0:
        counter.new = x * 2
    else:
        counter.new = x
    return counter.new


@program(*COUNTS)
def attribute_in_loop(x, k):
    counter = Counter()
    counter.value = x
    for i in range(k):
        counter.value = counter.value + i
    return counter.value


@program(*SIGNS)
def item_in_branches(x):
    d = {"a": x, "b": x}
    if x.sum() > 0:
        d["a"] = x * 2
    else:
        d["b"] = x * 5
    return d["a"], d["b"]


@program(*SIGNS)
def item_made_in_both(x):
    d = {}
    if x.sum() > 0:
        d["k"] = x
    else:
        d["k"] = x + 1
    return d["k"]


@program(*SIGNS)
def list_item_in_branch(x):
    items = [x, x * 2]
    if x.sum() > 0:
        items[0] = items[1] + 1
    return items


@program(*SIGNS, traces=2)
def list_appended_in_branch(x):
    out = [x]
    if x.sum() > 0:
        out.append(x * 2)
    return sum(out)


@program(*SIGNS)
def list_appended_in_python_loop(x):
    out = []
    for i in range(3):
        y = x * i
        if y.sum() > 0:
            y = y + 1
        out.append(y)
    return torch.stack(out)


@program(*SIGNS)
def comprehension_with_ternary(x):
    ys = [x * i if x.sum() > i else x - i for i in range(3)]
    return torch.stack(ys)


# -- modules


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)

    def forward(self, v):
        if v.mean() > 0:
            return self.first(v)
        return self.second(v) * 2


torch.manual_seed(0)
GATE = Gate()
STACK = nn.Sequential(Gate(), nn.Tanh(), Gate())


@program(*SIGNS)
def module_forward(x):
    return GATE(x)


@program(*SIGNS)
def modules_in_sequential(x):
    return STACK(x)


@program(*COUNTS)
def module_in_loop(x, k):
    for _ in range(k):
        x = torch.tanh(GATE(x))
    return x


@program(*SIGNS)
def module_early_exit(x):
    for layer in STACK:
        x = layer(x)
        if x.abs().max() > 2:
            return x
    return x * 2


WEIGHT = nn.Parameter(torch.ones(3) * 2)


@program(*SIGNS)
def closure_over_parameter(x):
    def inner(v):
        return v * WEIGHT if v.sum() > 0 else v - WEIGHT

    return inner(x) + inner(-x)


# -- mutation of tensors


@program(*SIGNS, gradients=False)
def inplace_in_branch(x):
    y = x.clone()
    if x.sum() > 0:
        y += 1
    else:
        y *= 2
    return y


@program(*SIGNS, gradients=False)
def inplace_on_input(x):
    if x.sum() > 0:
        x.mul_(2)
    else:
        x.sub_(1)
    return x + 1


@program(*SIGNS, gradients=False)
def item_of_tensor_in_branch(x):
    y = x.clone()
    if x.sum() > 0:
        y[0] = 7.0
    return y


@program(*COUNTS, gradients=False)
def item_of_tensor_in_loop(x, k):
    y = torch.zeros(8)
    for i in range(k):
        y[i] = x[0] * i
    return y


@program(*COUNTS, gradients=False)
def inplace_in_loop(x, k):
    for i in range(k):
        x += i
    return x


@program(*COUNTS)
def augmented_number_twice(x, k):
    i = 0
    while i < k:
        x = x + i
        i += 1
        i *= 1
    return x, i
