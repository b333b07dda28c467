#pragma once

/// program/array_ops.h in TorchScript. A tensor on the device `meta` stands for an element that is
/// not written: no program writes one. It is made by rand(), which no pass of PyTorch's takes for a
/// constant: it would compare those, which have no data. No generator advances.

namespace tracehost::archive {

inline constexpr const char *kArraySource = R"(
def array_new(size: int) -> List[Tensor]:
    return [torch.rand([0], device="meta")] * size

def array_write(array: List[Tensor], index: int, value: Tensor, fixed: bool) -> None:
    size = len(array)
    at = index
    if index < 0:
        at = index + size
    if at < 0 or (fixed and at >= size):
        prim.RaiseException("element {} is written to a TensorArray of size {}. Give it a larger size, or none (TensorArray(dtype)): then it grows.".format(index, size), "builtins.IndexError")
    while len(array) <= at:
        array.append(torch.rand([0], device="meta"))
    array[at] = value

def array_read(array: List[Tensor], index: int) -> Tensor:
    size = len(array)
    at = index
    if index < 0:
        at = index + size
    if at < 0 or at >= size:
        prim.RaiseException("element {} is read of a TensorArray that has {}".format(index, size), "builtins.IndexError")
    value = array[at]
    if prim.is_meta(value):
        prim.RaiseException("element {} of a TensorArray is read before it is written".format(index), "builtins.IndexError")
    return value

def array_written(array: List[Tensor]) -> List[Tensor]:
    if len(array) == 0:
        prim.RaiseException("stack() of a TensorArray without elements: there is no shape to give the result. Ask size() first, or write an element before.", "builtins.RuntimeError")
    for i in range(len(array)):
        if prim.is_meta(array[i]):
            prim.RaiseException("stack() of a TensorArray whose element {} of {} is not written".format(i, len(array)), "builtins.RuntimeError")
    return array

def array_unstack(array: List[Tensor], t: Tensor, fixed: bool) -> None:
    if torch.dim(t) == 0:
        prim.RaiseException("unstack() of a tensor without dimensions", "builtins.RuntimeError")
    rows = torch.unbind(t, 0)
    if fixed and len(rows) != len(array):
        prim.RaiseException("unstack() of {} rows into a TensorArray of size {}".format(len(rows), len(array)), "builtins.RuntimeError")
    array.clear()
    for row in rows:
        array.append(row)
)";

} // namespace tracehost::archive
