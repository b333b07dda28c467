"""The pytest plug-in of tracehost: tests that fail where a Function is traced more often than they allow.

    @pytest.mark.max_traces(2)      # at most 2 traces, first ones included
    @pytest.mark.no_retraces        # first traces, and none with a cause
    def test_step(tracehost_traces):
        step(x)
        assert [trace.call for trace in tracehost_traces()] == ["test_net.py:7"]

`pytest --tracehost` prints the tests that traced at the end. Traces of a fixture that runs before the test are not the
test's. The package imports nothing of tracehost before a test does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

_TRACES = pytest.StashKey[int]()
_PROPERTY = "tracehost traces"
_MOST_ROWS = 20


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tracehost")
    group.addoption(
        "--tracehost", action="store_true", help="at the end, list the tests that traced Functions"
    )


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "max_traces(n): fail if the test makes more than n traces of Functions",
        "no_retraces: fail if a call of the test traces a Function again",
    ):
        config.addinivalue_line("markers", line)


def _monitor() -> Any:
    """tracehost's module, if a test has imported it."""
    return sys.modules.get("tracehost._reports.monitor")


def _sums() -> tuple[int, float]:
    monitor = _monitor()
    if monitor is None:
        return 0, 0.0
    traces, _, ms = monitor._tracehost.totals()
    return traces, ms


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_TRACES] = _sums()[0]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    most = _most_traces(item)
    before, ms = _sums()
    retraces = _monitor().Retraces() if _monitor() else None
    outcome: Any = yield
    traces, now = _sums()
    if traces > before:
        item.user_properties.append((_PROPERTY, (traces - before, round(now - ms, 1))))
    if outcome.excinfo:
        return
    text = ""
    if most is not None and traces - before > most:
        text = _monitor().listed(traces - before, f"{most} allowed (max_traces)")
    elif item.get_closest_marker("no_retraces") and _monitor():
        text = (retraces or _monitor().Retraces(at_start=True)).found()
    if text:
        force = getattr(outcome, "force_exception", None)  # from pluggy 1.1 on
        error = pytest.fail.Exception(text, pytrace=False)
        if force is None:
            raise error
        force(error)


def _most_traces(item: pytest.Item) -> int | None:
    mark = item.get_closest_marker("max_traces")
    if mark is None:
        return None
    args = (*mark.args, *mark.kwargs.values())
    if len(args) != 1 or isinstance(args[0], bool) or not isinstance(args[0], int):
        pytest.fail(
            f"max_traces takes one number of traces, got {mark.args!r} {mark.kwargs!r}",
            pytrace=False,
        )
    return args[0]


@pytest.fixture
def tracehost_traces(request: pytest.FixtureRequest) -> Iterator[Callable[[], list[Any]]]:
    """A function: the traces of the test so far, `tracehost.Event`s, oldest first."""

    def traces() -> list[Any]:
        monitor = _monitor()
        if monitor is None:
            return []
        return monitor.latest_traces(_sums()[0] - request.node.stash.get(_TRACES, 0))

    yield traces


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    rows = [
        (report.nodeid, *value)
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call"  # also from the workers of pytest-xdist
        for name, value in report.user_properties
        if name == _PROPERTY
    ]
    if not config.getoption("--tracehost") or not rows:
        return
    terminalreporter.section("traces of tracehost")
    rows.sort(key=lambda row: -row[2])
    for test, traces, ms in rows[:_MOST_ROWS]:
        terminalreporter.write_line(f"{traces:6} traces  {ms:9.1f} ms  {test}")
    if len(rows) > _MOST_ROWS:
        terminalreporter.write_line(f"{len(rows) - _MOST_ROWS} more tests traced")
