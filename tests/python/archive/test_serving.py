"""docs/operations/serving.md and examples/serving: torchrun; Triton's configuration; Ray Serve where it is installed."""

import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
import tracehost
from conftest import HOST, OF_TORCHRUN, ROOT, TORCHRUN, clean_environment
from tracehost import TensorSpec

EXAMPLES = ROOT / "examples" / "serving"
PAGE = (ROOT / "docs" / "operations" / "serving.md").read_text(encoding="utf-8")


def run(*command, cwd, **environment):
    done = subprocess.run(
        [HOST, *command],
        cwd=cwd,
        env=clean_environment(**environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=400,
    )
    return done


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A folder with digits.thz, images.f32 and scores.f32."""
    folder = tmp_path_factory.mktemp("digits")
    done = run(ROOT / "examples" / "cpp" / "classify_digits" / "train.py", ".", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def floats(path, width):
    data = bytearray(path.read_bytes())
    return torch.frombuffer(data, dtype=torch.float32).view(-1, width)


def labels(folder):
    return floats(folder / "scores.f32", 10).argmax(1).tolist()


@pytest.mark.parametrize("name", ["ray_serve.py", "torchrun.py"])
def test_the_page_shows_the_file(name):
    source = (EXAMPLES / name).read_text(encoding="utf-8").partition('"""\n\n')[2]
    assert f"```py\n# examples/serving/{name}\n{source}```" in PAGE


def test_torchrun(digits):
    command = [*TORCHRUN, EXAMPLES / "torchrun.py", "digits.thz", "images.f32"]
    done = run(*command, cwd=digits, **OF_TORCHRUN)
    assert done.returncode == 0, done.stderr
    assert [int(line) for line in done.stdout.split()] == labels(digits)


# -- Triton ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def repository():
    """repository(archive, *options): the script, in this process; config.pbtxt."""
    specification = importlib.util.spec_from_file_location(
        "script", EXAMPLES / "triton_repository.py"
    )
    script = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(script)

    def make(archive, *options):
        models = archive.parent / "models"
        script.main([str(archive), str(models), *options])
        return (models / archive.stem / "config.pbtxt").read_text(encoding="utf-8")

    return make


def test_a_model_repository_for_triton(repository, digits):
    config = repository(digits / "digits.thz", "--max-batch-size", "64")
    assert f"```text\n# models/digits/config.pbtxt\n{config}```" in PAGE
    model = digits / "models" / "digits" / "1" / "model.pt"
    assert model.read_bytes() == (digits / "digits.thz").read_bytes()


def test_what_triton_calls_gives_the_same_numbers(digits):
    """forward, by what its PyTorch back end sets: inference mode, no profiling; tensors of a batch, in order."""
    images = floats(digits / "images.f32", 64)
    expected = tracehost.load(digits / "digits.thz")["predict"](images)
    profiling = torch._C._jit_set_profiling_mode(False)
    try:
        with torch.inference_mode(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch deprecates TorchScript
            module = torch.jit.load(digits / "digits.thz", map_location="cpu")
            arguments = module.forward.schema.arguments[1:]
            assert [str(argument.type) for argument in arguments] == ["Tensor"]
            for rows in (1, 64, 5, 64, 360):
                outputs = module(images[:rows].clone())
                assert isinstance(outputs, tuple) and len(outputs) == 2
                for output, name in zip(outputs, ("scores", "best")):
                    torch.testing.assert_close(output, expected[name][:rows])
                    assert output.is_contiguous() and output.dim() > 0
    finally:
        torch._C._jit_set_profiling_mode(profiling)


def saved(folder, name, function, *specs):
    tracehost.save(
        folder / f"{name}.thz", {name: tracehost.function(function).get_concrete_function(*specs)}
    )
    return folder / f"{name}.thz"


def test_dtypes_and_shapes_of_a_configuration(repository, tmp_path):
    def mixed(image, ids, mask, scale=2.0):
        return image.double() * scale, (ids + 1, {"mask": ~mask, "half": image.half()[0]})

    specs = [TensorSpec([None, 3, None]), TensorSpec([4], torch.int64), TensorSpec([None], torch.bool)]  # fmt: skip
    config = repository(saved(tmp_path, "mixed", mixed, *specs), "--gpu", "--name", "mixed")
    assert config == (
        'name: "mixed"\n'
        'platform: "pytorch_libtorch"\n'
        "max_batch_size: 0\n"
        "input [\n"
        '  { name: "INPUT__0", data_type: TYPE_FP32, dims: [ -1, 3, -1 ] },\n'
        '  { name: "INPUT__1", data_type: TYPE_INT64, dims: [ 4 ] },\n'
        '  { name: "INPUT__2", data_type: TYPE_BOOL, dims: [ -1 ] }\n'
        "]\n"
        "output [\n"
        '  { name: "OUTPUT__0", data_type: TYPE_FP64, dims: [ -1, 3, -1 ] },\n'
        '  { name: "OUTPUT__1", data_type: TYPE_INT64, dims: [ 4 ] },\n'
        '  { name: "OUTPUT__2", data_type: TYPE_BOOL, dims: [ -1 ] },\n'
        '  { name: "OUTPUT__3", data_type: TYPE_FP16, dims: [ 3, -1 ] }\n'
        "]\n"
        "instance_group [ { kind: KIND_GPU } ]\n"
        'parameters: { key: "ENABLE_JIT_PROFILING", value: { string_value: "false" } }\n'
    )


ROWS = TensorSpec([None, 3])
REFUSED = {
    "number": (lambda x: x.sum(), ROWS, "OUTPUT__0: it is a single number, and Triton has no such tensors: reshape(1) it"),
    "small": (lambda x: x + 1, TensorSpec([None], torch.bfloat16), "INPUT__0: Triton has no bfloat16"),
    "fixed": (lambda x: x + 1, TensorSpec([2, 3]), "INPUT__0: dimension 0 is 2: for batches save TensorSpec([None, ...])"),
    "halves": (lambda x: x + 1 if x.shape[0] % 2 else x, ROWS, "halves.thz: its first graph is for some sizes or values only, and Triton does not look"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_graph_that_triton_would_not_run_right(repository, tmp_path, name):
    function, spec, message = REFUSED[name]
    with pytest.raises(SystemExit) as rejected:
        repository(saved(tmp_path, name, function, spec), "--max-batch-size=8")
    assert str(rejected.value).removeprefix(f"{tmp_path}/") == message
    assert not (tmp_path / "models").exists()


@pytest.mark.skipif(
    not importlib.util.find_spec("tritonclient"),
    reason="not installed: tritonclient[grpc]; `scripts/test --serving` runs this test with what it needs",
)
def test_a_configuration_by_tritons_own_schema(repository, digits):
    from google.protobuf import text_format
    from tritonclient.grpc.model_config_pb2 import ModelConfig

    config = repository(digits / "digits.thz", "--max-batch-size", "64")
    read = text_format.Parse(config, ModelConfig())
    assert (read.name, read.platform, read.max_batch_size) == ("digits", "pytorch_libtorch", 64)
    assert [(t.name, t.data_type, list(t.dims)) for t in (*read.input, *read.output)] == [
        ("INPUT__0", 11, [64]),
        ("OUTPUT__0", 11, [10]),
        ("OUTPUT__1", 9, [3]),
    ]


# -- Ray Serve ---------------------------------------------------------------------------------------------


@pytest.mark.skipif(
    not importlib.util.find_spec("ray"),
    reason="not installed: ray[serve]; `scripts/test --serving` runs this test with what it needs",
)
def test_the_life_of_a_ray_deployment(digits, tmp_path_factory):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    work = Path("/tmp") / f"tracehost-ray-{os.getpid()}"  # names of sockets are short
    script = Path(__file__).with_name("serve_with_ray.py")
    try:
        done = run(
            script, ".", str(port), cwd=digits,
            PYTHONPATH=str(EXAMPLES), RAY_TMPDIR=str(work), RAY_USAGE_STATS_ENABLED="0",
        )  # fmt: skip
    finally:
        shutil.rmtree(work, ignore_errors=True)
    assert done.returncode == 0, done.stderr[-5000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    expected = labels(digits)
    assert seen["worker"] == f"{sys.prefix}/bin/tracehost-python"
    assert seen["one by one"] == expected[:5]
    assert seen["together"] == expected[:64]
    status, text = seen["wrong"]
    assert status == 400 and text.startswith("an image is a list of 64 numbers: ")
    assert seen["during"] == sorted([str(expected[0]), "7"]), "not one failed, old or new"
    assert seen["after the reload"] == seen["after the failure"] == [7] * 5
    assert "Deploying application default failed" in seen["error"]
    assert "damaged.thz is not a tracehost archive, or it is cut off: its end is missing. Copy or save it again." in re.sub(r"\s+", " ", seen["cause"])  # fmt: skip
