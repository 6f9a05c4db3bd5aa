#!/bin/sh
# conformance.sh [OPTION...]: runs the official suite on a fresh kubesim with four nodes and writes
# docs/parity-conformance.md; with CONFORMANCE_KUBECONFIG=FILE on that cluster, which then is nobody else's, and writes
# nothing. The options are those of conformance/conformance.py; reports lie in bench/results.
set -eu
deploy/testcluster/build.sh e2e.test ginkgo || {
  status=$?
  [ $status = 3 ] || exit $status
  echo "skipped: the official suite"
  exit 0
}
python=${PYTHON:-.venv/bin/python}
suite="$python deploy/testcluster/conformance/conformance.py --bin $TESTCLUSTER_BIN"
if [ -n "${CONFORMANCE_KUBECONFIG:-}" ]; then
  exec $suite --kubeconfig "$CONFORMANCE_KUBECONFIG" --folder bench/results/conformance-elsewhere "$@"
fi
folder=$(mktemp -d)
kubesim=

leave() {
  [ -z "$kubesim" ] || { kill "$kubesim" 2>/dev/null; wait "$kubesim" 2>/dev/null; } || true
  rm -rf "$folder"
}

trap leave EXIT
trap 'exit 130' INT TERM

$python deploy/testcluster/conformance/kubesim_with_agnhost.py serve --nodes 4 --kubeconfig "$folder/config" &
kubesim=$!
until [ -s "$folder/config" ]; do kill -0 $kubesim || exit 1; sleep 0.2; done
$suite --kubeconfig "$folder/config" --write docs/parity-conformance.md "$@"
