#!/bin/sh
# contract.sh FILE... [OPTION...]: plays tests on real control planes, several at once, each with one of its own: most of
# the time they wait (a namespace takes ten seconds to go). The files and options are pytest's; CONTRACT_WORKERS says how
# many (default: 3).
set -eu
deploy/testcluster/build.sh || {
  status=$?
  [ $status = 3 ] || exit $status
  echo "skipped: the contract, hostile pods and sessions on a real control plane"
  exit 0
}
python=${PYTHON:-.venv/bin/python}
folder=$(mktemp -d)
workers=${CONTRACT_WORKERS:-3}
testcluster="$python deploy/testcluster/testcluster.py"

leave() { # also what tests that were ended have left: those of placements have a control plane of their own
  for cluster in "$folder"/gw* "$folder"/tests/popen-gw*/empty*/testcluster; do $testcluster down --folder "$cluster" || true; done
  rm -rf "$folder"
}

trap leave EXIT
trap 'exit 130' INT TERM

for number in $(seq 0 $((workers - 1))); do $testcluster up --folder "$folder/gw$number" >/dev/null; done
CONTRACT_KUBECONFIG="$folder/{worker}/admin.kubeconfig" \
  $python -m pytest -n "$workers" --dist loadfile --no-loadscope-reorder -q --basetemp "$folder/tests" "$@"
