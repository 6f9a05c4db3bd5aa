# The agent of real nodes (NODE_AGENT_IMAGE, deploy/node-agent.yaml): Python's standard library, one file, and
# faultctl, which arms the CUDA fault library of nodes that have one. Build it in the repository's root; `make images`
# does. kubesim/kubelet/images.yaml knows it for simulated nodes.
FROM docker.io/library/python:3.11-alpine AS build
COPY faults/__init__.py faults/xids.json /source/faults/
COPY faults/agent /source/faults/agent
RUN python -m zipapp /source --main faults.agent.__main__:run --compress --output /node-agent

FROM docker.io/library/alpine AS faultctl
RUN apk add --no-cache gcc make musl-dev
COPY native/Makefile /native/
COPY native/src /native/src
RUN make -C /native build/faultctl

FROM docker.io/library/python:3.11-alpine
# Nothing can be installed or run in it by name: no pip, no apk.
RUN pip uninstall --yes --quiet pip setuptools wheel && rm -rf /sbin/apk /lib/apk /etc/apk
COPY --from=build /node-agent /usr/local/bin/node-agent
COPY --from=faultctl /native/build/faultctl /usr/local/bin/faultctl
# It opens the kernel log as root, and becomes user 65532 without any capability before it listens.
ENTRYPOINT ["/usr/local/bin/python3", "-IS", "/usr/local/bin/node-agent"]
