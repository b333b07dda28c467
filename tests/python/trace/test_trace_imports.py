"""A trace imports no module that the same body imports when it runs eagerly."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys, torch, tracehost
F = torch.nn.functional
lstm, conv = torch.nn.LSTM(4, 8), torch.nn.Conv2d(3, 4, 3)

def chain(x):
    for _ in range(5):
        x = torch.tanh(x) + 1
    return x

def branch(x):
    if x.sum() > 0:
        x = conv_of(x)
    else:
        x = -x
    return x

def conv_of(x):
    return x * conv(torch.ones(2, 3, 8, 8)).sum()

def loop(x):
    while x.sum() < 100:
        x = F.scaled_dot_product_attention(x[None], x[None], x[None])[0] + 1
    return x

BODIES = {
    "chain": (chain, (4, 4)),
    "branch": (branch, (4, 4)),
    "loop": (loop, (4, 4)),
    "conv": (lambda x: conv(x), (2, 3, 8, 8)),
    "lstm": (lambda x: lstm(x)[0], (5, 2, 4)),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x), (2, 2, 5, 8)),
}
body, shape = BODIES[sys.argv[1]]
x = torch.ones(shape)
spec = tracehost.TensorSpec([None, *shape[1:]])
body(x)
before = set(sys.modules)
if sys.argv[2] == "plain":
    tracehost.function(body)(x)
elif sys.argv[2] == "declared":
    tracehost.function(body, input_signature=[spec])(x)
elif sys.argv[2] == "specs":
    tracehost.function(body).get_concrete_function(spec)
else:
    function = tracehost.function(body, reduce_retracing=True)
    for rows in (x, torch.cat([x, x]), torch.cat([x, x, x])):
        function(rows)
    assert function.tracing_count() == 2
print(sorted(set(sys.modules) - before))
"""
BODIES = ("chain", "branch", "loop", "conv", "lstm", "attention")


@pytest.mark.parametrize("kind", ["plain", "declared", "specs", "reduced"])
@pytest.mark.parametrize("body", BODIES)
def test_a_trace_imports_nothing(tmp_path, body, kind):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), body, kind]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
