"""RetraceWarning: at the fifth trace, with cause, place and remedy; twice at most."""

import array
import re
import warnings

import pytest
import torch
import tracehost
from core_support import place
from tracehost._reports.words.table import rows as _rows
from tracehost.testing import assert_traces


def recorded(call):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call()
    return [w for w in seen if issubclass(w.category, tracehost.RetraceWarning)]


def timeless(warning):
    text = str(warning.message)
    assert re.search(r"retracing: (\d+\.\d|\d+) ms so far", text), text
    return re.sub(r"[\d.]+ ms so far", "T ms so far", text)


def test_the_fifth_trace_of_five_calls_warns_with_its_cause_and_remedy():
    @tracehost.function
    def step(x, n):
        return x * n

    def calls():
        for n in range(1, 6):
            step(torch.ones(n, 3), 2)  # here

    (warning,) = recorded(calls)
    first = step.python_function.__code__.co_firstlineno
    assert timeless(warning) == (
        f"5 out of the last 5 calls to step (test_core_warnings.py:{first}) triggered retracing: "
        "T ms so far.\n"
        f"  why   argument 'x', dimension 0, took 5 values (1, 2, 3, 4, 5), from {place(calls)}\n"
        "  fix   @tracehost.function(reduce_retracing=True)   would save 3 of 5 traces"
    )  # no input_signature: 2 is neither a tensor nor a default
    assert f"{warning.filename.rsplit('/')[-1]}:{warning.lineno}" == place(calls)
    assert warning.category is tracehost.RetraceWarning


def fixes(text):
    """`(what to write, what it would save of how many)`."""
    found = re.findall(r"  (?:fix|or )   (.*)   would save (\d+) of (\d+) traces", text)
    return [(line, int(saves), int(traces)) for line, saves, traces in found]


def test_the_printed_decorators_for_sizes_save_what_they_say():
    def step(x, scale, flip=False):
        return (x if flip else x * 2).sum() * scale

    def calls(f):
        for n in (12, 15, 17, 20, 31):
            x = torch.ones(4, n)
            assert f(x, torch.tensor(2)) == 16 * n

    (warning,) = recorded(lambda: calls(tracehost.function(step)))
    printed = fixes(timeless(warning))
    assert [(line, saves) for line, saves, _ in printed] == [
        ("@tracehost.function(reduce_retracing=True)", 3),
        (
            "@tracehost.function(input_signature=[tracehost.TensorSpec([4, None], torch.float32), "
            "tracehost.TensorSpec([], torch.int64)])",
            4,
        ),
    ]
    for line, saves, traces in printed:
        scope = {"tracehost": tracehost, "torch": torch, "TensorSpec": tracehost.TensorSpec}
        remedied = eval(line.removeprefix("@"), scope)(step)
        with assert_traces(remedied, traces - saves):
            recorded(lambda: calls(remedied))


def test_a_printed_signature_takes_numbers_containers_and_rests():
    def step(self, batch, n, *rest):
        return batch["x"].sum() * n + rest[0].sum() + batch["pair"][0]

    def calls(f):
        for n in range(1, 6):
            one = torch.tensor(1.0)
            batch = {"x": torch.ones(n), "pair": (one, [one])}
            assert f(None, batch, n, torch.ones(n, 2)) == n * n + 2 * n + 1

    (warning,) = recorded(lambda: calls(tracehost.function(step)))
    ((line, saves, traces),) = fixes(timeless(warning))
    assert line == (
        "@tracehost.function(input_signature=[{'x': tracehost.TensorSpec([None], torch.float32), 'pair': "
        "(tracehost.TensorSpec([], torch.float32), [tracehost.TensorSpec([], torch.float32)])}, "
        "tracehost.TensorSpec([], torch.int64), tracehost.TensorSpec([None, 2], torch.float32)])"
    )
    scope = {"tracehost": tracehost, "torch": torch, "TensorSpec": tracehost.TensorSpec}
    remedied = eval(line.removeprefix("@"), scope)(step)
    recorded(lambda: calls(remedied))
    assert (remedied.tracing_count(), saves, traces) == (1, 4, 5)


def test_the_first_eviction_warns_once_with_its_cause():
    @tracehost.function(limit=2)
    def step(n):
        return torch.ones(2) * n

    def calls():
        for n in range(4):
            step(n)  # here

    (warning,) = recorded(calls)
    first = step.python_function.__code__.co_firstlineno
    text = re.sub(r"[\d.]+ ms of traces", "T ms of traces", str(warning.message))
    assert text == (
        f"step (test_core_warnings.py:{first}) has had more signatures than limit=2 keeps, "
        f"T ms of traces so far: (n={evicted(step)}) was evicted.\n"
        f"  why   argument 'n' took 3 values (0, 1, 2), from {place(calls)}\n"
        f"  fix   pass torch.tensor(n) for 'n' at {place(calls)}: a tensor's value is not part of the signature   "
        "would save 2 of 3 traces\n"
        "  see   @tracehost.function(limit=4), if all of them are called again"
    )


def evicted(function):
    (first, *_) = [e for e in tracehost.events(function) if e.kind == "evict"]
    return first.signature.removeprefix("(n=").removesuffix(")")


def test_a_number_as_the_cause_and_a_tensor_as_its_remedy():
    @tracehost.function
    def step(x, lr):
        return x * lr

    x = torch.ones(2)

    def calls():
        for lr in (0.5, 0.25, 0.125, 2.0, 4.0):
            step(x, lr)  # here

    (warning,) = recorded(calls)
    text = timeless(warning)
    assert (
        f"\n  why   argument 'lr' took 5 values (0.5, 0.25, 0.125, 2.0, 4.0), from {place(calls)}\n"
        in text
    )
    assert text.endswith(
        f"\n  fix   pass torch.tensor(lr) for 'lr' at {place(calls)}: a tensor's value is not part of the signature   "
        "would save 4 of 5 traces"
    )
    before = step.tracing_count()

    def remedied():
        for lr in (0.5, 0.25, 0.125, 2.0, 4.0):
            assert torch.equal(step(x, torch.tensor(lr)), x * lr)

    recorded(remedied)
    assert step.tracing_count() - before == 1


def test_two_warnings_at_most():
    @tracehost.function
    def step(n):
        return torch.ones(2) * n

    seen = recorded(lambda: [step(n) for n in range(40)])
    heads = [timeless(w).split(" calls")[0] for w in seen]
    assert heads == ["5 out of the last 5", "6 out of the last 6"]


def test_a_new_cause_after_both_is_an_event_and_no_third_warning():
    @tracehost.function
    def step(x, n):
        return x * n

    def calls():
        for n in range(20):
            step(torch.ones(2), n)
        for n in range(3, 8):
            step(torch.ones(n), 0)  # here

    assert len(recorded(calls)) == 2
    told = [event.text for event in tracehost.events(step) if event.kind == "warn"]
    assert len(told) == 3 and "argument 'x', dimension 0, took" in told[2] and "'n'" not in told[2]
    line = step.python_function.__code__.co_firstlineno
    (row,) = [row for row in _rows(advised=True) if row["function"].endswith(f".py:{line})")]
    assert "argument 'x', dimension 0, took" in row["advice"]


def test_a_new_cause_after_both_is_an_error_if_retraces_are_to_be(run_host, tmp_path):
    (tmp_path / "train.py").write_text(
        "import torch, tracehost\n\n\n@tracehost.function\ndef step(x, n):\n    return x * n\n\n\n"
        "errors = []\n"
        "for x, n in [(2, n) for n in range(20)] + [(n, 0) for n in range(3, 9)]:\n"
        "    try:\n        step(torch.ones(x), n)\n"
        "    except tracehost.RetraceWarning as error:\n        errors.append(str(error))\n"
        "print(len(errors), 'dimension 0' in errors[-1])\n"
    )
    done = run_host("--retrace-warn", "error", "train.py")
    assert done.stdout == "3 True\n", done.stderr


def test_a_fix_of_a_program_under_trace_is_an_option_of_trace(run_host, tmp_path):
    (tmp_path / "net.py").write_text(
        "import torch\n\n\ndef total(x, scale):\n    return x.sum() * scale\n\n\n"
        "for n in range(1, 7):\n    total(torch.ones(n), 2)\n"
    )
    plain = run_host("--trace", "__main__:total", "--report", "net.py").stderr
    assert "  fix   --trace __main__:total,reduce_retracing   would save 3 of 5 traces\n" in plain
    assert "@tracehost.function" not in plain
    fixed = run_host("--trace", "__main__:total,reduce_retracing", "--report", "net.py").stderr
    assert "RetraceWarning" not in fixed and "total (net.py:4)      6     4       2" in fixed


def test_the_previous_graph_says_what_made_it_good_for_one_call():
    w = torch.zeros(2, requires_grad=True)

    @tracehost.function
    def step(optimizer, x):
        optimizer.zero_grad()
        ((w - x) ** 2).sum().backward()
        optimizer.step()  # creates

    def calls():
        for n in range(1, 6):
            step(torch.optim.Adam([w]), torch.ones(n, 2))  # here

    text = timeless(recorded(calls)[0])
    assert (
        "the previous graph was good for one call only: the body creates optimizer.state[<Tensor>] at "
        in text
    )
    assert f"{place(step.python_function, '# creates')}, from {place(calls)}\n" in text
    assert "cache was empty" not in text


def test_no_decorator_for_objects_of_which_the_body_asks_which_they_are():
    class Settings:
        scale = 2.0

    scales = {}

    @tracehost.function
    def step(x, settings):
        return x * scales.get(settings, 1.0)

    (warning,) = recorded(lambda: [step(torch.ones(2), Settings()) for _ in range(5)])
    assert "argument 'settings' was another object 4 times (<Settings object>)" in timeless(warning)
    assert "reduce_retracing" not in timeless(warning)
    remedied = tracehost.function(step.python_function, reduce_retracing=True)
    with assert_traces(remedied, 5):  # indeed
        recorded(lambda: [remedied(torch.ones(2), Settings()) for _ in range(5)])


def test_a_call_of_clear_is_named():
    @tracehost.function
    def step(x):
        return x * 2

    def calls():
        for n in range(5):
            step(torch.ones(2))
            step.clear()

    assert "  why   clear() was called 4 times before the next call, from" in timeless(
        recorded(calls)[0]
    )
    traces = [event.causes for event in tracehost.events(step) if event.kind == "trace"]
    assert traces[1:] == [("clear() had dropped the graphs",)] * 4


def test_four_traces_are_silent_and_so_are_hits():
    @tracehost.function
    def step(n):
        return torch.ones(2) * n

    assert recorded(lambda: [step(n) for n in range(4)]) == []
    assert recorded(lambda: [step(n) for _ in range(20) for n in range(4)]) == []


def test_every_fourth_call_is_silent_and_every_third_is_not():
    def played(hits):
        @tracehost.function
        def step(n):
            return torch.ones(2) * n

        exec_name = {"step": step}
        return recorded(lambda: [exec_name["step"](n) for n in range(20) for _ in range(hits + 1)])

    assert played(3) == []
    tracehost.reset()  # the definition site is the same
    assert len(played(2)) == 2


def test_hits_before_the_traces_count_into_the_window():
    @tracehost.function
    def step(n):
        return torch.ones(2) * n

    calls = [0] + [0] * 22 + [1, 2, 3, 4]
    (warning,) = recorded(lambda: [step(n) for n in calls])
    assert timeless(warning).startswith("5 out of the last 27 calls to step (")


def test_a_body_that_raises_does_not_count():
    @tracehost.function
    def step(n, fail):
        if fail:
            raise KeyError
        return torch.ones(2) * n

    with assert_traces(step, 4):

        def calls():
            for n in range(4):
                step(n, False)
                for m in range(5):
                    with pytest.raises(KeyError):
                        step(n + 100 * m, True)

        assert recorded(calls) == []


def test_the_lambda_decorated_in_a_loop_is_named():
    def calls():
        for _ in range(5):
            f = tracehost.function(lambda x: x * 2)  # decorated
            f(torch.ones(2))

    (warning,) = recorded(calls)
    where = place(calls, "# decorated")
    assert f"tracehost.function was applied again 4 times to <lambda> ({where})" in timeless(
        warning
    )
    assert "apply @tracehost.function once, above the loop" in timeless(warning)


def test_traces_that_serve_one_call_are_no_emptied_cache():
    numbers = array.array("d")

    @tracehost.function
    def step(x):
        numbers.append(2.0)
        return x * 2

    def calls():
        for _ in range(5):
            step(torch.ones(2))  # here

    (warning,) = recorded(calls)
    first = step.python_function.__code__.co_firstlineno
    assert timeless(warning) == (
        f"5 out of the last 5 calls to step (test_core_warnings.py:{first}) triggered retracing: "
        "T ms so far.\n"
        "  why   4 times the previous graph was good for one call only: the body changes numbers.data, "
        f"from {place(calls)}\n"
        "  see   the cause above: do that once before the first call, or outside of the function"
    )
    assert step.stats()["hits"] == 0 and len(numbers) == 5


def test_a_warning_as_an_error_comes_after_publishing():
    @tracehost.function
    def step(n):
        return torch.ones(2) * n

    for n in range(4):
        step(n)
    with warnings.catch_warnings():
        warnings.simplefilter("error", tracehost.RetraceWarning)
        with pytest.raises(tracehost.RetraceWarning, match="5 out of the last 5"):
            step(4)
        stats = step.stats()
        assert stats["traces"] == stats["live"] == 5
        assert torch.equal(step(4), torch.full((2,), 4.0))
        assert step.stats()["hits"] == 1


def test_a_filter_for_the_class_silences_it():
    @tracehost.function
    def step(n):
        return torch.ones(2) * n

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", tracehost.RetraceWarning)
        for n in range(10):
            step(n)
    assert seen == []


CAUSES = {
    "dtype": (
        lambda i: (torch.ones(2, dtype=[torch.float32, torch.float64, torch.int64][i % 3]),),
        "argument 'x' took 3 dtypes (float32, float64, int64)",
    ),
    "rank": (
        lambda i: (torch.ones([1] * i),),
        "argument 'x' took 5 ranks (",
    ),
    "string": (
        lambda i: (torch.ones(2), "abcde"[i]),
        "argument 'y' took 5 values ('a', 'b', 'c', 'd', 'e')",
    ),
    "object": (
        lambda i: (torch.ones(2), object()),
        "argument 'y' was another object 4 times (<object object>)",
    ),
    "nested": (
        lambda i: (torch.ones(2), {"a": [1, {"b": i}]}),
        "argument \"y['a'][1]['b']\" took 5 values (0, 1, 2, 3, 4)",
    ),
    "length": (
        lambda i: (torch.ones(2), [0] * i),
        "argument 'y' took 5 structures",
    ),
}


@pytest.mark.parametrize("name", CAUSES)
def test_the_cause_is_named(name):
    arguments, cause = CAUSES[name]
    code = "def step(x, y=None):\n    return x * 2\n"
    scope = {}
    exec(compile(code, f"{name}.py", "exec"), scope)
    step = tracehost.function(scope["step"])

    def calls():
        for i in range(5):
            step(*arguments(i))
        if step.tracing_count() < 5:  # three dtypes only: with a flag for more
            for i in range(3):
                with torch.no_grad():
                    step(*arguments(i))

    (warning, *_) = recorded(calls)
    assert f"  why   {cause}" in timeless(warning)


def test_grad_mode_as_the_cause():
    @tracehost.function
    def step(x, n):
        return x * n

    def calls():
        for n in range(3):
            for on in (True, False):
                with torch.set_grad_enabled(on):
                    step(torch.ones(2), n)

    warning = recorded(calls)[0]
    assert "grad mode took 2 values (on, off)" in timeless(warning)
    assert "torch.no_grad() around all its calls or around none" in timeless(warning)


def test_an_eviction_as_the_cause():
    @tracehost.function(limit=1)
    def step(n):
        return torch.ones(2) * n

    seen = recorded(lambda: [step(n % 2) for n in range(6)])
    text = timeless(seen[1])
    assert "a specialization that would have served had been evicted" in text
    assert "(limit=1)" in text and "raise the limit: @tracehost.function(limit=2)" in text


def test_reports_and_reset():
    @tracehost.function
    def reported_step(x):
        return x * 2

    with assert_traces(reported_step, 2):
        reported_step(torch.ones(2)), reported_step(torch.ones(2)), reported_step(torch.ones(3))
        (row,) = [line for line in tracehost.report().splitlines() if "reported_step" in line]
        assert re.search(r"\) +3 +1 +2 +0 +2 +33\.3 % +[\d.]+  'x' dimension 0$", row), row
        tracehost.reset()
        assert "dimension 0" not in tracehost.report()
        assert torch.equal(reported_step(torch.ones(2)), torch.full((2,), 2.0))


def test_a_function_without_calls_has_no_hit_rate():
    @tracehost.function
    def inner_step(x):
        return x * 2

    tracehost.function(lambda x: inner_step(x) + 1)(torch.ones(2))
    (row,) = [line for line in tracehost.report().splitlines() if "inner_step" in line]
    assert re.search(r"\) +0 +0 +0 +1 +0 +- +0\.0$", row), row


def test_the_function_decorated_in_a_loop_is_told_to_be_decorated_once():
    made = []

    def calls():
        for _ in range(5):

            @tracehost.function
            def step(x):
                return x * 2

            made.append(step)
            step(torch.ones(2))  # here

    (warning,) = recorded(calls)
    where = f"step (test_core_warnings.py:{made[0].python_function.__code__.co_firstlineno})"
    assert timeless(warning) == (
        f"5 out of the last 5 calls to {where} triggered retracing: T ms so far.\n"
        f"  why   tracehost.function was applied again 4 times to {where}, each time with an empty cache, "
        f"from {place(calls)}\n"
        f"  fix   apply @tracehost.function once, above the loop, to {where}, and call what it returns   "
        "would save 4 of 5 traces"
    )


def test_forty_shapes_are_three_warnings_and_eight_graphs():
    @tracehost.function(limit=8)
    def total(x):
        return x.sum()

    def calls():
        for n in range(1, 41):
            total(torch.ones(n))  # here

    seen = recorded(calls)
    stats = total.stats()
    assert (stats["traces"], stats["live"], stats["evicted"]) == (40, 8, 32)
    where = f"total (test_core_warnings.py:{total.python_function.__code__.co_firstlineno})"
    decorator = "@tracehost.function(input_signature=[tracehost.TensorSpec([None], torch.float32)])"

    def causes(values, number, traces):
        return (
            f"  why   argument 'x', dimension 0, took {number} values ({values}), from {place(calls)}\n"
            f"  fix   @tracehost.function(reduce_retracing=True)   would save {traces - 2} of {traces} traces\n"
            f"  or    {decorator}   would save {traces - 1} of {traces} traces"
        )

    (first, *_) = [e.signature for e in tracehost.events(total) if e.kind == "evict"]
    head = f"calls to {where} triggered retracing: T ms so far.\n"
    assert [re.sub(r"[\d.]+ ms", "T ms", str(w.message)) for w in seen] == [
        f"5 out of the last 5 {head}" + causes("1, 2, 3, 4, 5", 5, 5),
        f"6 out of the last 6 {head[:-1]} The first warning at {place(calls)} has the causes and fixes.",
        f"{where} has had more signatures than limit=8 keeps, T ms of traces so far: {first} was "
        "evicted." + "\n  see   @tracehost.function(limit=16), if all of them are called again",
    ]


def test_forty_shapes_end_at_the_budget():
    @tracehost.trace_monitor(budget=8, on_exceed="error")
    @tracehost.function
    def total(x):
        return x.sum()

    def calls():
        for n in range(1, 41):
            assert total(torch.ones(n)).item() == n

    with pytest.raises(tracehost.TraceError, match="was traced 9 times, over its budget of 8"):
        recorded(calls)
    assert total.count == 9
