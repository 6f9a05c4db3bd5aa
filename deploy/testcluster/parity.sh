#!/bin/sh
# parity.sh [OPTION...]: compares what every kubectl prints on kubesim and on a real control plane, whose nodes are
# kwok's; then, where containers are needed, on one that kubesim's nodes have joined. Writes docs/parity.md.
# The options are those of kubesim/tests/contract/transcripts.py; with --keep DIR a run goes on where another stopped.
set -eu
deploy/testcluster/build.sh || {
  status=$?
  [ $status = 3 ] || exit $status
  echo "skipped: the comparison with a real control plane"
  exit 0
}
python=${PYTHON:-.venv/bin/python}
folder=$(mktemp -d)
testcluster="$python deploy/testcluster/testcluster.py"
started=

stop() {
  for pid in $started; do kill "$pid" 2>/dev/null || true; done
  for pid in $started; do wait "$pid" 2>/dev/null || true; done
  started=
}

leave() {
  stop
  for name in paper joined; do $testcluster down --folder "$folder/$name" || true; done
  rm -rf "$folder"
}

simulate() { # simulate FILE: starts kubesim and waits for its kubeconfig
  $python -m kubesim serve --kubeconfig "$1" &
  started="$started $!"
  until [ -s "$1" ]; do kill -0 $! || exit 1; sleep 0.2; done
}

compare() { # compare REAL OPTION...: plays scenes on the kubesim that was started last, and on REAL
  right=$1
  shift
  $python -m kubesim.tests.contract.transcripts --left "$folder/simulated" --right "$right" --keep "$folder/keep" "$@"
}

trap leave EXIT
trap 'exit 130' INT TERM

simulate "$folder/simulated"
real=$($testcluster up --folder "$folder/paper")
compare "$real" "$@"
stop
$testcluster down --folder "$folder/paper"

rm "$folder/simulated"
simulate "$folder/simulated"
real=$($testcluster up --folder "$folder/joined")
$python -m kubesim nodes --kubeconfig "$real" --untainted >"$folder/nodes" &
started="$started $!"
until grep -q joined "$folder/nodes"; do kill -0 $! || exit 1; sleep 0.2; done
compare "$real" --containers --write docs/parity.md "$@"
