"""map_fn: a function of each row, its results stacked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch

from .._arguments.dtypes import dtype_of, is_dtype
from .._arguments.tensor_spec import fits
from .._arguments.trees import flatten
from .._counterparts import check_options
from .._tracehost import TensorSpec, sizes_now
from ..autograph.run.explicit import check_callable
from ..autograph.staging.conditions import raise_if
from ..autograph.staging.state import is_tensor, kind
from ..autograph.staging.where import line
from .elements import check_at_each_call
from .rows import Rows, dtypes_in, each_row
from .tensor_array import TensorArray


def map_fn(
    fn: Callable[[Any], Any],
    elems: Any,
    dtype: Any = None,
    *,
    fn_output_signature: Any = None,
    **options: Any,
) -> Any:
    """`fn` of each row, along dimension 0; the results stacked along a new dimension 0.

        tracehost.map_fn(lambda row: row / row.sum(), torch.ones(4, 3))
        tracehost.map_fn(lambda ab: ab[0] * ab[1], (a, b), fn_output_signature=torch.float32)

    In a traced function, with autograph or without, it is one loop of the graph, however many rows there
    are: `fn` is called once while it is traced, on tensors without data. Gradients flow through it. Outside
    of a trace it is a plain loop. Where `fn` takes batches, call it on the whole tensor: that is faster.

    Args:
        fn: gets a row: a tensor of one dimension less, in containers as `elems` has them.
        elems: a tensor, or a container of tensors of one first size.
        dtype: tf's former name of `fn_output_signature`.
        fn_output_signature: a dtype, a TensorSpec, or a container of them, as `fn` returns it. To be given
            where `fn` returns another container than `elems`, or other dtypes. A TensorSpec with a device:
            the results are there, not on the device of `elems`.

    Returns:
        A tensor, or a container of tensors, as `fn` returns.

    Raises:
        TypeError: `fn` is not callable, `elems` has something else than tensors, or the result of `fn`
            differs from what is declared, or from `elems`.
        ValueError: `elems` has a tensor without dimension, or first sizes differ; the results differ in shape,
            or from a TensorSpec; there are no rows, and no TensorSpec gives the shape.
        StagingError: as `while_loop`.
    """
    check_options("map_fn", options)
    check_callable("map_fn", "fn", fn)
    rows = Rows("map_fn", elems)
    results = _Results(_signature(rows, dtype, fn_output_signature), rows)

    def step(i: Any) -> tuple[()]:
        results.write(i, fn(rows.row(i)))
        return ()

    each_row("map_fn", rows.count, step)
    return results.stack()


def _signature(rows: Rows, dtype: Any, signature: Any) -> Any:
    if dtype is not None and signature is not None:
        raise TypeError("map_fn() got both 'dtype' and 'fn_output_signature', which are the same")
    signature = dtype if signature is None else signature
    if signature is None:
        return rows.spec.unflatten([t.dtype for t in rows.tensors])
    return signature


class _Results:
    """A TensorArray for each tensor that a row gives."""

    def __init__(self, signature: Any, rows: Rows) -> None:
        self.specs, self.spec = flatten(signature)
        self.where = line()
        for leaf in self.specs:
            if not (is_dtype(leaf) or isinstance(leaf, TensorSpec)):
                raise TypeError(
                    "map_fn's fn_output_signature is a dtype or a TensorSpec, or a container of them, got "
                    f"{leaf!r}"
                )
        self.arrays = [_array(rows, leaf) for leaf in self.specs]
        if any(array.element_shape is None or None in array.element_shape for array in self.arrays):
            error = ValueError(
                f"map_fn at {self.where} goes over no rows, and no shape is known to give the result. Declare it, as "
                "in fn_output_signature=TensorSpec([3])."
            )
            raise_if(rows.count == 0, error)

    def write(self, i: Any, result: Any) -> None:
        leaves, spec = flatten(result)
        if spec != self.spec:
            self._reject(result)
        for array, declared, leaf in zip(self.arrays, self.specs, leaves):
            if not is_tensor(leaf):
                try:
                    leaf = array.as_element(leaf)
                except TypeError:
                    self._reject(result)
            if leaf.dtype != array.dtype:
                self._reject(result)
            _check_shape(declared, leaf, self.where)
            array.write(i, leaf)

    def _reject(self, result: Any) -> NoReturn:
        found = dtypes_in(result)
        expected = self.spec.unflatten([array.dtype for array in self.arrays])
        leaves, _ = flatten(found)
        remedy = f"Write fn_output_signature={found!r}."
        if not all(isinstance(leaf, torch.dtype) for leaf in leaves):
            remedy = "Return tensors, and numbers that the dtype can hold."
        raise TypeError(
            f"map_fn at {self.where}: fn returns {found!r}, and {expected!r} is expected, from elems or as declared. "
            + remedy
        )

    def stack(self) -> Any:
        return self.spec.unflatten([array.stack() for array in self.arrays])


def _array(rows: Rows, declared: Any) -> TensorArray:
    device = rows.tensors[0].device
    if isinstance(declared, TensorSpec):
        return rows.results(declared.dtype, declared.shape, declared.device or device)
    return rows.results(dtype_of(declared, "map_fn's fn_output_signature"), None, device)


def _check_shape(declared: Any, leaf: torch.Tensor, where: str) -> None:
    if not isinstance(declared, TensorSpec):
        return
    what = f"and {declared!r} is declared"
    if not fits(sizes_now(leaf), declared.shape) or declared.device not in (None, leaf.device):
        raise ValueError(f"map_fn at {where}: fn returns {kind(leaf)} on {leaf.device}, {what}")
    another = ValueError(f"map_fn at {where}: fn returns a tensor of another shape, {what}")
    check_at_each_call(leaf, declared.shape, another)
