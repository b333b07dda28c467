"""Programs around values that Python reads do at each call what they do in eager, or raise with their line."""

import pytest
import torch
import tracehost
import value_programs_python
import value_programs_state
import value_programs_tensors
import value_programs_training
from value_programs import PROGRAMS, made, outcome, told

pytestmark = pytest.mark.filterwarnings("ignore")
assert (
    value_programs_state
    and value_programs_python
    and value_programs_tensors
    and value_programs_training
)

CALLS = 8


@pytest.mark.parametrize("mode", ["autograph", "plain", "no_grad"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name, mode):
    eager, eager_args, eager_state = made(name)
    body, args, state = made(name)
    f = tracehost.function(body, autograph=mode != "plain")
    for i in range(CALLS):
        torch.manual_seed(100 + i)
        given = eager_args(i)
        torch.manual_seed(100 + i)
        traced = args(i)
        with torch.set_grad_enabled(mode != "no_grad"):
            torch.manual_seed(200 + i)
            expected = (
                outcome(eager, given),
                told(eager_state()),
                told(given),
                torch.rand(()).item(),
            )
            torch.manual_seed(200 + i)
            got = outcome(f, traced)
        if got[0] in ("ValueReadError", "StagingError", "TraceError"):
            assert "value_programs_" in got[1]
            assert mode == "plain", got[1]
            return
        assert (got, told(state()), told(traced), torch.rand(()).item()) == expected, f"call {i}"
