"""Makes a model repository for NVIDIA Triton from an archive: triton_repository.py ARCHIVE FOLDER

    FOLDER/NAME/config.pbtxt     what the archive's first graph takes and gives
    FOLDER/NAME/1/model.pt       the archive

Triton runs that graph, `forward`, and compares calls with config.pbtxt only: a graph that is right only for some
calls of these dtypes and shapes is rejected.
"""

import argparse
import json
import shutil
import sys
import warnings
from pathlib import Path

import torch

TYPES = {
    "bool": "TYPE_BOOL", "uint8": "TYPE_UINT8", "int8": "TYPE_INT8", "int16": "TYPE_INT16", "int32": "TYPE_INT32",
    "int64": "TYPE_INT64", "float16": "TYPE_FP16", "float32": "TYPE_FP32", "float64": "TYPE_FP64",
}  # fmt: skip


def first_graph(path: Path) -> dict:
    """What the manifest says of the graph that is `forward`."""
    extra = {"tracehost.json": ""}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch deprecates TorchScript
        torch.jit.load(path, map_location="cpu", _extra_files=extra)
    graph = json.loads(extra["tracehost.json"])["functions"][0]["specializations"][0]
    if graph["conditions"] or graph["checked"]:
        sys.exit(
            f"{path}: its first graph is for some sizes or values only, and Triton does not look"
        )
    return graph


def tensor(name: str, spec: dict, batched: bool) -> str:
    """An entry of config.pbtxt: with batches, dims are those of one row."""
    sizes, dtype = spec["sizes"], spec["dtype"]
    if dtype not in TYPES:
        sys.exit(f"{name}: Triton has no {dtype}")
    if not sizes:
        sys.exit(f"{name}: it is a single number, and Triton has no such tensors: reshape(1) it")
    if batched and sizes[0] is not None:
        sys.exit(f"{name}: dimension 0 is {sizes[0]}: for batches save TensorSpec([None, ...])")
    dims = [-1 if size is None else size for size in sizes[batched:]]
    shape = (
        f"dims: [ {', '.join(map(str, dims))} ]" if dims else "dims: [ 1 ], reshape { shape: [ ] }"
    )
    return f'  {{ name: "{name}", data_type: {TYPES[dtype]}, {shape} }}'


def config(name: str, graph: dict, max_batch_size: int, kind: str) -> str:
    inputs = [(f"INPUT__{i}", spec) for i, spec in enumerate(graph["tensors"])]
    outputs = [(f"OUTPUT__{i}", spec) for i, spec in enumerate(graph["result"]["traced"])]
    if not inputs or not outputs:
        sys.exit(f"{name}: Triton wants at least one tensor to go in, and one to come out")
    lines = [f'name: "{name}"', 'platform: "pytorch_libtorch"', f"max_batch_size: {max_batch_size}"]
    for what, entries in (("input", inputs), ("output", outputs)):
        made = ",\n".join(tensor(*entry, batched=max_batch_size > 0) for entry in entries)
        lines += [f"{what} [", made, "]"]
    lines.append(f"instance_group [ {{ kind: {kind} }} ]")
    if max_batch_size > 0:
        lines.append("dynamic_batching { max_queue_delay_microseconds: 2000 }")
    lines.append('parameters: { key: "ENABLE_JIT_PROFILING", value: { string_value: "false" } }')
    return "\n".join(lines) + "\n"


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("archive", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--name", help="of the model; the archive's, if not given")
    parser.add_argument(
        "--max-batch-size",
        type=int,
        default=0,
        help="rows of several requests in one call, up to so many; only for a model that treats each row by itself",
    )
    parser.add_argument("--gpu", action="store_true", help="KIND_GPU in place of KIND_CPU")
    options = parser.parse_args(words)
    name = options.name or options.archive.stem
    kind = "KIND_GPU" if options.gpu else "KIND_CPU"
    text = config(name, first_graph(options.archive), options.max_batch_size, kind)
    version = options.folder / name / "1"
    version.mkdir(parents=True, exist_ok=True)
    (version.parent / "config.pbtxt").write_text(text, encoding="utf-8")
    shutil.copyfile(options.archive, version / "model.pt")


if __name__ == "__main__":
    main(sys.argv[1:])
