"""What a ConcreteFunction says of itself."""

import re

import pytest
import torch
import tracehost
from torch import nn
from tracehost import TensorSpec
from tracehost.testing import assert_traces


def make(body, *args, **kwargs):
    return tracehost.function(body, name="f").get_concrete_function(*args, **kwargs)


def test_structured_signature():  # row 6.20
    def body(x, n, *xs, b, a=1, **kw):
        return {"y": x * n, "z": [xs[0], None]}

    s = TensorSpec([2])
    cf = make(body, s, 3, {"k": s}["k"], b={"c": (s, "text")}, extra=s)
    args, kwargs = cf.structured_input_signature
    assert [repr(a) for a in args] == [
        "TensorSpec(shape=(2,), dtype=torch.float32, name='x')",
        "3",
        "TensorSpec(shape=(2,), dtype=torch.float32, name='xs_0')",
    ]
    assert kwargs == {
        "b": {"c": (TensorSpec([2], name="b_c_0"), "text")},
        "a": 1,
        "extra": TensorSpec([2], name="extra"),
    }
    assert cf.structured_outputs == {"y": s, "z": [s, None]}
    assert cf.output_shapes == {"y": (2,), "z": [(2,), None]}
    assert cf.output_dtypes == {"y": torch.float32, "z": [torch.float32, None]}


def test_inputs_and_outputs():  # row 6.22
    weight = torch.ones(3, dtype=torch.float64)
    cf = make(lambda x, y: (x * weight, x.sum(), y), TensorSpec([None, 3]), TensorSpec([None]))
    assert cf.inputs == [
        TensorSpec([None, 3], name="x"),
        TensorSpec([None], name="y"),
        TensorSpec([3], torch.float64, name="nonlocal weight"),
    ]
    assert [i.name for i in cf.inputs] == ["x", "y", "nonlocal weight"]
    assert cf.outputs == [
        TensorSpec([None, 3], torch.float64),
        TensorSpec([]),
        TensorSpec([None]),
    ]
    assert cf.name == "f"


def test_the_graph_has_the_arguments_names():  # row 6.33
    weight = torch.ones(2)

    class Model:
        @tracehost.function
        def call(self, x, batch):
            return x * batch["a"] + weight

    model = Model()
    cf = model.call.get_concrete_function(TensorSpec([2]), {"a": TensorSpec([2])})
    assert isinstance(cf.graph, torch._C.Graph)
    assert [v.debugName() for v in cf.graph.inputs()] == ["x", "batch_a", "capture_0"]
    assert cf.graph is not cf.graph  # a copy: nobody else can change it
    assert "torch.mul(x, batch_a)" in cf.code and cf.code.startswith("def call(")


def test_pretty_printed():  # rows 6.31, 6.32
    cf = make(lambda x, k: x * k, TensorSpec([], torch.int32), 7)
    short = (
        "(x: TensorSpec(shape=(), dtype=torch.int32, name=None), k: Literal[7]) -> "
        "TensorSpec(shape=(), dtype=torch.int32, name=None)"
    )
    verbose = (
        "Input Parameters:\n"
        "  x (POSITIONAL_OR_KEYWORD): TensorSpec(shape=(), dtype=torch.int32, name=None)\n"
        "  k (POSITIONAL_OR_KEYWORD): Literal[7]\n"
        "Output Type:\n"
        "  TensorSpec(shape=(), dtype=torch.int32, name=None)\n"
        "Captures:\n"
        "  None"
    )
    assert cf.pretty_printed_signature() == short
    assert cf.pretty_printed_signature(verbose=True) == verbose
    assert str(cf) == f"ConcreteFunction {verbose}"
    assert repr(cf) == f"<ConcreteFunction {short} at {id(cf):#x}>"


def test_pretty_printed_containers_and_captures():
    weight = torch.ones(2)

    def body(*xs, flag=None):
        return [weight * xs[0]["a"], (True,)]

    cf = make(body, {"a": TensorSpec([2]), "b": [1, (2,)]})
    spec = "TensorSpec(shape=(2,), dtype=torch.float32, name=None)"
    assert cf.pretty_printed_signature(verbose=True) == (
        "Input Parameters:\n"
        f"  xs_0 (POSITIONAL_ONLY): {{'a': {spec}, 'b': [Literal[1], (Literal[2],)]}}\n"
        "  flag (KEYWORD_ONLY): None\n"
        "Output Type:\n"
        f"  [{spec}, (Literal[True],)]\n"
        "Captures:\n"
        f"  nonlocal weight: {spec}"
    )


def test_all_signatures_of_a_function():  # row 1.47
    f = tracehost.function(lambda x: x + 1)
    assert f.pretty_printed_concrete_signatures() == ""
    f(torch.ones(2))
    f(torch.ones(3))
    lines = f.pretty_printed_concrete_signatures().split("\n")
    assert [line.split(" -> ")[1] for line in lines] == [
        "TensorSpec(shape=(2,), dtype=torch.float32, name=None)",
        "TensorSpec(shape=(3,), dtype=torch.float32, name=None)",
    ]
    paragraphs = f.pretty_printed_concrete_signatures(verbose=True).split("\n\n")
    assert len(paragraphs) == 2 and all(p.startswith("Input Parameters:") for p in paragraphs)
    declared = tracehost.function(lambda x: x + 1, input_signature=[TensorSpec([None])])
    with assert_traces(declared, 1):
        assert "shape=(None,)" in declared.pretty_printed_concrete_signatures()


def test_an_object_that_is_gone_is_unknown():
    class Config:
        pass

    config = Config()
    cf = make(lambda config, x: x * 2, config, TensorSpec([2]))
    assert cf.structured_input_signature[0][0] is config
    del config
    assert repr(cf.structured_input_signature[0][0]) == "UnknownArgument()"
    assert "config: UnknownArgument()" in cf.pretty_printed_signature()


def test_output_sizes_that_depend_on_the_weights():
    layer = nn.Linear(3, 4)
    cf = tracehost.function(layer).get_concrete_function(TensorSpec([None, 3]))
    assert cf.output_shapes == (None, 4)


def test_a_method_as_an_argument_is_the_same_each_time():
    class Model:
        k = 2.0

        @tracehost.function
        def scale(self, x):
            return x * self.k

    m = Model()
    apply = tracehost.function(lambda f, x: f(x) + 1)
    with assert_traces(apply, 1):
        assert apply(m.scale, torch.ones(1)).item() == 3.0
        assert apply(m.scale, torch.ones(1)).item() == 3.0
    m.k = 3.0
    assert apply(m.scale, torch.ones(1)).item() == 4.0
    wrapped = tracehost.function(m.scale)
    assert wrapped(torch.ones(1)).item() == 3.0
    m.k = 5.0
    assert wrapped(torch.ones(1)).item() == 5.0


def test_code_of_a_graph_without_results():
    cf = tracehost.function(lambda x: "done").get_concrete_function(torch.ones(1))
    assert cf.code.endswith("return None\n")


def test_code_of_a_loop_that_is_left_early():
    @tracehost.function
    def first(x):
        for v in x:
            if v > 1:
                return v
        return x[0]

    cf = first.get_concrete_function(tracehost.TensorSpec([None]))
    message = (
        "first: TorchScript has no statement for a loop that has a count of iterations and a condition. "
        "Print .graph instead."
    )
    with pytest.raises(tracehost.Error, match=re.escape(message)):
        cf.code
    assert "prim::Loop" in str(cf.graph)
