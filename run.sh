#!/usr/bin/env bash
# ./run.sh          set up, then simulate
# ./run.sh test     set up, then the whole check: ruff, import-linter, mypy --strict, vulture, pytest
# ./run.sh test --all      the same with whole experiments and trainings (and a floor of coverage from Python 3.12 on)
# ./run.sh test --quick    the same without ray, kills, browser and slow tests; other ARGS go to pytest: --cov, say
# ./run.sh ARGS     set up, then bfl ARGS
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
venv="$here/.venv"
log="$venv/install.log"
all_extras="simulation,ray,dev"

fail() {
    printf 'run.sh: %s\n' "$@" >&2
    exit 1
}

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3.13 python3.12 python3.11 python3; do
        if [ -n "$candidate" ] && command -v "$candidate" >/dev/null &&
            "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    fail "Python 3.11 or newer was not found." \
        "Install it (Debian, Raspberry Pi OS: apt install python3 python3-venv), or name one: PYTHON=/path/to/python3 ./run.sh"
}

explain_failure() {
    local missing
    missing="$(grep -oE 'No matching distribution found for [^ ]+|Could not find a version that satisfies the requirement [^ ]+' "$log" |
        awk '{print $NF}' | sort -u | tr '\n' ' ' || true)"
    printf '\nrun.sh: the set-up failed. The last lines of %s:\n' "$log" >&2
    grep -v WARNING "$log" | tail -n 6 | sed 's/^/    /' >&2
    if [ -n "$missing" ]; then
        printf 'run.sh: missing: %s\n' "$missing" >&2
    fi
    fail "Is this machine online? Packages come from your pip's index. Offline, fetch them elsewhere with" \
        "  pip download -d wheels setuptools '.[$1]'   and here run   PIP_NO_INDEX=1 PIP_FIND_LINKS=wheels ./run.sh"
}

# Installed once per content of pyproject.toml and set of extras; a stamp (a copy of the file) remembers which.
set_up() {
    local extras="$1" python stamp
    for stamp in "$venv/installed-$extras" "$venv/installed-$all_extras"; do
        if [ -x "$venv/bin/bfl" ] && cmp -s "$stamp" "$here/pyproject.toml"; then
            return
        fi
    done
    python="$(find_python)"
    if [ ! -x "$venv/bin/python" ]; then
        if ! "$python" -m venv "$venv" 2>/dev/null; then
            rm -rf "$venv" # half of one would be taken for a whole one next time
            fail "$python cannot make a virtual environment." "Install its venv module (Debian: apt install python3-venv)."
        fi
    fi
    printf 'Setting up in %s (once, a few minutes) ...\n' "$venv" >&2
    "$venv/bin/python" -m pip install --disable-pip-version-check --quiet --editable "$here[$extras]" >"$log" 2>&1 ||
        explain_failure "$extras"
    cp "$here/pyproject.toml" "$venv/installed-$extras"
}

# anvil is the Ethereum network the ledger is also tested on. Where npm cannot bring it, those tests are skipped and say so.
set_up_anvil() {
    local program="$venv/npm/node_modules/.bin/anvil"
    if [ -n "${ANVIL:-}" ] || command -v anvil >/dev/null; then
        return
    fi
    if [ ! -x "$program" ] && command -v npm >/dev/null; then
        timeout 180 npm install --prefix "$venv/npm" --no-audit --no-fund --silent @foundry-rs/anvil@1.7.1 \
            >"$venv/anvil.log" 2>&1 || true
    fi
    if [ -x "$program" ]; then
        export ANVIL="$program"
    fi
}

# Browser tests drive Debian's chromium (tests/bfl/dashboard/browser). It is brought where nobody minds: by root in CI, or
# with BFL_APT=1. Where it is missing, those tests are skipped and say so.
set_up_chromium() {
    local candidate
    for candidate in "${BFL_CHROMIUM:-}" chromium chromium-browser google-chrome; do
        if [ -n "$candidate" ] && command -v "$candidate" >/dev/null; then
            return
        fi
    done
    if [ "$EUID" = 0 ] && [ -n "${CI:-}${BFL_APT:-}" ] && command -v apt-get >/dev/null; then
        {
            timeout 120 apt-get update &&
                DEBIAN_FRONTEND=noninteractive timeout 600 apt-get install -y --no-install-recommends chromium
        } >"$venv/chromium.log" 2>&1 </dev/null || true
    fi
}

case "${1:-}" in
test)
    shift
    selection=(-m 'not experiment')
    arguments=()
    is_whole=""
    for argument in "$@"; do
        case "$argument" in
        --quick) selection=(-m 'not experiment and not ray and not kills and not browser and not slow') ;;
        --all) selection=() is_whole=yes ;;
        *) arguments+=("$argument") ;;
        esac
    done
    set_up "$all_extras"
    set_up_anvil
    set_up_chromium
    cd "$here"
    printf '== ruff\n'
    "$venv/bin/ruff" check .
    "$venv/bin/ruff" format --check .
    printf '== imports\n'
    "$venv/bin/lint-imports"
    printf '== mypy\n'
    "$venv/bin/mypy"
    printf '== vulture\n'
    "$venv/bin/vulture"
    # The floor of coverage (pyproject.toml) is for all tests. sys.monitoring (Python 3.12) measures it for nothing;
    # before that it takes half as long again, and `./run.sh test --cov` is there for who wants it.
    if [ -n "$is_whole" ] && "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' >/dev/null; then
        export COVERAGE_CORE=sysmon
        selection=(--cov)
    fi
    printf '== pytest\n'
    # One worker per core, each with one thread of torch: they would fight for the cores otherwise.
    OMP_NUM_THREADS=1 exec "$venv/bin/python" -m pytest -n auto --dist loadfile \
        ${selection[@]+"${selection[@]}"} ${arguments[@]+"${arguments[@]}"}
    ;;
"")
    set_up simulation
    RUN_SH="$0" exec "$venv/bin/bfl" simulate
    ;;
*)
    set_up simulation
    RUN_SH="$0" exec "$venv/bin/bfl" "$@"
    ;;
esac
