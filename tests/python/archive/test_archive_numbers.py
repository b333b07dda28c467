"""Archives of bodies that need a number itself: all graphs are saved, and a call runs the one for its value."""

import pytest
import torch
import tracehost
from core_support import place

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

ACTIONS = ("first", "second", "third", "fourth")
WEIGHT = torch.linspace(-1, 1, 9).reshape(3, 3)


def number(x):
    """Needs the number itself."""
    return ACTIONS[int(x.sum().long())]  # 0 to 3


def two_ends(x):
    y = torch.tanh(x)
    return y @ WEIGHT if number(x) == "first" else y - WEIGHT.sum()


def a_condition(x):
    return x + 1 if {True: 1, False: 0}[bool(x.sum() > 2)] else x - 1


def a_truth_in_arithmetic(x):
    """`any` reads True or False, which Python adds as 1 or 0."""
    big = bool((x > 0.5).any())
    return x * (big + big) if isinstance(big, bool) else x


def drawn(x):
    y = x + torch.rand(3, 3)
    return y if number(x) == "first" else y * torch.rand(3, 3)


def written(x, total):
    total.add_(x)
    return total * 2 if number(x) == "first" else total + x


def inputs():
    return [torch.eye(3) * (s / 3 + 0.1) for s in range(4)]


def saved(path, body, *more, **options):
    f = tracehost.function(body, autograph=False)
    for x in inputs()[:3]:
        f(x, *more)
    f.save(path, **options)
    return tracehost.load(path)[body.__name__]


@pytest.mark.parametrize(
    "body", [two_ends, a_condition, a_truth_in_arithmetic, drawn], ids=lambda body: body.__name__
)
def test_each_value_has_its_graph(body, tmp_path):
    f = saved(tmp_path / "f.pt", body)
    for seed, x in enumerate(inputs()[:3] * 3):
        torch.manual_seed(seed)
        found, after = f(x), torch.rand(2)
        torch.manual_seed(seed)
        torch.testing.assert_close(found, body(x), rtol=0, atol=0)
        assert torch.equal(after, torch.rand(2))


def test_a_value_that_no_graph_is_for(tmp_path):
    f = saved(tmp_path / "f.pt", two_ends, source_paths=True)
    with pytest.raises(tracehost.SignatureError) as error:
        f(inputs()[3])
    where = place(number, "0 to 3")
    assert str(error.value) == (
        "two_ends: none of 3 graphs serves this call.\n"
        f"  why      a number that the graph was made for has another value: 3, not 0, at {where}\n"
        "  call     (x: float32[3, 3])\n"
        f"  nearest  (x: float32[3, 3]) with 0 at {where}"
    )


def test_without_lines(tmp_path):
    f = saved(tmp_path / "f.pt", two_ends)
    with pytest.raises(
        tracehost.SignatureError, match="has another value: 3, not [012]\n"
    ) as error:
        f(inputs()[3])
    assert "(x: float32[3, 3]) with 0 as a number that it reads" in str(error.value)


def test_a_rejected_call_leaves_no_effect(tmp_path):
    f = saved(tmp_path / "f.pt", drawn)
    torch.manual_seed(3)
    with pytest.raises(tracehost.SignatureError):
        f(inputs()[3])
    after = torch.rand(2)
    torch.manual_seed(3)
    assert torch.equal(after, torch.rand(2))


def test_what_is_written_before_the_number(tmp_path):
    f = saved(tmp_path / "f.pt", written, torch.zeros(3, 3))
    total, expected = torch.zeros(3, 3), torch.zeros(3, 3)
    for x in inputs()[:3] * 2:
        torch.testing.assert_close(f(x, total), written(x, expected), rtol=0, atol=0)
        torch.testing.assert_close(total, expected, rtol=0, atol=0)
    with pytest.raises(tracehost.SignatureError):
        f(inputs()[3], total)
    torch.testing.assert_close(total, expected, rtol=0, atol=0)


def test_a_draw_of_a_generator_of_the_body_is_rejected(tmp_path):
    generator = torch.Generator()

    def body(x):
        y = torch.rand(3, generator=generator)  # draws
        return y if number(x) == "first" else y + 1

    f = tracehost.function(body, autograph=False)
    f(inputs()[0])
    with pytest.raises(tracehost.ArchiveError, match="generator"):
        f.save(tmp_path / "f.pt")
