"""Runs a notebook's cells, one after another, in an IPython kernel: a process of its own, which is our binary.

The runner survives what a cell does to the kernel. It knows files and reports; the engine does not.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError

from ..errors import CommandError
from ..signals import NUMBERS
from .outcome import Outcome, outcome_of_error
from .progress import Progress
from .streams import add_error, add_stream

ARGV = [sys.executable, "-Xfrozen_modules=off", "-m", "ipykernel_launcher", "-f", "{connection_file}"]  # fmt: skip
# Seconds for what is asked after a cell; a thread of it may keep the lock of Python.
PATIENCE = 20.0
AFTER_CELL = "__import__('tracehost_commands.notebook.in_kernel').notebook.in_kernel.after_cell()"
ENVIRONMENT = {"PYDEVD_DISABLE_FILE_VALIDATION": "1"}


class StartError(CommandError):
    """The kernel did not come up."""

    code = 138


class _Manager(AsyncKernelManager):
    """Starts our own binary for any kernel that a notebook names."""

    @property
    def kernel_spec(self) -> KernelSpec:
        return KernelSpec(
            argv=[*ARGV, "--HistoryManager.hist_file=:memory:"],
            display_name="tracehost",
            language="python",
            env=ENVIRONMENT,
        )


class _Client(NotebookClient):
    """Hands streams on while they come, and keeps the reply to each cell."""

    progress: Progress
    reply: dict[str, Any]
    message = ""  # of the cell, as its outputs name it

    def output(self, outs: list[Any], msg: Any, display_id: str | None, cell_index: int) -> Any:
        content = msg["content"]
        is_hooked = self.output_hook_stack[msg["parent_header"].get("msg_id")]  # an Output widget
        if msg["msg_type"] == "stream":
            self.progress.stream(content["name"], content["text"])
            if not is_hooked:
                if self.clear_before_next_output:
                    outs[:] = []
                    self.clear_display_id_mapping(cell_index)
                    self.clear_before_next_output = False
                add_stream(outs, content["name"], content["text"])
                return None
        return super().output(outs, msg, display_id, cell_index)


class KernelEngine:
    def __init__(
        self, notebook: Any, cwd: str, options: Any, progress: Progress, save: Callable[[], None]
    ):
        """`options`: of the command; every `save_every` seconds `save` is called while a cell runs."""
        self._cwd, self._timeout = cwd, options.timeout
        self._progress, self._save = progress, save
        self._period = max(0.1, options.save_every)
        self._manager = _Manager(kernel_name="tracehost")
        self._client = _Client(notebook, km=self._manager, allow_errors=True, record_timing=False)
        self._client.startup_timeout = int(options.start_timeout) or 1
        # Seconds after which it asks whether the kernel is alive.
        self._client.shell_timeout_interval = 1
        self._client.progress = progress
        self._client.log.setLevel("CRITICAL")  # what it has to say is said by outcomes
        self._client.on_cell_executed = self._keep_reply
        self._loop = asyncio.new_event_loop()
        self._signals: list[int] = []
        self._wake = asyncio.Event()
        self._messages = tempfile.TemporaryFile()  # the kernel's own stderr  # noqa: SIM115
        self.language_info: dict[str, Any] = {}

    def start(self) -> None:
        for number in NUMBERS:
            self._loop.add_signal_handler(number, self._on_signal, number)
        self._starting = self._loop.create_task(self._start())
        with contextlib.suppress(asyncio.CancelledError):  # by a signal, which `run` reports
            self._loop.run_until_complete(self._starting)

    async def _start(self) -> None:
        # Not inherited: what C code writes comes as an output of its cell, and would come twice.
        await self._client.async_start_new_kernel(
            cwd=self._cwd, stdout=subprocess.DEVNULL, stderr=self._messages
        )
        try:
            await self._client.async_start_new_kernel_client()
        except RuntimeError as error:
            raise StartError(
                f"the kernel did not start: {str(error).rstrip('.')}{self._last_words()}"
            ) from None
        reply = await self._client.async_wait_for_reply(self._client.kc.kernel_info())
        self.language_info = reply["content"]["language_info"] if reply else {}

    def run(self, cell: Any, index: int) -> Outcome:
        return self._loop.run_until_complete(self._run(cell, index))

    async def _run(self, cell: Any, index: int) -> Outcome:
        if self._signals:  # before this cell, or while the kernel started
            return _stopped(self._signals[0])
        self._client.reply = {}
        task = asyncio.ensure_future(self._client.async_execute_cell(cell, index))
        stopped = await self._watch(task)
        if stopped is not None:
            await self._abandon(task)
            if stopped.kind == "timeout":
                add_error(cell.outputs, "CellTimeoutError", stopped.value)
            return stopped
        try:
            await task
        except DeadKernelError:
            return self._died(cell)
        self._client.set_widgets_metadata()
        outcome = self._outcome(cell)
        if outcome.kind in ("ok", "error", "interrupted"):
            try:
                outcome.statistics = await self._after(cell, index)
            except DeadKernelError:  # by a thread of the cell, say: it has replied
                return self._died(cell)
            if self._signals:  # not left to the next cell: this may be the last one
                return _stopped(self._signals[0])
        return outcome

    def _died(self, cell: Any) -> Outcome:
        outcome = Outcome("died", "DeadKernelError", self._cause_of_death())
        add_error(cell.outputs, outcome.name, outcome.value + self._last_words())
        return outcome

    async def _watch(self, task: asyncio.Future[Any]) -> Outcome | None:
        """Until the cell has ended; an Outcome where it is not to be waited for any longer."""
        deadline = None if not self._timeout else time.monotonic() + self._timeout
        next_save = time.monotonic() + self._period
        interrupts = 0
        while not task.done():
            until = next_save if deadline is None else min(next_save, deadline)
            await self._wait(task, max(0.0, until - time.monotonic()))
            self._wake.clear()
            while self._signals:
                number = self._signals.pop(0)
                interrupts += 1
                if number != signal.SIGINT or interrupts > 1:
                    return _stopped(number)
                self._progress.say("interrupted; once more kills the kernel")
                await self._manager.interrupt_kernel()
            now = time.monotonic()
            if deadline is not None and now >= deadline and not task.done():
                return Outcome("timeout", value=f"the cell ran longer than {self._timeout:g} s")
            if now >= next_save:
                self._save()
                next_save = now + self._period
        return None

    async def _wait(self, task: asyncio.Future[Any], seconds: float) -> None:
        """Until the task is done, a signal comes, or the time is over."""
        wake = asyncio.ensure_future(self._wake.wait())
        await asyncio.wait({task, wake}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        wake.cancel()

    async def _abandon(self, task: asyncio.Future[Any]) -> None:
        await self._manager.shutdown_kernel(now=True)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task

    def _on_signal(self, number: int) -> None:
        self._signals.append(number)
        self._wake.set()
        self._starting.cancel()  # no more than a word where it is done

    def _keep_reply(self, execute_reply: dict[str, Any], **_: Any) -> None:
        self._client.reply = execute_reply["content"]
        self._client.message = execute_reply["parent_header"]["msg_id"]

    def _outcome(self, cell: Any) -> Outcome:
        reply = self._client.reply
        if any(payload.get("source") == "ask_exit" for payload in reply.get("payload", [])):
            return Outcome("exit")
        if reply.get("status") == "error":
            return outcome_of_error(
                reply["ename"], reply["evalue"], reply["traceback"], cell.execution_count
            )
        for shown in cell.outputs:  # `%run` shows the error of its program, and succeeds
            if shown.output_type == "error":
                return outcome_of_error(
                    shown.ename, shown.evalue, shown.traceback, cell.execution_count
                )
        if reply.get("status") == "aborted":
            return Outcome("error", "Aborted", "the kernel did not run the cell")
        return Outcome("ok")

    async def _after(self, cell: Any, index: int) -> dict[str, Any]:
        """By an execution that leaves no trace in In, Out and the counter: what the cell wrote last, and
        the statistics."""
        message = self._client.kc.execute(
            "", silent=True, store_history=False, user_expressions={"tracehost": AFTER_CELL}
        )
        answer = asyncio.gather(
            self._client.async_wait_for_reply(message), self._late_outputs(cell, index, message)
        )
        try:
            await self._wait(answer, PATIENCE)
            if not answer.done():
                await self._client._async_check_alive()  # it may have died after it replied
                return {}
            reply, _ = answer.result()
            found = reply["content"]["user_expressions"]["tracehost"]
            text = ast.literal_eval(found["data"]["text/plain"])
            return json.loads(text) if text else {}
        except (KeyError, TypeError, ValueError, SyntaxError):
            return {}
        finally:
            answer.cancel()

    async def _late_outputs(self, cell: Any, index: int, message: str) -> None:
        while True:
            found = await self._client.kc.iopub_channel.get_msg(timeout=None)
            kind, parent = found["msg_type"], found["parent_header"].get("msg_id")
            if kind == "status":
                if parent == message and found["content"]["execution_state"] == "idle":
                    return
            elif kind != "execute_input" and parent in (message, self._client.message):
                self._client.process_message(found, cell, index)

    def _cause_of_death(self) -> str:
        process = getattr(self._manager.provisioner, "process", None)
        code = None if process is None else process.poll()
        if code is None or code >= 0:
            return f"the kernel ended{'' if code is None else f' with exit code {code}'}"
        with contextlib.suppress(ValueError):
            return f"the kernel died of {signal.Signals(-code).name}"
        return f"the kernel died of signal {-code}"

    def _last_words(self) -> str:
        """What the kernel left on its own stderr: faulthandler's lines, say."""
        end = self._messages.seek(0, os.SEEK_END)
        self._messages.seek(max(0, end - 4000))
        lines = self._messages.read().decode(errors="replace").strip().splitlines()
        lines = [line for line in lines if not line.startswith("[IPKernelApp] WARNING")]
        return "\n" + "\n".join(lines[-20:]) if lines else ""

    def stop(self) -> None:
        self._loop.run_until_complete(self._stop())
        for number in NUMBERS:
            self._loop.remove_signal_handler(number)
        self._loop.close()
        self._messages.close()

    async def _stop(self) -> None:
        with contextlib.suppress(Exception):  # the result counts, not how its kernel ends
            await self._client._async_cleanup_kernel()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


def _stopped(number: int) -> Outcome:
    if number == signal.SIGINT:
        return Outcome("interrupted", "KeyboardInterrupt")
    return Outcome("terminated", value=str(number))
