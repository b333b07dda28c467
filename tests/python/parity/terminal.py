"""At a terminal."""

import signal

from .row import Row, c, script

PROMPT = ">>> "
# No history of the tests is read or written, and no colours or cursor movements.
PLAIN = {"TERM": "dumb", "HOME": ".", "PYTHON_BASIC_REPL": "1", "PYTHON_COLORS": "0"}

TERMINAL = [
    c(
        "a terminal",
        "import os, sys; print(sys.stdin.isatty(), sys.stdout.isatty(), sys.stdout.line_buffering, os.ttyname(0) == os.ttyname(1)); input('? ')",
        types=(("? ", "x\n"),),
        env=PLAIN,
    ),
    c(
        "input at a terminal",
        "print(input('name? ').upper())",
        types=(("name? ", "ann\n"),),
        env=PLAIN,
    ),
    c(
        "input at a terminal with readline",
        "import readline\nprint(input('name? ').upper())",
        types=(("name? ", "ann\n"),),
        env=PLAIN,
    ),
    c(
        "the end of input at a terminal",
        "input('name? ')",
        types=(("name? ", "\x04"),),
        env=PLAIN,
        status=1,
    ),
    c(
        "Ctrl-C at a terminal",
        "import time; print('ready'); time.sleep(30)",
        types=(("ready\r\n", "\x03"),),
        env=PLAIN,
        status=-signal.SIGINT,
    ),
    c(
        "Ctrl-C reaches children too",
        "import subprocess, sys\np = subprocess.Popen([sys.executable, '-c', 'import time; print(1, flush=True); time.sleep(30)'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)\np.stdout.readline()\ntry: print('ready'); p.wait()\nexcept KeyboardInterrupt: print('child', p.wait() is not None)",
        types=(("ready\r\n", "\x03"),),
        env=PLAIN,
        status=0,
    ),
    c(
        "Ctrl-\\ at a terminal",
        "print('ready'); input()",
        types=(("ready\r\n", "\x1c"),),
        env=PLAIN,
        status=-signal.SIGQUIT,
    ),
    Row(
        "a prompt at a terminal",
        ("-i", "-q"),
        types=((PROMPT, "1 + 1\n"), (PROMPT, "1 / 0\n"), (PROMPT, "exit(3)\n")),
        env=PLAIN,
        status=3,
    ),
    Row(
        "a block at a prompt",
        ("-i", "-q"),
        types=((PROMPT, "for i in (1, 2):\n"), ("... ", "  i\n"), ("... ", "\n"), (PROMPT, "\x04")),
        env=PLAIN,
    ),
    script(
        "a password",
        "import getpass\nprint(len(getpass.getpass('word: ')))\n",
        types=(("word: ", "abc\n"),),
        env=PLAIN,
    ),
    script(
        "pdb at a terminal",
        "x = 41\nbreakpoint()\nx += 1\n",
        types=(("(Pdb) ", "x\n"), ("(Pdb) ", "n\n"), ("(Pdb) ", "c\n")),
        env=PLAIN,
    ),
    Row("the banner", ("-i",), types=((PROMPT, "\x04"),), env=PLAIN),
]
