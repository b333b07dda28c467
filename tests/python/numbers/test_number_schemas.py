"""Every number argument of PyTorch's own samples of its ops, given as a number that the body reads: a later call with
another number does what eager does, or raises, or is traced again. No number is baked."""

import functools

import pytest
import torch
import tracehost

with pytest.MonkeyPatch.context() as patch:
    patch.setenv("PYTORCH_TEST_CUDA_MEM_LEAK_CHECK", "0")
    from torch.testing._internal.common_methods_invocations import op_db

pytestmark = [pytest.mark.filterwarnings("ignore")]

MOST_SAMPLES = 60
# The results are memory as it is found, or numbers that mean nothing to the op.
UNDEFINED = {
    "empty",
    "empty_strided",
    "empty_permuted",
    "new_empty",
    "new_empty_strided",
    "resize_",
}
# torch takes a list with a number of the graph for a tuple; x[[n, 2]] itself is converted, this call is not.
UNDEFINED |= {"__getitem__"}
# An op of Python's or torch's argument parser takes no such number in this place, and says so by an exception of its own.
RAISES = {
    "broadcast_shapes": "Expected bool",
    "gradient": "expected Tensor as element",
    "tensordot": "no attribute 'numel'",
    "nn.functional.interpolate": "invalid combination of arguments",
    "nn.functional.upsample_bilinear": "invalid combination of arguments",
    "nn.functional.upsample_nearest": "invalid combination of arguments",
    "_upsample_bilinear2d_aa": "INTERNAL ASSERT",
    "max_pool2d_with_indices_backward": "Expected",
}


def numbers_of(args, kwargs):
    """(container, key, index or None) of each number, and the number."""
    for container, items in ("args", enumerate(args)), ("kwargs", kwargs.items()):
        for key, value in items:
            if type(value) in (int, float):
                yield (container, key, None), value
            elif type(value) in (list, tuple):
                for i, element in enumerate(value):
                    if type(element) in (int, float):
                        yield (container, key, i), element


def put(args, kwargs, place, number):
    container, key, index = place
    args, kwargs = list(args), dict(kwargs)
    holder = args if container == "args" else kwargs
    if index is None:
        holder[key] = number
    else:
        changed = list(holder[key])
        changed[index] = number
        holder[key] = type(holder[key])(changed)
    return args, kwargs


def copied(value):
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if type(value) in (list, tuple):
        return type(value)(map(copied, value))
    if type(value) is dict:
        return {key: copied(item) for key, item in value.items()}
    return value


def same(a, b):
    if isinstance(a, torch.Tensor):
        if a.layout != torch.strided:
            a, b = a.to_dense(), b.to_dense()
        return (
            isinstance(b, torch.Tensor)
            and a.dtype == b.dtype
            and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
        )
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b or a != a


def result_of(step, *args):
    torch.manual_seed(0)
    try:
        return step(*args)
    except Exception as error:  # noqa: BLE001 (compared by kind)
        return error


def others(number):
    if type(number) is float:
        return [number + 0.5, number * 0.5]
    return [number + 1, number * 2, *([number - 1] if number > 1 else [])]


@functools.cache
def samples():
    found = {}
    for op in op_db:
        if torch.float32 in op.supported_dtypes("cpu") and op.name not in UNDEFINED:
            found[f"{op.name} {op.variant_test_name}".strip()] = op
    return found


def check(op, args, kwargs, place, number):
    """None, or what is wrong."""

    def run(read):
        return op.op(
            *(lambda given: given[0])(given := put(copied(args), copied(kwargs), place, read)),
            **given[1],
        )

    f = tracehost.function(lambda t: run(t.item()))
    dtype = torch.int64 if type(number) is int else torch.float64
    for value in (number, *others(number)):
        expected = result_of(run, value)
        if value == number and isinstance(expected, Exception):
            return None
        got = result_of(f, torch.tensor(value, dtype=dtype))
        if isinstance(got, tracehost.Error):
            if value == number:
                return None  # rejected with its line
        elif isinstance(got, Exception):
            known = RAISES.get(op.name)
            if not isinstance(expected, Exception) and not (known and known in str(got)):
                return f"{place} = {value} raises {got!r}"
        elif isinstance(expected, Exception):
            return f"{place} = {value} raises nothing, eager {expected!r}"
        elif not same(expected, got):
            return f"{place} = {value} gives another result"
    return None


@pytest.mark.parametrize("name", samples())
def test_no_number_is_baked(name):
    op, seen = samples()[name], set()
    for sample in list(op.sample_inputs("cpu", torch.float32))[:MOST_SAMPLES]:
        args = (sample.input, *sample.args)
        for place, number in numbers_of(args, sample.kwargs):
            if (place, type(number)) in seen:
                continue
            seen.add((place, type(number)))
            assert check(op, args, sample.kwargs, place, number) is None
