"""The words of retraces, from facts as C++ gives them: causes that no program of data/retraces has, and their limits."""

import pytest
from tracehost._reports.words import calls, records, remedies, source, warning
from tracehost._reports.words.uses import Use, Uses

PLACE = {"file": "/home/me/train.py", "line": 12, "text": "train.py:12"}


def at(text):
    file, _, line = text.rpartition(":")
    return {"file": f"/home/me/{file}", "line": int(line), "text": text}


def difference(cause, path, before, after, dimension=-1, rank=-1, where=""):
    return {
        "cause": cause, "path": path, "dimension": dimension, "before": before, "after": after,
        "rank": rank, "where": where,
    }  # fmt: skip


def record(*differences, call="train.py:40", **changed):
    return {
        "differences": list(differences), "call": at(call),
        "origin": "differs" if differences else "initial", "complete": True, "evicted": False,
        "once": "", "was_once": "", "seen": False, "function": 1, "number": 1, "request": None,
        "alike": [], "exchangeable": [], "specialized": [],
    } | changed  # fmt: skip


def account(records, **changed):
    return {
        "name": "step", "definition": PLACE, "declared": False, "reduces": False, "ms": 41.3,
        "limit": 64, "signatures": len(records), "records": records,
    } | changed  # fmt: skip


def told(records, kind="first", **changed):
    if kind == "first":
        warning.reset()
    due = {
        "kind": kind, "account": account(records, **changed), "traces": len(records),
        "calls": len(records), "evicted": "(n=1)", "call": at("train.py:40"),
        "first_call": at("train.py:40") if kind == "second" else None,
    }  # fmt: skip
    found = warning.worded(due)
    return found and found[0]


def told_of(cause, path, *values, **changed):
    """Of five traces that differ in one thing, which had these values in turn."""
    turns = [values[i % len(values)] for i in range(5)]
    pairs = zip(turns, turns[1:], strict=False)
    return told([record(), *(record(difference(cause, path, a, b, **changed)) for a, b in pairs)])


@pytest.fixture(autouse=True)
def _no_names():
    yield
    warning.reset()
    remedies.traced.clear()


def test_three_causes_are_shown_and_the_others_counted():
    records = [record(), *(record(difference("value", path, "1", "2")) for path in "abcd")]
    assert (
        "argument 'c' took 2 values (1, 2), from train.py:40\n        and 1 more cause\n"
        in told(records)
    )
    records.append(record(difference("value", "e", "1", "2")))
    assert "and 2 more causes" in told(records)


def test_eight_values_and_two_call_sites():
    records = [record()]
    for i in range(9):
        one = difference("shape", "x", str(i), str(i + 1), 0, 1)
        records.append(record(one, call=f"a.py:{1 + i % 3}"))
    expected = "took 10 values (0, 1, 2, 3, 4, 5, 6, 7, ...), from a.py:1 and a.py:2\n"
    assert expected in told(records)


def test_a_dynamic_size_is_no_size_that_an_argument_took():
    records = [
        record(),
        record(difference("shape", "x", "12", "None", 0, 1)),
        record(difference("shape", "x", "12", "15", 0, 1)),
    ]
    assert "took 2 values (12, 15), from" in told(records)


@pytest.mark.parametrize(
    ("cause", "path", "values", "fix"),
    [
        ("device", "x", ("cpu", "cuda:0"), "pass x.to('cuda:0') for 'x' (x is what train.py:40 passes)"),
        ("layout", "x", ("strided", "sparse"), "pass x.to_dense() for 'x' (x is what train.py:40 passes)"),
        ("layout", "x", ("strided", "strided, inference"), "pass x.clone() for 'x' (x is what train.py:40 passes)"),
        ("requires_grad", "x", ("False", "True"), "pass x.detach() for 'x' (x is what train.py:40 passes): where no gradient is needed"),
        ("subclass", "x", ("Tensor", "Masked"), "pass x.as_subclass(torch.Tensor) for 'x' (x is what train.py:40 passes)"),
        ("alias", "y", ("a tensor of its own", "the same tensor as x"),
         "pass y.clone() for 'y' (y is what train.py:40 passes), which is the same tensor as another argument"),
        ("type", "xs", ("list", "tuple"), "pass tuple(xs) for 'xs' (xs is what train.py:40 passes)"),
        ("dtype", "batch['x']", ("float32", "float64"),
         "pass batch['x'].to(torch.float32) for \"batch['x']\" (batch is what train.py:40 passes): results are then those of float32"),
        ("object", "net", ("<Net object>",), "create 'net' once, outside the loop, and pass the same object"),
        ("context", "grad mode", ("on", "off"),
         "call step under one grad mode: torch.no_grad() around all its calls or around none"),
        ("context", "default dtype", ("float32", "float64"), "keep the default dtype as it is for all calls to step"),
    ],
)  # fmt: skip
def test_a_fix_of_a_cause(cause, path, values, fix):
    assert told_of(cause, path, *values).endswith(f"\n  fix   {fix}   would save 4 of 5 traces")


@pytest.mark.parametrize(
    ("cause", "path", "values", "see"),
    [
        ("value", "flag", ("True", "False"), "'flag' at train.py:40: each value needs a graph of its own; pass few, or apply tracehost.function once for each"),
        ("rank", "x", ("[2]", "[2, 1]"), "'x' at train.py:40: each number of dimensions needs a graph of its own; reshape or unsqueeze it"),
        ("layout", "x", ("strides [3, 1]", "strides [1, 2]"), "'x' at train.py:40: each layout that the body reads needs a graph of its own; pass one, for example by contiguous()"),
        ("guard", "MODE (net.py)", ("'a'", "'b'"), "what sets 'MODE (net.py)': each value needs a graph of its own; set it once, before the first call"),
        ("guard", "len(SEEN (net.py))", ("1", "2"), "what changes 'len(SEEN (net.py))': each value needs a graph of its own; pass a tensor with that number"),
        ("guard", "self.b is self.a", ("True", "False"), "what sets 'self.b': one tensor under two names needs a graph of its own; clone() it from the start"),
        ("guard", "list(SEEN (net.py))", ("'a'", "'b'"), "what changes 'list(SEEN (net.py))': each value needs a graph of its own; keep it as it is"),
        ("guard", "net.training", ("True", "False"), "what switches 'net.training': each mode needs a graph of its own; group the calls by mode"),
        ("capture", "net.w", ("float32[2]", "float64[2]"), "'net.w' at train.py:40: keep its shape, dtype and device, and change its values by copy_()"),
        ("condition", "net.py:7", ("x.shape[0] > 4", "x.shape[0] <= 4"), "net.py:7: a comparison of sizes; each of its outcomes needs a graph of its own"),
    ],
)  # fmt: skip
def test_what_to_look_at_where_no_fix_is_known(cause, path, values, see):
    assert told_of(cause, path, *values).endswith(f"\n  see   {see}")


def test_how_causes_are_said():
    assert "argument 'cfg' was another object 4 times (<Net object>), from" in told_of(
        "object", "cfg", "<Net object>"
    )
    assert "argument 's' changed ('aaa...'), from" in told_of("value", "s", "'aaa...'")
    assert (
        "  why   sizes compare differently at net.py:7: x.shape[0] > 4, then x.shape[0] <= 4, from"
        in told_of("condition", "net.py:7", "x.shape[0] > 4", "x.shape[0] <= 4")
    )
    assert (
        "  why   the value of 'k' at net.py:6 took 2 values (1, 2), each with a graph of its own, from"
        in told_of("read", "k", "1", "2", where="net.py:6")
    )


def test_there_is_always_a_cause():
    unnamed = [record(), *(record(origin="differs") for _ in range(4))]
    assert "an argument compared unequal and then equal again 4 times: see its __eq__" in told(
        unnamed
    )
    gone = [record(), *(record(origin="emptied") for _ in range(4))]
    assert (
        "  why   4 times the graphs before were gone, with the objects that they were traced with, from"
        in told(gone)
    )
    once = [record(), *(record(origin="emptied", was_once="the body prints") for _ in range(4))]
    assert (
        "  why   4 times the previous graph was good for one call only: the body prints, from"
        in told(once)
    )


def test_nothing_is_claimed_that_was_not_recorded():
    pairs = [("1", "2"), ("2", "3"), ("3", "4"), ("4", "5")]
    records = [record(difference("dtype", "x", a, b), complete=False) for a, b in pairs]
    assert "would save" not in told([record(), *records])


def test_no_decorator_without_the_arguments():
    text = told_of("shape", "x", "1", "2", "3", dimension=0, rank=1)
    assert "input_signature" not in text and "reduce_retracing" in text


def test_a_size_that_stays_exact_is_padded():
    size = {
        "path": "x",
        "dimension": 1,
        "sentence": "dimension 1 of 'x' cannot be dynamic: int() of the size at train.py:13",
    }
    records = [record()]
    for a, b in (("12", "15"), ("15", "17"), ("17", "20")):
        records.append(record(difference("shape", "x", a, b, 1, 2), specialized=[size]))
    assert (
        "from train.py:40\n  why   dimension 1 of 'x' cannot be dynamic: int() of the size at train.py:13\n"
        "  fix   pass torch.nn.functional.pad(x, (0, 20 - x.shape[1])) for 'x' (x is what train.py:40 passes): padding changes results "
        "that depend on all elements   would save 3 of 4 traces"
    ) in told(records, reduces=True)


def test_all_dimensions_that_change_are_padded():
    sizes = [("12", "15", "4", "7"), ("15", "20", "7", "5")]
    records = [record()]
    for a, b, c, d in sizes:
        first, last = difference("shape", "x", a, b, 0, 3), difference("shape", "x", c, d, 2, 3)
        records.append(record(first, last))
    assert "torch.nn.functional.pad(x, (0, 7 - x.shape[2], 0, 0, 0, 20 - x.shape[0]))" in told(
        records, declared=True, reduces=True
    )


def test_the_odd_last_batch_can_be_dropped():
    records = [record(), record(difference("shape", "x", "64", "5", 0, 2))]
    text = told(records, declared=True)
    assert (
        "  fix   drop the odd last batch, DataLoader(..., drop_last=True), or pass torch." in text
    )


def test_the_second_warning_points_to_the_first():
    records = [record(), *(record(difference("value", "flag", "'a'", "'b'")) for _ in range(4))]
    told(records)
    assert told(records, "second") == (
        "5 out of the last 5 calls to step (train.py:12) triggered retracing: 41 ms so far. "
        "The first warning at train.py:40 has the causes and fixes."
    )
    records.append(record(difference("dtype", "x", "float32", "float64")))
    text = told(records, "second")
    assert text.count("why") == 1 and "argument 'x' took 2 dtypes (float32, float64)" in text


def test_a_cause_that_no_warning_has_named_is_shown_as_an_error_only(monkeypatch):
    records = [record(), *(record(difference("value", "flag", "'a'", "'b'")) for _ in range(4))]
    told(records)
    assert told(records, "news") is None
    records.append(record(difference("dtype", "x", "float32", "float64")))
    due = {
        "kind": "news", "account": account(records), "traces": 6, "calls": 6, "evicted": "",
        "call": at("train.py:40"), "first_call": None,
    }  # fmt: skip
    text, shown = warning.worded(due)
    assert not shown and "argument 'x' took 2 dtypes" in text and "flag" not in text
    records.append(record(difference("dtype", "y", "float32", "float64")))
    monkeypatch.setattr(warning, "as_errors", True)
    due["account"] = account(records)
    assert warning.worded(due)[1]


def test_a_fix_of_a_traced_function_is_an_option_of_trace():
    remedies.traced["/home/me/train.py", 12] = "--trace __main__:step"
    text = told_of("shape", "x", "1", "2", "3", dimension=0, rank=1)
    assert "  fix   --trace __main__:step,reduce_retracing   would save" in text
    text = told([record(difference("value", "n", "1", "2"), evicted=True)] * 5, limit=8)
    assert "  fix   raise the limit: --trace __main__:step,limit=16   would save" in text


def test_durations_are_short():
    assert [warning.duration(ms) for ms in (0.4, 41.3, 12_340)] == ["0.4 ms", "41 ms", "12.3 s"]


@pytest.mark.parametrize(
    ("body", "use"),
    [
        ("return x * k", Use.ARITHMETIC),
        ("return (x * k).sum()", Use.ARITHMETIC),
        ("return x * k, x", Use.ARITHMETIC),
        ("return helper(x * k)", Use.ARITHMETIC),
        ("return x * math.exp(-k)", Use.ARITHMETIC),
        ("return x if k > 2 else -x", Use.ARITHMETIC),
        ("y = 1 - k\n    return y * x", Use.ARITHMETIC),
        ("return x.clamp(max=k)", Use.ARITHMETIC),
        ("return x.topk(k)", Use.COUNT),
        ("n = k + 1\n    return x[:n]", Use.COUNT),
        ("for _ in range(k):\n        x = x + 1\n    return x", Use.COUNT),
        ("return torch.zeros((k, 2))", Use.COUNT),
        ("return k", Use.VALUE),
        ("return helper(k) * x", Use.VALUE),
        ("return x * TABLE[k]", Use.VALUE),
        ("return x, f'{k}'", Use.VALUE),
        ("return x, '%d' % k", Use.VALUE),
        ("return torch.cat([x] * k)", Use.VALUE),
        ("return [x * i for i in range(k)]", Use.VALUE),
        ("return x.sum(k)", Use.VALUE),
        ("return x.sum(dim=k)", Use.VALUE),
        ("return x * math.gcd(k, 2)", Use.VALUE),
        ("return x if k is None else -x", Use.VALUE),
        ("k = k + 1\n    return x * k", Use.VALUE),
        ("return x * k.bit_length()", Use.VALUE),
    ],
)
def test_what_a_body_does_with_a_number(body, use, tmp_path):
    file = tmp_path / "body.py"
    file.write_text(f"@tracehost.function\ndef f(x, k):\n    {body}\n")
    place = source.Place(str(file), 1, "body.py:1")
    assert Uses(source.definition_at(place), {"x"}).of_number("k") == use


@pytest.mark.parametrize(
    ("body", "needs"),
    [
        ("return x * state.scale", False),
        ("return model(x, state)", False),
        ("return x * TABLE[state]", True),
        ("return x if state is LAST else -x", False),
        ("table = {state: 1.0}\n    return x * table[state]", True),
        ("SEEN.append(state)\n    return x", True),
        ("self.last = state\n    return x", True),
    ],
)
def test_which_bodies_depend_on_an_objects_identity(body, needs, tmp_path):
    file = tmp_path / "body.py"
    file.write_text(f"@tracehost.function\ndef f(x, state):\n    {body}\n")
    place = source.Place(str(file), 1, "body.py:1")
    assert Uses(source.definition_at(place), {"x"}).needs_identity("state") == needs


def test_a_function_below_another_decorator_says_nothing_of_its_arguments(tmp_path):
    file = tmp_path / "body.py"
    file.write_text("@tracehost.function\n@logged\ndef f(x, k):\n    return x\n")
    assert source.definition_at(source.Place(str(file), 1, "body.py:1")) is None


def test_a_number_that_no_line_reads():
    text = told_of("read", "", "1", "2", where="?")
    assert (
        "\n  why   a number that no line of the body reads took 2 values (1, 2), each with a graph of its own, "
        "from train.py:40\n  see   the lists and dicts that step (train.py:12) fills or returns: keep tensors in "
        "them, not numbers" in text
    )


def test_where_to_look_for_what_served_one_call():
    def see(reason):
        records = [record(), *(record(was_once=reason) for _ in range(4))]
        return told(records).rpartition("\n  see   ")[2]

    assert see(
        "the body calls print() at net.py:8, in a side of the if at net.py:6: no hit repeats that"
    ) == ("net.py:8: write tracehost.print() in place of print(); each run of the graph calls it")
    assert see("the body creates opt.state at net.py:9") == (
        "net.py:9: do that once before the first call, or outside of the function"
    )
    assert (
        see("another reason")
        == "the cause above: do that once before the first call, or outside of the function"
    )


def test_what_the_body_never_reads(tmp_path):
    def unread(text):
        file = tmp_path / f"body{len(list(tmp_path.iterdir()))}.py"
        file.write_text(text)
        found = source.definition_at(source.Place(str(file), 1, "body.py:1"))
        return sorted(name for name in found.parameters if not found.reads(name))

    assert unread("def f(x, step, *rest):\n    return x\n") == ["step"]
    assert unread("def f(x, step):\n    return lambda: step\n") == ["x"]
    assert unread("def f(x, step):\n    return locals()\n") == []
    assert unread("g = function(lambda x, step: x * 2)\n") == ["step"]


def test_the_expression_that_needs_a_number(tmp_path):
    file = tmp_path / "net.py"
    lines = [
        "if x.sum() > 0:",
        "return x * SCALES[int(n)]",
        "while a < b:",
        "y = x.item()",
        "for i in range(n):",
    ]
    file.write_text("\n".join(lines))
    found = [source.expression(f"net.py:{i}", str(file)) for i in range(1, 6)]
    assert found == ["x.sum() > 0", "int(n)", "a < b", "x.item()", "range(n)"]
    assert source.expression("other.py:1", str(file)) == ""


def test_a_text_that_fails_ends_no_call(monkeypatch):
    def broken(*_):
        raise RecursionError("too deep")

    monkeypatch.setattr(warning, "Remedies", broken)
    assert told_of("value", "n", "1", "2").endswith(
        "41 ms so far.\n  see   tracehost.events(): the causes can't be said: RecursionError: too deep"
    )


SCRIPT = """
import torch
import tracehost


@tracehost.function
def step(x, lr, options, *, decay=0.0):
    return x * lr * options["scale"] * decay


other = tracehost.function(lambda x, n: x * n)
step(torch.ones(3), 0.1 * i, {"scale": 2.0 * i}, decay=(
    i + 1))
step(*both, settings)
other(torch.ones(3), i)
net.step(torch.ones(3), rates[i], options)
Net.step(net, torch.ones(3), rates[i], options)
step(x, i); step(x, j)
"""


@pytest.mark.parametrize(
    ("name", "line", "path", "pattern", "text"),
    [
        ("step", 12, "lr", "torch.tensor({0})", "pass torch.tensor(0.1 * i) for 'lr' at a.py:12"),
        ("step", 12, "lr", "{0}.detach()", "pass (0.1 * i).detach() for 'lr' at a.py:12"),
        ("step", 12, "options['scale']", "torch.tensor({0})", "pass torch.tensor(2.0 * i) for \"options['scale']\" at a.py:12"),
        ("step", 12, "decay", "torch.tensor({0})", "pass torch.tensor(i + 1) for 'decay' at a.py:13"),
        ("step", 12, "lr", "None", "pass None for 'lr' at a.py:12"),
        ("step", 12, "x", "f({0}, {0})", "pass f(x, x) with x = torch.ones(3) for 'x' at a.py:12"),
        ("step", 14, "lr", "torch.tensor({0})", "pass torch.tensor(lr) for 'lr' (lr is what a.py:14 passes)"),
        ("<lambda>", 15, "lr", "torch.tensor({0})", "pass torch.tensor(i) for 'lr' at a.py:15"),
        ("Net.step", 16, "lr", "torch.tensor({0})", "pass torch.tensor(rates[i]) for 'lr' at a.py:16"),
        ("Net.step", 16, "options.scale", "torch.tensor({0})", "pass torch.tensor(options.scale) for 'options.scale' at a.py:16"),
        ("Net.step", 17, "lr", "torch.tensor({0})", "pass torch.tensor(lr) for 'lr' (lr is what a.py:17 passes)"),
        ("step", 18, "lr", "torch.tensor({0})", "pass torch.tensor(lr) for 'lr' (lr is what a.py:18 passes)"),
    ],
)  # fmt: skip
def test_a_fix_names_the_callers_expression(tmp_path, name, line, path, pattern, text):
    file = tmp_path / "a.py"
    file.write_text(SCRIPT)
    request = {
        "names": ["x", "lr", "options", "decay"],
        "kinds": ["positional", "positional", "positional", "keyword"],
        "defaults": [], "nodes": [], "tensors": [],
    }  # fmt: skip
    call = {"file": str(file), "line": line, "text": f"a.py:{line}"}
    definition = {"file": str(file), "line": 11, "text": "a.py:11"}
    known = account([record(request=request) | {"call": call}], name=name, definition=definition)
    assert calls.passes(records.account(known), path, pattern) == text


def test_an_argument_of_a_method_stands_behind_its_object(tmp_path):
    file = tmp_path / "a.py"
    file.write_text(SCRIPT)
    request = {
        "names": ["self", "x", "lr", "options"], "kinds": [], "defaults": [], "nodes": [], "tensors": [],
    }  # fmt: skip
    call = {"file": str(file), "line": 16, "text": "a.py:16"}
    known = account([record(request=request) | {"call": call}], name="Net.step")
    text = calls.passes(records.account(known), "lr", "torch.tensor({0})")
    assert text == "pass torch.tensor(rates[i]) for 'lr' at a.py:16"


def test_two_calls_are_named_and_more_are_counted():
    known = records.account(account([record(call=f"train.py:{line}") for line in (1, 2, 3)]))
    text = "pass None for 'lr' at train.py:1 and train.py:2, and so on"
    assert calls.passes(known, "lr", "None") == text
