# Read by the scripts beside it: one place that says which venv and which build tree belong to which torch.
# shellcheck shell=bash
TRACEHOST_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
TRACEHOST_DEFAULT_TORCH=2.15.0
TRACEHOST_TORCH="${TRACEHOST_TORCH:-$TRACEHOST_DEFAULT_TORCH}"
TRACEHOST_PRESET="${TRACEHOST_PRESET:-release}"
if [[ "$TRACEHOST_TORCH" == "$TRACEHOST_DEFAULT_TORCH" ]]; then
  TRACEHOST_VENV="$TRACEHOST_ROOT/.venv"
  TRACEHOST_BUILD="$TRACEHOST_ROOT/build/$TRACEHOST_PRESET"
else
  TRACEHOST_VENV="$TRACEHOST_ROOT/.venv-torch$TRACEHOST_TORCH"
  TRACEHOST_BUILD="$TRACEHOST_ROOT/build/$TRACEHOST_PRESET-torch$TRACEHOST_TORCH"
fi
# Paths below the root are hashed relative to it: a second build tree takes what the first one compiled.
export CCACHE_BASEDIR="$TRACEHOST_ROOT" CCACHE_NOHASHDIR=1
TRACEHOST_JOBS="${TRACEHOST_JOBS:-$(nproc)}"

# Python tests of devices, and those with a device parameter: scripts/test --standin, scripts/device.
# shellcheck disable=SC2034
DEVICE_TESTS=(tests/python/trace/test_{devices,device_order,device_checks,device_counts,cuda_graphs,cuda_graph_{programs,faults,surroundings},state_tensors,factories}.py
  tests/python/archive/test_archive_devices.py tests/python/libraries/test_training_{steps,gradients}.py)

say() { printf 'tracehost: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
# Prints a command, then runs it: what a script does to a machine should be seen.
step() { printf '+ %s\n' "$*" >&2; "$@"; }

# venv_over PYTHON DIR: a virtual environment that sees the packages of PYTHON, which may be that of another one.
venv_over() {
  [[ ! -x "$2/bin/python" ]] || return 0
  local base site
  base="$("$1" -c 'import os, sys; print(os.path.join(sys.base_prefix, "bin", "python3"))')"
  "$base" -m venv --without-pip "$2"
  site="$("$2/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')"
  "$1" -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))' >"$site/packages.pth"
}
