"""`tracehost completion SHELL`, loaded in the shells themselves: what is offered where on the line."""

import os
import pty
import shutil
import subprocess
import sys

import pytest
from conftest import HOST, clean_environment

# What is typed (the last word is completed), and what is offered. FILES: all files and folders there;
# {...}: at least these, beside which a shell may offer more files.
FILES = "files"
STANCES = ["default", "eager", "eager_on_error", "eager_on_miss", "fail_on_miss"]
CASES = [
    ("", {"run", "notebook", "kernel", "completion", "help", "nice.py"}),
    ("noteb", ["notebook"]),
    ("--rep", ["--report"]),
    ("--report=", FILES),
    ("--python ", FILES),
    ("--report no-such-option-of-the-script.py --rep", []),
    ("-c pass --rep", []),
    ("-W error --rep", ["--report"]),
    ("-u noteb", []),
    ("script.py ni", {"nice.py"}),
    ("run --rep", ["--report"]),
    ("run noteb", []),
    ("notebook ", {"a.ipynb"}),
    ("notebook --allow", ["--allow-errors"]),
    ("notebook -p x=1 a.ipynb --inp", ["--inplace"]),
    ("notebook --stance ", STANCES),
    ("notebook --stance=f", ["fail_on_miss"]),
    ("notebook --cwd ", ["sub"]),
    ("notebook --timeout ", []),
    ("notebook -o ", FILES),
    ("kernel ", ["install", "list", "uninstall"]),
    ("kernel install --sys", ["--sys-prefix"]),
    ("export m", {"m.py"}),
    ("inspect --js", ["--json"]),
    ("completion ", ["bash", "fish", "zsh"]),
    ("help ex", ["export"]),
]  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with some files; the scripts of all shells are in another one beside it."""
    folder = tmp_path_factory.mktemp("completion") / "here"
    scripts = folder.parent / "scripts"
    scripts.mkdir()
    folder.mkdir()
    for name in ("a.ipynb", "m.py", "nice.py", "notes.txt"):
        (folder / name).touch()
    (folder / "sub").mkdir()
    for shell in ("bash", "zsh", "fish"):
        done = subprocess.run([HOST, "completion", shell], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        (scripts / shell).write_text(done.stdout)
    (scripts / "_tracehost").write_text((scripts / "zsh").read_text())
    return folder


def found_in(shell):
    path = shutil.which(shell)
    return path or pytest.skip(f"{shell} is not installed")


def asking_host(**variables):
    """An environment in which a shell finds the host, which a press of Tab asks."""
    return clean_environment(PATH=f"{HOST.parent}:{os.environ['PATH']}", **variables)


def run(command, place, stdin=""):
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, cwd=place,
                          env=asking_host(HOME=str(place.parent)))  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def offers(text):
    """{line: words}, of a shell's answers `== line` with a word a line behind each."""
    answers = {}
    for line in text.splitlines():
        if line.startswith("== "):
            words = answers.setdefault(line[3:].rstrip("|"), set())
        elif line:
            words.add(line.rstrip("/"))
    return answers


def check(answers, files):
    wrong = {}
    for typed, wanted in CASES:
        got = answers[typed]
        if wanted == FILES:
            fine = files <= {word.removeprefix("--report=") for word in got}
        elif isinstance(wanted, set):
            fine = wanted <= got and not any(word.startswith("-") for word in got)
        else:
            got = {word.removeprefix("--stance=") for word in got} - {"--report="}
            fine = got == set(wanted)
        if not fine:
            wrong[typed] = sorted(got)
    assert not wrong


FOUND = {"a.ipynb", "m.py", "nice.py", "notes.txt", "sub"}

# Splits as bash does, calls the function, and does what it asks bash for.
BASH = r"""
source ../scripts/bash
compopt() { asked+=" $*"; }
while IFS= read -r line; do
  asked=; COMP_LINE="tracehost $line"
  read -ra COMP_WORDS <<<"${COMP_LINE//=/ = }"
  [[ $line != *[\ =] && -n $line ]] || { [[ $line == *= ]] || COMP_WORDS+=(""); }
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
  _tracehost
  echo "== $line|"
  printf '%s\n' "${COMPREPLY[@]}"
  typed=${COMP_WORDS[COMP_CWORD]#=}
  [[ $asked != *plusdirs* && (${#COMPREPLY[@]} -gt 0 || $asked != *dirnames*) ]] || compgen -d -- "$typed"
  [[ ${#COMPREPLY[@]} -gt 0 || $asked != *\ default* ]] || compgen -f -- "$typed"
done
"""


def test_a_tab_imports_neither_torch_nor_tracehost(run_host):
    done = run_host("completion", "words", "--", "noteb", env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "*.py")
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "tracehost_commands.completion" in imported
    own = {"dataclasses", "inspect"}  # of argparse itself, from Python 3.14 on
    left_out = {"torch", "tracehost"} | (own if sys.version_info < (3, 14) else set())
    assert not left_out & imported


def test_a_tab_asks_the_host_that_is_typed(place):
    """Not the one that is found first on PATH."""
    program = BASH.replace('COMP_LINE="tracehost', f'COMP_LINE="{HOST}')
    env = clean_environment(HOME=str(place.parent))
    done = subprocess.run([found_in("bash"), "--norc", "-c", program], input="noteb\n", capture_output=True, text=True, cwd=place, env=env)  # fmt: skip
    assert offers(done.stdout) == {"noteb": {"notebook"}}, done


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["notebook", "--", "--st"], "*.ipynb\n"),
        (["run", "--", "x"], "any\n"),
        (["--check-hash-based-pycs", ""], "any\n"),
        (["-Bu", "-Xdev", "--opt"], "none\n--optimize\trun settled calls on kernel tapes, with the interpreter's bits (default: exact on the CPU)\n"),
        (["-Bum", "x", "--opt"], "any\n"),
        (["notebook", "--no-such="], "none\n"),
        ([], None),
    ],
)  # fmt: skip
def test_answers(run_host, words, offered):
    done = run_host("completion", "words", "--", *words)
    assert (done.returncode, done.stderr) == (0, "")
    if offered is None:
        offered = done.stdout
        assert offered.startswith("*.py\nrun\t")
    assert done.stdout == offered


def lines():
    return "".join(f"{typed}\n" for typed, _ in CASES)


def test_bash(place):
    check(offers(run([found_in("bash"), "--norc", "-c", BASH], place, lines())), FOUND)


# A terminal of zsh's own, in which Tab shows what the completion system would offer.
ZSH = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
tell() { zpty -w shell "$1; print DO''NE"; zpty -r shell answer '*DONE*' }
tell 'PS1=; fpath=($PWD/../scripts $fpath); autoload -Uz compinit; compinit -u -D'
tell 'compadd() { local -a hits; [[ "$*" == *-[AOD]* ]] || { builtin compadd -A hits "$@"; print -rl -- $hits >>../scripts/hits }; builtin compadd "$@" }'
tell 'probe() { : >../scripts/hits; _main_complete; compstate[insert]= compstate[list]=; print DO""NE }; zle -C probe complete-word probe; bindkey "^I" probe'
for line in "${(@f)$(<../scripts/lines)}"; do
  zpty -w -n shell "tracehost $line"$'\t'
  zpty -r shell answer '*DONE*'
  print -r -- "== $line|"
  cat ../scripts/hits
  zpty -w -n shell $'\C-u'
done
"""


@pytest.mark.parametrize("loaded", ["fpath", "source"])
def test_zsh(place, loaded):
    zsh = found_in("zsh")
    (place.parent / "scripts" / "lines").write_text(lines().removesuffix("\n"))
    program = ZSH
    if loaded == "source":
        program = ZSH.replace("fpath=($PWD/../scripts $fpath)", ":").replace("-u -D'", "-u -D; source ../scripts/zsh'")  # fmt: skip
    check(offers(run([zsh, "-f", "-c", program], place)), FOUND)


FISH = r"""
source ../scripts/fish
while read --line line
    echo "== $line|"
    complete -C "tracehost $line" | string replace -r '\t.*' ''
end
exit 0
"""


def test_fish(place):
    check(offers(run([found_in("fish"), "-N", "-c", FISH], place, lines())), FOUND)


def test_tabs_at_a_prompt_of_bash(place):
    """Keys as a user types them; what the line has become shows in the arguments of the command."""
    leader, follower = pty.openpty()
    env = asking_host(TERM="dumb", HOME=str(place))
    shell = subprocess.Popen([found_in("bash"), "--norc", "--noprofile", "-i"], stdin=follower,
                             stdout=follower, stderr=follower, cwd=place, env=env, start_new_session=True)  # fmt: skip
    os.close(follower)
    keys = (
        "bind 'set bell-style none'; source ../scripts/bash; tracehost() { printf '<%s>' \"$@\"; echo; }\n"
        "tracehost noteb\t--stan\tf\t--cwd=su\t a\t\n"
        "tracehost --report=not\tni\t --rep no\t\n"
        "exit\n"
    )
    os.write(leader, keys.encode())
    shown = b""
    try:
        while chunk := os.read(leader, 4096):
            shown += chunk
    except OSError:  # the other end is closed
        pass
    os.close(leader)
    assert shell.wait(60) == 0
    assert b"\n<notebook><--stance><fail_on_miss><--cwd=sub/><a.ipynb>\r\n" in shown, shown.decode()
    assert b"\n<--report=notes.txt><nice.py><--rep><notes.txt>\r\n" in shown, shown.decode()


@pytest.mark.parametrize("words", [[], ["tcsh"], ["bash", "zsh"]])
def test_another_shell(run_host, words):
    result = run_host("completion", *words)
    got = f", got '{' '.join(words)}'" if words else ""
    assert result.stderr == f"tracehost: 'completion' takes bash, zsh or fish{got}\n"
    assert (result.returncode, result.stdout) == (2, "")
