"""The engine for debuggers and profilers: IPython in this very process.

What a kernel gets for free is made here: C code's and children's output, taken from the file descriptors;
an `input` that refuses; outputs as the messages of a kernel would be. A cell that hangs in C code can't be
timed out, and one that crashes takes the run with it: the result then ends with the cell before.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import select
import signal
import sys
import threading
from typing import Any

import nbformat
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

from . import c_output
from .engine import NO_INPUT, STATISTICS, Hooks, Outcome, outcome_of_error, statistics_of
from .streams import add_error, add_stream


class CellTimeout(BaseException):
    pass


class _Publisher(DisplayPublisher):
    outputs: Any = None

    def publish(
        self,
        data: Any,
        metadata: Any = None,
        source: Any = None,
        *,
        transient: Any = None,
        update: bool = False,
        **_: Any,
    ) -> None:
        self.outputs.display(data, metadata or {}, (transient or {}).get("display_id"), update)

    def clear_output(self, wait: bool = False) -> None:
        self.outputs.clear(wait)


class _Hook(DisplayHook):
    """What a cell's last expression gives."""

    outputs: Any = None

    def start_displayhook(self) -> None:
        self._found: tuple[Any, Any] | None = None

    def write_output_prompt(self) -> None:
        pass

    def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
        self._found = (format_dict, md_dict or {})

    def finish_displayhook(self) -> None:
        if self._found is not None:
            self.outputs.result(*self._found, self.prompt_count)


class _NoInput(Exception):
    pass


_NoInput.__name__ = _NoInput.__qualname__ = "StdinNotImplementedError"


def _refuse(prompt: object = "") -> str:
    raise _NoInput(NO_INPUT)


class _Shell(InteractiveShell):
    outputs: Any = None

    def init_displayhook(self) -> None:
        super().init_displayhook()
        self.displayhook.outputs = self.outputs

    def init_display_pub(self) -> None:
        super().init_display_pub()
        self.display_pub.outputs = self.outputs

    def _showtraceback(self, etype: Any, evalue: Any, stb: list[str]) -> None:
        self.outputs.error(etype.__name__, str(evalue), stb)

    def ask_exit(self) -> None:
        self.outputs.wants_exit = True


class _Outputs:
    """The outputs of the cell that runs, and of the earlier ones that it updates."""

    def __init__(self, hooks: Hooks, capture: _Capture) -> None:
        self._hooks, self._capture = hooks, capture
        self.lock = threading.RLock()
        self.cell: Any = None
        self.wants_exit = False
        self.raised: tuple[str, str, list[str]] | None = None
        self._by_id: dict[str, list[Any]] = {}
        self._clear_next = False

    def begin(self, cell: Any) -> None:
        with self.lock:
            cell.outputs = []
            self.cell, self.raised, self._clear_next = cell, None, False

    def stream(self, name: str, text: str) -> None:
        self._hooks.stream(name, text)
        with self.lock:
            if self.cell is not None:
                self._clear_if_due()
                add_stream(self.cell.outputs, name, text)

    def display(self, data: Any, metadata: Any, display_id: str | None, update: bool) -> None:
        self._capture.drain()
        with self.lock:
            for old in self._by_id.get(display_id or "", []):
                old["data"], old["metadata"] = _node(data), _node(metadata)
            if update:
                return
            self._clear_if_due()
            new = nbformat.v4.new_output("display_data", data=_node(data), metadata=_node(metadata))
            self.cell.outputs.append(new)
            if display_id:
                self._by_id.setdefault(display_id, []).append(new)

    def result(self, data: Any, metadata: Any, count: int) -> None:
        self._capture.drain()
        with self.lock:
            self._clear_if_due()
            self.cell.outputs.append(
                nbformat.v4.new_output(
                    "execute_result",
                    data=_node(data),
                    metadata=_node(metadata),
                    execution_count=count,
                )
            )

    def error(self, name: str, value: str, traceback: list[str]) -> None:
        self._capture.drain()
        with self.lock:
            self._clear_if_due()
            self.raised = (name, value, traceback)
            self.cell.outputs.append(
                nbformat.v4.new_output("error", ename=name, evalue=value, traceback=traceback)
            )

    def clear(self, wait: bool) -> None:
        self._capture.drain()
        with self.lock:
            self._clear_next = True
            if not wait:
                self._clear_if_due()

    def _clear_if_due(self) -> None:
        if self._clear_next:
            self.cell.outputs.clear()
            self._clear_next = False


def _node(data: Any) -> Any:
    """As it would have come through a message: bytes (images) as base64, no objects but JSON's."""
    return nbformat.from_dict({k: _plain(v) for k, v in data.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        import base64

        return base64.b64encode(value).decode("ascii")
    return value


class _Capture:
    """File descriptors 1 and 2, while cells run: a thread reads them, and `drain` all that is there by now."""

    def __init__(self) -> None:
        self.receive: Any = None
        self._lock = threading.RLock()
        self._saved: dict[int, int] = {}
        self._pipes: dict[int, tuple[int, str]] = {}
        self._closing = False
        self._decoders: dict[str, Any] = {}

    def start(self) -> None:
        import codecs

        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, name in ((1, "stdout"), (2, "stderr")):
            self._saved[descriptor] = os.dup(descriptor)
            reading, writing = os.pipe()
            os.set_blocking(reading, False)
            os.dup2(writing, descriptor)
            os.close(writing)
            self._pipes[reading] = (descriptor, name)
            self._decoders[name] = codecs.getincrementaldecoder("utf-8")("replace")
        self._thread = threading.Thread(target=self._read, daemon=True, name="tracehost outputs")
        self._thread.start()

    def _read(self) -> None:
        while not self._closing:
            ready, _, _ = select.select(list(self._pipes), [], [], 0.1)
            if ready:
                self._take()

    def _take(self) -> None:
        with self._lock:
            for reading, (_, name) in self._pipes.items():
                while data := _read_some(reading):
                    text = self._decoders[name].decode(data)
                    if text:
                        self.receive(name, text)

    def drain(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        c_output.flush()
        self._take()

    def stop(self) -> None:
        if not self._saved:
            return
        self.drain()
        self._closing = True
        self._thread.join()
        for descriptor, saved in self._saved.items():
            os.dup2(saved, descriptor)
        for reading in self._pipes:
            os.close(reading)


def _read_some(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return b""


class InprocessEngine:
    def __init__(self, notebook: Any, cwd: str, timeout: float | None, hooks: Hooks) -> None:
        self._cwd, self._timeout, self._hooks = cwd, timeout, hooks
        self._capture = _Capture()
        self._outputs = _Outputs(hooks, self._capture)
        self._capture.receive = self._outputs.stream
        self._running = False
        self._signals: list[int] = []
        self._done = threading.Event()
        self.language_info: dict[str, Any] = {}

    def start(self) -> None:
        os.chdir(self._cwd)
        sys.path.insert(0, "")
        os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
        os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)  # as in a kernel: children of a cell do not wait for the terminal
        os.close(nothing)
        self._capture.start()
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(line_buffering=False, write_through=True)  # type: ignore[union-attr]
        _Shell.outputs = self._outputs
        self._shell = _Shell.instance(
            display_pub_class=_Publisher, displayhook_class=_Hook, user_ns={}
        )
        self._shell.history_manager.enabled = False
        sys.displayhook = self._shell.displayhook
        builtins.input = _refuse
        self._getpass()
        self.language_info = _language_info()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGALRM, self._on_alarm)
        threading.Thread(target=self._ticks, daemon=True, name="tracehost saving").start()

    def _getpass(self) -> None:
        import getpass

        getpass.getpass = lambda prompt="", stream=None: _refuse()  # type: ignore[assignment]

    def run(self, cell: Any, index: int) -> Outcome:
        if self._signals:
            return self._stopped()
        self._outputs.begin(cell)
        self._timed_out = False
        self._running = True
        if self._timeout:
            signal.setitimer(signal.ITIMER_REAL, self._timeout)
        try:
            result = self._shell.run_cell(cell.source, store_history=True, cell_id=cell.get("id"))
            cell.execution_count = result.execution_count
        except (KeyboardInterrupt, CellTimeout) as error:  # outside of IPython's own guard
            self._outputs.error(type(error).__name__, "", [type(error).__name__])
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._running = False
            self._capture.drain()
        return self._outcome(cell)

    def _outcome(self, cell: Any) -> Outcome:
        if self._timed_out:
            cell.outputs.pop()  # CellTimeout's
            why = f"the cell ran longer than {self._timeout:g} s"
            add_error(cell.outputs, "CellTimeoutError", why)
            return Outcome("timeout", value=why)
        if self._signals:
            return self._stopped()
        if self._outputs.wants_exit:
            return Outcome("exit")
        outcome = Outcome("ok")
        if self._outputs.raised is not None:
            outcome = outcome_of_error(*self._outputs.raised, cell.execution_count)
        outcome.statistics = statistics_of(eval(STATISTICS))
        return outcome

    def _stopped(self) -> Outcome:
        number = self._signals[0]
        if number == signal.SIGINT:
            return Outcome("interrupted", "KeyboardInterrupt")
        return Outcome("terminated", value=str(number))

    def _on_signal(self, number: int, _: Any) -> None:
        again = bool(self._signals)
        self._signals.append(number)
        if again or not self._running:
            signal.signal(number, signal.SIG_DFL)
        if self._running:
            raise KeyboardInterrupt

    def _on_alarm(self, number: int, _: Any) -> None:
        if self._running:
            self._timed_out = True
            raise CellTimeout

    def _ticks(self) -> None:
        while not self._done.wait(self._hooks.period):
            if self._running:
                with self._outputs.lock:
                    self._hooks.tick()

    def stop(self) -> None:
        self._done.set()
        self._capture.stop()


def _language_info() -> dict[str, Any]:
    """As ipykernel tells it."""
    version = ".".join(map(str, sys.version_info[:3]))
    return {
        "name": "python",
        "version": version,
        "mimetype": "text/x-python",
        "codemirror_mode": {"name": "ipython", "version": sys.version_info[0]},
        "pygments_lexer": "ipython3",
        "nbconvert_exporter": "python",
        "file_extension": ".py",
    }
