#!/usr/bin/env bash
# Builds the programs that are named (default: those of a control plane) into TESTCLUSTER_BIN, from the Go modules that
# are pinned beside this file. What lies there or on PATH already is left as it is. Exit status 3: it cannot be built
# here, because there is no Go or its modules cannot be had; one line says so.
set -euo pipefail
cd "$(dirname "$0")"
BIN=${TESTCLUSTER_BIN:-$HOME/.cache/faultline/testcluster-bin}
VERSION=k8s.io/component-base/version
# Without these flags Kubernetes' programs would call themselves v0.0.0.
KUBE="-s -w -X $VERSION.gitVersion=v1.34.4 -X $VERSION.gitMajor=1 -X $VERSION.gitMinor=34"

build() { # program, module folder, package, go's verb, linker flags
  echo "building $1 ..."
  (cd "$2" && CGO_ENABLED=0 go $4 -ldflags "$5" -o "$BIN/$1" "$3")
}

make_one() {
  case $1 in
    kube-*) build "$1" kubernetes "k8s.io/kubernetes/cmd/$1" build "$KUBE" ;;
    etcd) build etcd etcd go.etcd.io/etcd/server/v3 build "-s -w" ;;
    metrics-server) build metrics-server metrics-server sigs.k8s.io/metrics-server/cmd/metrics-server build "-s -w" ;;
    kwok) build kwok kwok sigs.k8s.io/kwok/cmd/kwok build "-s -w" ;;
    e2e.test) build e2e.test conformance k8s.io/kubernetes/test/e2e "test -c" "$KUBE" ;;
    ginkgo) build ginkgo conformance github.com/onsi/ginkgo/v2/ginkgo build "-s -w" ;;
    *) echo "error: $1 is none of our programs" >&2 && exit 2 ;;
  esac
}

[ $# -gt 0 ] || set -- etcd kube-apiserver kube-controller-manager kube-scheduler kwok
for program; do
  [ -x "$BIN/$program" ] || command -v "$program" >/dev/null && continue
  if ! command -v go >/dev/null; then
    echo "$program is not on PATH, not in $BIN, and cannot be built: Go was not found. Run: sudo apt install golang"
    exit 3
  fi
  mkdir -p "$BIN"
  if ! make_one "$program"; then
    echo "$program could not be built; the lines above say why (are Go's modules within reach? try: go env GOPROXY)"
    exit 3
  fi
done
