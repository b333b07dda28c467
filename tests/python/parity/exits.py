"""How a program ends: exit statuses and signals."""

import signal

from .row import Row, c, script

EXIT = [
    c("exit with a number", "import sys; sys.exit(3)", status=3),
    c("exit with a message", "import sys; sys.exit('no luck')", status=1),
    c("exit with nothing", "import sys; sys.exit()", status=0),
    c("exit with -1", "import sys; sys.exit(-1)", status=255),
    c("exit with 256", "import sys; sys.exit(256)", status=0),
    c("exit with True", "raise SystemExit(True)", status=1),
    c("exit with a tuple", "raise SystemExit((1, 'two'))", status=1),
    c("os._exit", "import os; os._exit(7)", status=7),
    c("quit of site", "quit(4)", status=4),
    c(
        "exit in a thread is the thread's",
        "import sys, threading\nt = threading.Thread(target=sys.exit, args=(5,)); t.start(); t.join()",
        status=0,
    ),
    c("abort", "import os; os.abort()", status=-signal.SIGABRT),
    c("segmentation fault", "import ctypes; ctypes.string_at(0)", status=-signal.SIGSEGV),
    Row(
        "segmentation fault with faulthandler",
        ("-X", "faulthandler", "-c", "import ctypes; ctypes.string_at(0)"),
        status=-signal.SIGSEGV,
    ),
    c("SIGTERM", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)", status=-signal.SIGTERM),
    c("SIGKILL", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", status=-signal.SIGKILL),
    c("KeyboardInterrupt raised", "raise KeyboardInterrupt", status=-signal.SIGINT),
    c(
        "SIGINT from outside",
        "import time; print('ready', flush=True); time.sleep(30)",
        send=signal.SIGINT,
        status=-signal.SIGINT,
    ),
    c(
        "SIGTERM from outside",
        "import time; print('ready', flush=True); time.sleep(30)",
        send=signal.SIGTERM,
        status=-signal.SIGTERM,
    ),
    c(
        "SIGINT caught",
        "import time\ntry:\n print('ready', flush=True); time.sleep(30)\nexcept KeyboardInterrupt: print('caught')",
        send=signal.SIGINT,
        status=0,
    ),
    c(
        "SIGINT in asyncio",
        "import asyncio\nasync def f():\n print('ready', flush=True); await asyncio.sleep(30)\nasyncio.run(f())",
        send=signal.SIGINT,
        status=-signal.SIGINT,
    ),
    Row(
        "the shell's number for SIGINT",
        shell="'{exe}' -c 'raise KeyboardInterrupt' 2>/dev/null; echo $?",
    ),
]

EXIT += [
    c("exit with None", "raise SystemExit(None)", status=0),
    c("exit with a fraction", "raise SystemExit(1.5)", status=1),
    c("exit with bytes", "raise SystemExit(b'x')", status=1),
    c("exit with an empty text", "raise SystemExit('')", status=1),
    c("exit with 2**40 + 3", "import sys; sys.exit(2**40 + 3)"),
    c("exit with 2**70", "import sys; sys.exit(2**70)"),
    c(
        "exit with an object that has no text",
        "class A:\n def __str__(self): 1 / 0\nraise SystemExit(A())",
    ),
    c(
        "exit with the text in another encoding",
        "raise SystemExit('\\xe9\\udc80')",
        env={"PYTHONIOENCODING": "ascii"},
    ),
    c("an exit in a group", "raise BaseExceptionGroup('g', [SystemExit(4)])", status=1),
    c("a subclass of SystemExit", "class Stop(SystemExit): pass\nraise Stop(6)", status=6),
    c("SystemExit with its code changed", "e = SystemExit(1)\ne.code = 8\nraise e", status=8),
    c(
        "an exit in finally replaces the error",
        "import sys\ntry: 1 / 0\nfinally: sys.exit(2)",
        status=2,
    ),
    c(
        "an exit during handling",
        "import sys\ntry: 1 / 0\nexcept ZeroDivisionError: sys.exit('gave up')",
        status=1,
    ),
    c(
        "an exit in an atexit function",
        "import atexit, sys; atexit.register(sys.exit, 5); print('body')",
    ),
    c("an exit in excepthook", "import sys\nsys.excepthook = lambda *a: sys.exit(9)\n1 / 0"),
    c(
        "an exit in __del__",
        "class A:\n def __del__(self): raise SystemExit(3)\na = A(); del a; print('on')",
    ),
    c(
        "an exit in a generator's end",
        "def g():\n try: yield\n finally: raise SystemExit(3)\nx = g(); next(x); del x; print('on')",
    ),
    c(
        "an exit in a task",
        "import asyncio, sys\nasync def f(): sys.exit(7)\nasyncio.run(f())",
        status=7,
    ),
    c(
        "an exit in an imported module",
        "import m",
        files={"m.py": "import sys; sys.exit(11)\n"},
        status=11,
    ),
    c(
        "an exit in a context manager",
        "import contextlib, sys\nwith contextlib.suppress(Exception): sys.exit(12)",
        status=12,
    ),
    c(
        "os._exit skips what is left",
        "import atexit, os; atexit.register(print, 'never'); print('buffered'); os._exit(0)",
        status=0,
    ),
    c(
        "os._exit in a thread",
        "import os, threading, time\nthreading.Thread(target=os._exit, args=(3,)).start(); time.sleep(30)",
        status=3,
    ),
    c(
        "a fatal error",
        "import ctypes; ctypes.pythonapi.Py_FatalError(b'made up')",
        status=-signal.SIGABRT,
    ),
    c(
        "standard output that cannot be flushed",
        "import sys\nclass W:\n def write(self, s): pass\n def flush(self): raise OSError('full')\nsys.stdout = W()",
    ),
    script(
        "the status of a script that was replaced",
        "import os; os.execvp('sh', ['sh', '-c', 'exit 21'])\n",
        status=21,
    ),
]

SIGNALS = [
    c("SIGHUP", "import os, signal; os.kill(os.getpid(), signal.SIGHUP)", status=-signal.SIGHUP),
    c("SIGUSR1", "import os, signal; os.kill(os.getpid(), signal.SIGUSR1)", status=-signal.SIGUSR1),
    c(
        "SIGALRM",
        "import signal, time; signal.setitimer(signal.ITIMER_REAL, .01); time.sleep(30)",
        status=-signal.SIGALRM,
    ),
    c(
        "SIGPIPE does not kill",
        "import os, signal; os.kill(os.getpid(), signal.SIGPIPE); print('on')",
        status=0,
    ),
    c("SIGFPE raised", "import signal; signal.raise_signal(signal.SIGFPE)", status=-signal.SIGFPE),
    c(
        "SIGTERM handled",
        "import os, signal, sys\nsignal.signal(signal.SIGTERM, lambda s, f: sys.exit(s + 1))\nos.kill(os.getpid(), signal.SIGTERM)",
        status=16,
    ),
    c(
        "an error in a handler",
        "import os, signal\ndef h(s, f): raise ValueError('in the handler')\nsignal.signal(signal.SIGUSR1, h)\nos.kill(os.getpid(), signal.SIGUSR1)",
        status=1,
    ),
    c(
        "SIGINT with atexit",
        "import atexit, time; atexit.register(print, 'bye'); print('ready', flush=True); time.sleep(30)",
        send=signal.SIGINT,
        status=-signal.SIGINT,
    ),
    c(
        "SIGINT handled by a loop",
        "import asyncio, signal\nasync def f():\n done = asyncio.Event()\n asyncio.get_running_loop().add_signal_handler(signal.SIGINT, done.set)\n print('ready', flush=True); await done.wait(); print('done')\nasyncio.run(f())",
        send=signal.SIGINT,
        status=0,
    ),
    Row(
        "SIGINT ignored by the parent",
        shell="trap '' INT; '{exe}' -c 'import signal; print(signal.getsignal(2)); signal.raise_signal(2)'",
    ),
    Row(
        "SIGTERM ignored by the parent",
        shell="trap '' TERM; '{exe}' -c 'import signal; signal.raise_signal(15); print(1)'",
    ),
    c(
        "signals that are blocked",
        "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.pthread_sigmask(signal.SIG_UNBLOCK, {2}))",
    ),
    c(
        "all signal handlers",
        "import signal; print([(s, signal.getsignal(s)) for s in sorted(signal.valid_signals())])",
    ),
    c(
        "the file descriptor of signals",
        "import os, signal\nr, w = os.pipe(); os.set_blocking(w, False); signal.set_wakeup_fd(w)\nsignal.signal(signal.SIGUSR1, lambda *a: None); signal.raise_signal(signal.SIGUSR1); print(os.read(r, 9))",
    ),
    c(
        "a timeout of faulthandler",
        "import faulthandler, time; faulthandler.dump_traceback_later(.05, exit=True); time.sleep(30)",
        status=1,
    ),
    c(
        "a traceback of all threads",
        "import faulthandler, threading\ne = threading.Event(); t = threading.Thread(target=e.wait); t.start()\nfaulthandler.dump_traceback(all_threads=False); e.set(); t.join()",
    ),
    c(
        "SIGINT with a handler",
        "import signal\ndone = []\nsignal.signal(signal.SIGINT, lambda s, f: done.append(s))\nprint('ready', flush=True)\nwhile not done: pass\nprint(done)",
        spins=True,
        send=signal.SIGINT,
        status=0,
    ),
    c(
        "SIGINT with the default action",
        "import signal, time; signal.signal(signal.SIGINT, signal.SIG_DFL); print('ready', flush=True); time.sleep(30)",
        send=signal.SIGINT,
        status=-signal.SIGINT,
    ),
    c(
        "SIGINT in a loop",
        # Every instruction after the first output is of one line: the traceback names it.
        "n = []\nwhile n or not n.append(print('ready', flush=True)): pass",
        spins=True,
        send=signal.SIGINT,
        status=-signal.SIGINT,
    ),
    c(
        "SIGINT while a lock is awaited",
        "import threading\na = threading.Lock(); a.acquire()\ntry: print('ready', flush=True); a.acquire()\nexcept KeyboardInterrupt: print('caught')",
        send=signal.SIGINT,
        status=0,
    ),
    c(
        "SIGINT while a thread is joined",
        "import threading, time\nt = threading.Thread(target=time.sleep, args=(30,), daemon=True); t.start()\ntry: print('ready', flush=True); t.join()\nexcept KeyboardInterrupt: print('caught')",
        send=signal.SIGINT,
        status=0,
    ),
    c(
        "SIGINT while a child is awaited",
        "import subprocess\np = subprocess.Popen(['sleep', '30'])\ntry: print('ready', flush=True); p.wait()\nexcept KeyboardInterrupt: p.kill(); print('caught', p.wait())",
        send=signal.SIGINT,
        status=0,
    ),
    c(
        "SIGTERM with atexit",
        "import atexit, time; atexit.register(print, 'never'); print('ready', flush=True); time.sleep(30)",
        send=signal.SIGTERM,
        status=-signal.SIGTERM,
    ),
    c(
        "SIGUSR1 with faulthandler",
        "import faulthandler, os, signal\nf = open('t', 'w')\nfaulthandler.register(signal.SIGUSR1, f)\nprint('ready', flush=True)\nwhile not os.stat('t').st_size: pass\nprint('\\n' in open('t').read())",
        spins=True,
        send=signal.SIGUSR1,
        status=0,
    ),
    c(
        "a stopped program goes on",
        "import os, signal, subprocess\nsubprocess.Popen(['sh', '-c', f'until grep -q State:.T /proc/{os.getpid()}/status; do sleep .01; done; kill -CONT {os.getpid()}'])\nos.kill(os.getpid(), signal.SIGSTOP); print('on')",
        status=0,
    ),
]
