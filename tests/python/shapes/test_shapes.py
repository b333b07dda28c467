"""Ops without data give what they give with data: sizes, strides, offset, dtype, device, over torch's own samples."""

import re
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tracehost import _tracehost

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as tree

pytestmark = pytest.mark.filterwarnings("ignore")
DTYPES = (torch.float32, torch.int64, torch.complex64, torch.bool)
SAMPLES = 12
# An op that is unsupported without data, for some of its samples at least, with the reason.
SIZE_BY_VALUES = "the sizes of its result depend on values"
READS_VALUES = "it reads a value"
ITS_OWN_CODE = "its code reads memory beside its ops"
REFUSED = {
    "__getitem__": SIZE_BY_VALUES,
    "_segment_reduce": READS_VALUES,
    "_unsafe_masked_index": SIZE_BY_VALUES,
    "allclose": READS_VALUES,
    "argwhere": SIZE_BY_VALUES,
    "bincount": SIZE_BY_VALUES,
    "combinations": SIZE_BY_VALUES,
    "cov": READS_VALUES,
    "equal": READS_VALUES,
    "geqrf": ITS_OWN_CODE,
    "istft": READS_VALUES,
    "item": READS_VALUES,
    "ldexp": ITS_OWN_CODE,
    "linalg.lstsq": ITS_OWN_CODE,
    "linspace": READS_VALUES,
    "logspace": READS_VALUES,
    "masked_select": SIZE_BY_VALUES,
    "narrow": READS_VALUES,
    "nn.functional.ctc_loss": READS_VALUES,
    "nn.functional.gaussian_nll_loss": READS_VALUES,
    "nn.functional.max_pool1d": "its code runs above ours: in a trace it is called differently",
    "nn.functional.one_hot": SIZE_BY_VALUES,
    "nonzero": SIZE_BY_VALUES,
    "quantile": READS_VALUES,
    "nanquantile": READS_VALUES,
    "repeat_interleave": SIZE_BY_VALUES,
    "signal.windows.kaiser": READS_VALUES,
    "tensor_split": READS_VALUES,
    "unique": SIZE_BY_VALUES,
    "unique_consecutive": SIZE_BY_VALUES,
}
# What eager rejects and a shape does not show: the graph raises it when it runs.
RAISED_LATER = {
    "aminmax": "out= tensors overlap",
    "as_strided_scatter": "the view is larger than the storage",
    "cat": "out= overlaps an input",
    "cauchy": "the range of a number",
    "exponential": "the range of a number",
    "gather": "an index is out of range",
    "geometric": "the range of a number",
    "kthvalue": "out= overlaps the input",
    "log_normal": "the range of a number",
    "masked_fill": "the kernel checks the value's dimensions",
    "multinomial": "it checks how many can be drawn",
    "masked_scatter": "the kernel checks the mask's dtype",
    "nn.functional.gelu": "the kernel checks a text",
    "nn.functional.huber_loss": "the range of a number",
    "scatter": "an index is out of range",
    "scatter_add": "an index is out of range",
    "take": "out= overlaps the input",
}

BY_NAME: dict[str, list[Any]] = {}
for _op in op_db:
    BY_NAME.setdefault(_op.name, []).append(_op)


def twin(value: Any) -> Any:
    return _tracehost.twin(value) if isinstance(value, torch.Tensor) else value


def described(result: Any) -> list[Any]:
    """What a program can ask of each tensor without its values."""
    found: list[Any] = []
    for leaf in tree.tree_leaves(result):
        if not isinstance(leaf, torch.Tensor):
            found.append(type(leaf))
        elif leaf.layout != torch.strided:
            found.append((leaf.shape, leaf.layout, leaf.dtype))
        else:
            found.append(
                (leaf.shape, leaf.stride(), leaf.storage_offset(), leaf.dtype, leaf.device)
            )
    return found


def samples(op: Any) -> Iterator[Any]:
    for dtype in DTYPES:
        if dtype in op.dtypes:
            yield from list(op.sample_inputs("cpu", dtype, requires_grad=False))[:SAMPLES]


def without_data(op: Any, sample: Any) -> Any:
    args, kwargs = tree.tree_map(twin, ((sample.input, *sample.args), dict(sample.kwargs)))
    with _tracehost.WithoutData():
        return op(*args, **kwargs)


def needs_data(error: Exception) -> bool:
    return re.search("without data", str(error)) is not None


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_an_op_without_data_gives_the_like(name):
    for op in BY_NAME[name]:
        for sample in samples(op):
            try:
                expected = op(sample.input, *sample.args, **sample.kwargs)
            except Exception:
                with pytest.raises(Exception):  # noqa: B017
                    without_data(op, sample)
                continue
            try:
                found = without_data(op, sample)
            except Exception as error:
                assert needs_data(error), error
                assert name in REFUSED, error
                continue
            assert described(found) == described(expected), sample


@pytest.mark.parametrize(
    "name", sorted(n for n, ops in BY_NAME.items() if any(o.error_inputs_func for o in ops))
)
def test_what_eager_rejects_for_its_shapes_is_rejected_without_data(name):
    for op in BY_NAME[name]:
        for case in op.error_inputs("cpu") if op.error_inputs_func else ():
            sample = case.sample_input
            try:
                op(sample.input, *sample.args, **sample.kwargs)
            except Exception:
                try:
                    found = without_data(op, sample)
                except Exception:
                    continue
                assert name in RAISED_LATER, case.error_regex


def on_meta(*sizes, dtype=torch.float32):
    return torch.empty(sizes, dtype=dtype, device="meta")


Q, K = on_meta(2, 4, 5, 8), on_meta(2, 4, 7, 8)
TRANSPOSED = on_meta(2, 5, 4, 8).transpose(1, 2)
X, N = on_meta(3, 6, 4, 4), on_meta(6)
LSTM = [on_meta(32, 8), on_meta(32, 8), on_meta(32), on_meta(32)]
SUMS, SEED = on_meta(2, 4, 5), on_meta(dtype=torch.int64)
# Ops that only CUDA has, against torch's own meta kernels, which are in Python.
OF_CUDA = {
    "flash": ("_scaled_dot_product_flash_attention", (Q, K, K)),
    "flash, transposed": ("_scaled_dot_product_flash_attention", (TRANSPOSED, K, K)),
    "flash backward": (
        "_scaled_dot_product_flash_attention_backward",
        (Q, Q, K, K, Q, SUMS, None, None, 5, 7, 0.0, False, SEED, SEED),
    ),
    "cudnn": ("_scaled_dot_product_cudnn_attention", (TRANSPOSED, K, K, None, True)),
    "efficient": ("_scaled_dot_product_efficient_attention", (Q, K, K, None, True)),
    "efficient, no sums": ("_scaled_dot_product_efficient_attention", (Q, K, K, None, False)),
    "efficient backward": (
        "_scaled_dot_product_efficient_attention_backward",
        (Q, Q, K, K, None, Q, SUMS, SEED, SEED, 0.0, [True, True, True, False]),
    ),
    "dropout": ("native_dropout", (TRANSPOSED, 0.5, True)),
    "batch_norm": ("cudnn_batch_norm", (X, N, N, N, N, True, 0.1, 1e-5)),
    "batch_norm, evaluated": ("cudnn_batch_norm", (X, N, N, N, N, False, 0.1, 1e-5)),
    "lstm": (
        "_cudnn_rnn",
        (on_meta(5, 3, 8), LSTM, 4, None, on_meta(1, 3, 8), on_meta(1, 3, 8), 2, 8, 0, 1, False, 0.0, True, False, [], None),
    ),
    "lstm cell": ("_thnn_fused_lstm_cell", (on_meta(3, 32), on_meta(3, 32), on_meta(3, 8), on_meta(32), on_meta(32))),
}  # fmt: skip
# torch's meta kernel says uint64 [2], uint64 [] or int64 []; which of them is torch's own affair.
SEEDS = {"flash": (6, 7), "flash, transposed": (6, 7)}


@pytest.mark.parametrize("name", OF_CUDA)
def test_an_op_of_cuda_gives_what_torch_says(name):
    op, args = OF_CUDA[name]
    call = getattr(torch.ops.aten, op).default
    expected = call(*args)
    with _tracehost.WithoutData():
        found = call(*args)
    for i, (theirs, ours) in enumerate(zip(expected, found, strict=True)):
        if i not in SEEDS.get(name, ()):
            assert described(ours) == described(theirs), i
