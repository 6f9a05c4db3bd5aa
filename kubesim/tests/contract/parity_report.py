"""Writes docs/parity.md from the verdicts over every kubectl: a table, then each difference with its reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

GOAL_PERCENT = 98.0
LEFT_OUT = (
    "The control plane leaves out what neither an interview nor a conformance spec of the focus asks for: the "
    "headers that name a request's flow schema and priority level, and the annotations in which autoscaling/v1 "
    "keeps metrics, behavior and conditions: a change through it keeps the share of the CPU alone. A deployment is "
    "not rolled back by an annotation. HorizontalPodAutoscalers are kept, and scale nothing. Nobody is told of a "
    "pod with two disruption budgets, and a mark of disruption is not taken back where its pod stays. Lost nodes "
    "are emptied at once, not one after another, unless all are lost. The OpenAPI documents describe neither the "
    "old paths of watches nor those of streams and proxies. CEL has no loops with two variables, no formats, "
    "versions, addresses, networks, URLs, parts of times, unsigned numbers, bytes, format strings, quote, optional "
    "values but those of oldSelf, charAt, indexOf, findAll, first and last, reckoning with times, and existsOne, "
    "and what an expression may cost is counted roughly. Of many fields only the types are checked: of Windows, "
    "iSCSI and flexible volumes; drivers of volumes, their nodes, capacities, attachments and attributes; "
    "topologies and parameters of storage classes; runtime classes; classes of ingresses; Endpoints and "
    "EndpointSlices but for their addresses; IPAddresses and ServiceCIDRs, whose ranges may change, and go while "
    "they are used; block devices, claims of devices, huge pages, search domains, units of resources, policies of "
    "resizing, and the keys of labels by which pods are spread; pods that wait for gates, whose nodes cannot be "
    "chosen anew; success policies, exit codes and managers of jobs; ratios of limits; sources of data of claims; "
    "names of signers, webhooks and API services; rules of webhooks and policies that cover each other, their "
    "audit annotations and the kinds of their parameters; selectable fields and protected groups of custom kinds. "
    "Services have addresses of IPv4 alone, and keep only the first of them. Schemas of custom kinds are refused "
    "for their structure, defaults and rules that cannot be read, not for rules that are written oddly. Claims of "
    "stateful sets stay whatever their retention policy says, daemon sets replace as many pods at a time as they "
    "may have too many. Nodes may make neither mirror pods nor slices of devices, nor change claims. Pods are not "
    "resized in place, as where InPlacePodVerticalScaling is off. Nobody makes the claims of generic ephemeral "
    "volumes, nor slices of Endpoints that were written by hand, and the scheduler knows neither zones by labels "
    "of volumes, nor how many volumes a driver can attach, nor ReadWriteOncePod. Ranges of service addresses never "
    "say that they are ready. Annotations of pods choose no profiles of AppArmor and seccomp, but may not ask for "
    "none. Prometheus has no functions of angles, logarithms and dates, no @ modifier, no clamp, deriv, idelta, "
    "stdvar, timestamp, label_join and count_values, predict_linear, quantile_over_time, stddev and sqrt, no pages "
    "of its flags and state (its API tells them), and neither formats queries nor tells of exemplars, "
    "Alertmanagers, the metadata of targets, the state of its storage and how far its log was replayed. Nobody is "
    "warned of ports that several containers declare, or of owners that an object names twice."
)
NODES_LEFT_OUT = (
    "On nodes there is no dcgmi: DCGM speaks through its exporter alone. nvidia-smi sets neither clocks (-ac, "
    "-lmc, -lgc) nor accounting (-am), writes no XML (-x), tells neither what links can do (nvlink -c) nor who "
    "reaches whom (topo -p2p), and lists no retired pages, accounted processes and supported clocks as CSV. The "
    "GPU operator comes without node-feature-discovery. GPUs stay whole: -mig says that it is not supported, mig "
    "finds no device to cut, and there is no MIG manager to heed nvidia.com/mig.config. There is no iptables, and "
    "no cluster autoscaler to install. Nodes have no ctr, dpkg, findmnt, fuser, last, lsblk, lsof, numactl, "
    "nvidia-bug-report.sh, nvidia-container-cli, nvidia-ctk, nvidia-debugdump, pstree, vmstat and who; crictl has "
    "ps, pods, images and logs alone, systemctl neither show, kill, reset-failed, list-unit-files, "
    "is-system-running nor a status of the whole. Kubelets have no /stats/summary, and know no soft thresholds and "
    "no minimum to reclaim."
)
"""Features that the programs of nodes leave out."""
TOOLS_LEFT_OUT = (
    "Of tools in containers, awk has no functions of one's own, no getline, pipes and files to print to, no do "
    "loops, no gensub, close, system and clock, no random numbers, logarithms and angles; sed has no hold space, "
    "no jumps, no steps of lines and none of D, F, l, P, Q, r, R, T, w, x, y and z, and neither -s nor -z; find "
    "tests neither owners, permissions, links, times of access nor regular expressions, and has no -ls, -ok, "
    "-execdir, -printf and -quit; vi repeats nothing, marks no lines and does not redo; sort neither checks, "
    "begins keys within fields nor has -o, uniq compares whole lines, dd skips nothing, checksums are not checked, "
    "tar excludes nothing, and ls, cat, cut, diff and xargs have their usual options alone. apt and pip install "
    "nothing and ask no archive. There is no man, nice, skopeo (crane asks registries), tput and yq. Terraform "
    "there has no sensitive values, no import blocks (it has the command), no directives and strip markers in "
    "templates, and the common functions alone; it refuses the rest by name."
)
"""Features that the tools of containers leave out."""
SIGNS_OF_SIMULATION = (
    (
        "An engineer who had not written kubesim spent an hour inside a practice cluster looking for proof that "
        "it is simulated (23 November 2026). He found 111 signs; some of them name several gaps, and one is "
        "listed here already. Bash's time, different $RANDOM in every container, BASH_SOURCE and HOSTNAME in "
        "scripts, the noise and speed of training logs, curl's times, boot messages that differ between nodes, "
        "what ps says of old processes and of kernel threads, refused mounts, states and capabilities in /proc "
        "and more of its files, nginx' configuration and start, psql and Ubuntu's release in images were "
        "corrected; `kubesim/tests/test_tells.py` holds them. The rest is known:"
    ),
    (
        "- Anyone notices within half an hour: images lack programs that the real ones have (busybox: busybox, "
        "ifconfig, telnet, httpd, traceroute, route, hexdump, strings, time, bc; netshoot: host, mtr, openssl, "
        "ethtool, nft, socat, tshark; PyTorch's: ldconfig, gcc, make, strings, nsys; Alpine: apk; Ubuntu and "
        "Debian: dpkg as a command, tac, paste, comm, join, split, shuf, mkfifo, fold, install, nice, setsid, "
        "flock, su, sort -R; nodes: reboot, pidof, kubelet, openssl, python3), most GNU tools refuse --version "
        "and --help, executables are 16 bytes and have one checksum, and /etc, /sys, /dev and /usr/local/cuda "
        "hold little. systemctl reboot does nothing. Redis and Postgres print no log and listen nowhere, "
        "redis-cli says nothing. nginx writes no access log, answers POST with 200 and without Date, ETag and "
        "Content-Length to curl, is called docker-entrypoint.sh in ps, and nginx -v and -t start it. curl takes "
        "any certificate and tells nothing of TLS. A busy loop in bash or `yes` counts in cgroups and kubectl "
        "top, not in ps and top, and is never throttled; `while True: pass` in Python counts nearly nowhere. The "
        "open files of a computed process are none. apt update finds one host and not the other. Long pipes and "
        "loops take 100 times as long as on a machine. Assigning a readonly variable ends a script of bash. "
        "PyTorch's image has 22 packages of pip (the real one some 250), its entry point starts the training "
        "program, and torchrun --help and torch.utils.collect_env are missing. Nodes have neither "
        "/var/lib/kubelet/pods nor /var/lib/containerd."
    ),
    (
        "- An expert who looks: bash has no getopts, mapfile, pushd, popd, builtin, enable, times, caller, ;;& and "
        "umask -S; busybox' tools are GNU's; stat -f is stat; ip shows no IPv6, /proc/net/dev counts nothing, "
        "every CPU of /proc/stat has spent the same, network namespaces have one number; lscpu lacks flags and "
        "caches; fsGroup changes no group; files of images and secrets have one date; volumes of config maps name "
        "their folder by the nanosecond, and nanoseconds end in 000; kernel parameters and mounts of nodes are "
        "few; the lines of a start are whole tenths of a second apart and those of training exactly equally far; "
        "gpu-feature-discovery logs as the device plugin; temperatures of GPUs stand still and their power goes in "
        "waves; vLLM has clients from its start and no /metrics; torchrun takes two ranks on one GPU, and their "
        "prints mix; nvcc compiles nothing; several versions of an image are of one size; "
        "leases of all nodes are renewed at once; kubelets answer /healthz to anybody and have no logs to list; "
        "CoreDNS has no /metrics; the API server's certificate names only its address; load balancers say nothing "
        "while they wait; an address of a pod is given out again at once; a sleeping container uses 1m; "
        "sys.maxsize is that of 32 bits, and resource, fcntl, mmap, ctypes, bz2, lzma, readline and termios are "
        "missing from Python. Python ignores SIGINT where it is process 1, and its banner names the compiler of "
        "another build; /proc/1 has neither task nor sched. Debian's image has ps and top; netshoot's curl and "
        "dig, and ldd and git of Ubuntu, tell versions of Debian; dig no +trace, netstat no UNIX sockets; curl "
        "asks for no AAAA record. There is no .bashrc with ll, and a terminal of no size is drawn anew with every "
        "key."
    ),
    (
        "- Only by design: /metrics of the API server has few families, images have a hundred files, tokens are "
        "signed with ES256, the token of a list's next page has a field of its own, the exporter's distroless "
        "image has a shell, and unschedulable pods are tried more often."
    ),
)
"""Findings of a search for signs that a practice cluster is simulated: what was corrected, and what is known."""
PYTHON_LEFT_OUT = (
    "Python in containers has the names of numpy, PyTorch, TensorFlow and Keras that scripts for GPUs use most. "
    "Numbers drawn with a seed repeat themselves, but are not NumPy's or PyTorch's own. Large arrays, convolutions, "
    "pools, attention and recurrent layers are estimated, and so is the course of their loss. TensorFlow has no "
    "GradientTape and no Variable; Keras has sequential models of dense layers."
)
"""Names that the libraries of Python leave out."""
UNKNOWN = re.compile(r"unknown (command|flag|shorthand flag)")
GROUPS = ("apply", "auth", "certificate", "config", "create", "rollout", "set", "top")
"""Commands that have commands of their own."""
NOT_YET = "not yet the same"
TEXTS = """## Where explain's texts come from

The sentences of `kubectl explain` are upstream's own and are read at run time from `lightkube-models`, which has
those of Kubernetes 1.34 (0.3 MB, 43 files); where they have paragraphs is in `kubesim/schema/openapi_spaces.json`.
Of 2,914 texts of the real API server 2,833 (97.2 %) are the same to the letter. 68 lack the sentences beside the
values that a field may have (the values are told), 12 types without fields have none. `kubernetes-validate` would
give 97.3 % for 16 MB to fetch and 12,206 files of 77 MB; the official client's models gave 66.7 %."""


@dataclass(frozen=True)
class Finding:
    """What became of one command with one kubectl."""

    version: str
    scene: str
    line: str
    same: bool
    known: bool
    """Whether this kubectl knows the command and its flags."""
    reason: str = ""
    again: bool | None = False
    """Whether it was the same only when the scene was played once more; None where that was not noted."""


def known(output: str, *, deliberate: bool) -> bool:
    """Tell whether a kubectl knows what was typed; ``deliberate`` says that the command is an error on purpose."""
    return deliberate or not UNKNOWN.search(output)


def percent(findings: Iterable[Finding]) -> float:
    """Return the share of the commands that apply which are the same."""
    judged = [finding.same for finding in findings if finding.known]
    return 100 * sum(judged) / len(judged) if judged else 100.0


def missed(findings: list[Finding]) -> list[str]:
    """Return a line for each kubectl whose share is below the goal, and for each difference without a reason."""
    lines = []
    for version, own in by_version(findings).items():
        share = percent(own)
        if share < GOAL_PERCENT:
            lines.append(
                f"kubectl {version}: {share:.1f} % of the commands are the same, the goal is {GOAL_PERCENT:.0f} %"
            )
    unexplained = [f for f in findings if not f.same and f.known and not f.reason]
    return lines + [
        f"kubectl {f.version}: {f.scene}: {f.line}: {NOT_YET}, and no reason is given" for f in unexplained
    ]


def by_version(findings: list[Finding]) -> dict[str, list[Finding]]:
    """Return the findings of each kubectl, the oldest first."""
    versions = sorted({f.version for f in findings}, key=lambda text: [int(part) for part in text.split(".")])
    return {version: [f for f in findings if f.version == version] for version in versions}


def report(findings: list[Finding]) -> str:
    """Return the page."""
    versions = by_version(findings)
    lines = [
        "# kubesim and a real control plane",
        "",
        "What kubectl prints on kubesim and on Kubernetes 1.34.4, compared once times, uids, addresses and random "
        f"names are taken out: {percent(findings):.1f} % of {sum(f.known for f in findings)} commands over "
        f"{len(versions)} versions of kubectl print the same (the goal is {GOAL_PERCENT:.0f} %).",
        "Generated by `make parity`; the commands are in `kubesim/tests/contract/transcripts.yaml`, those that need "
        "containers in `transcripts_containers.yaml`: there, kubesim's own nodes have joined the real control "
        "plane. Not applicable is what a kubectl does not know yet. The kubectl inside containers is a program of "
        "its own. It names what it was built without, which the candidate's own kubectl has: attach, cp, explain, "
        "expose, port-forward, proxy, diff, events, kustomize, autoscale, certificate, auth reconcile, "
        "cluster-info dump, plugins, apply edit- and set-last-applied, apply --server-side and --prune, "
        "replace and create --raw, delete --interactive, debug with copies of pods, create of cronjob, ingress, "
        "poddisruptionbudget, priorityclass, quota, service, token and the other kinds of secret, set selector, "
        "serviceaccount and subject, set env --from and --list, rollout pause, resume, history and "
        "status --revision, scale --current-replicas, --resource-version, drain --disable-eviction and "
        "--skip-wait-for-delete-timeout, --warnings-as-errors, --output-watch-events, go-templates, templates and "
        "columns from files, "
        "names with a hash, and of config what changes clusters and users. It describes pods, nodes, deployments, "
        "jobs, services, secrets and config maps as upstream does, other kinds field by field, as it does custom "
        "kinds. Containers have no cmp, column, comm, dig (nslookup and getent are there), host, iperf3, mknod, "
        "mktemp, mtr, nl, nmap, od, openssl, paste, "
        "rev, tac, tcpdump, traceroute, truncate and xxd. BusyBox' tools but ps look and complain as "
        "GNU's do, and sort, "
        "cut, dd and xargs refuse a "
        "wrong value in fewer words than theirs. Of history expansion bash there knows `!!` and `!$`, and it has "
        "no pushd, popd, dirs, select, times, builtin, jobs -x, history -w, umask -S, ;& of case, ${!name*}, "
        "${name@U} and traps of DEBUG and RETURN; sh, dash and ash are that bash by another name: they take its "
        "grammar and word errors as it does, but for commands that are not found, files that do not "
        "open, and dash's echo and printf. jq in containers runs libjq 1.8.2: the messages of `debug` "
        "and `stderr`, a second `input`, `import` and `include` are missing. Tab completes commands, kinds and "
        "names there, neither flags nor containers, and lists choices without pages. No stream is carried in "
        "base64. Claims of devices (dynamic resource allocation) and their slices are kept without upstream's "
        "rules for their fields, and nothing allocates: pods that have some stay pending, as on a cluster without "
        "a driver. The types of CEL expressions are not checked before they are asked: an unknown field or a wrong "
        "type is the error of the request that meets it, and policies get no expressionWarnings. What is written "
        "as a status keeps its schema's types, but not upstream's rules for its fields (no negative counts, no way "
        "back for what has ended). Events, flow schemas and priority levels are taken with any values of the right "
        "types.",
        "",
        LEFT_OUT,
        "",
        NODES_LEFT_OUT,
        "",
        TOOLS_LEFT_OUT,
        "",
        PYTHON_LEFT_OUT,
        "",
        SIGNS_OF_SIMULATION[0],
        "",
        *SIGNS_OF_SIMULATION[1:],
        "",
        "A scene with a difference that has no reason is played a second time on both, because both have controllers "
        "that race: a command counts as different if it differs both times. How many were the same only then stands "
        "in the table, and which they were at the end; a question mark where not all of them were noted.",
        "",
        "| kubectl | commands | same | of them in the second play | different | not applicable | share |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for version, own in versions.items():
        same, other = (sum(f.known and f.same is wanted for f in own) for wanted in (True, False))
        lines.append(
            f"| {version} | {len(own)} | {same} | {_counted(own)} | {other} | {len(own) - same - other} "
            f"| {percent(own):.1f} % |"
        )
    lines += [
        "",
        "## By scene",
        "",
        "A dash: not played with that kubectl yet.",
        "",
        "| scene | " + " | ".join(versions) + " |",
        "| --- |" + " --- |" * len(versions),
    ]
    for scene in dict.fromkeys(f.scene for f in findings):
        shares = [_share([f for f in own if f.scene == scene and f.known]) for own in versions.values()]
        lines.append(f"| {scene} | " + " | ".join(shares) + " |")
    lines += ["", "## What is typed", "", _typed(findings)]
    lines += ["", "## What differs", "", *_differences(findings), "", *TEXTS.splitlines()]
    return "\n".join([*lines, "", "## The same in the second play only", "", *_second(findings)]) + "\n"


def _again(findings: Iterable[Finding]) -> list[Finding]:
    return [f for f in findings if f.known and f.same and f.again]


def _counted(findings: list[Finding]) -> str:
    """Return how many were the same in the second play only."""
    return f"{len(_again(findings))}{'?' if any(f.again is None for f in findings) else ''}"


def _second(findings: list[Finding]) -> list[str]:
    """Return a line for each command that was the same only when its scene was played once more."""
    lines: dict[tuple[str, str], list[str]] = {}
    for finding in _again(findings):
        lines.setdefault((finding.scene, finding.line), []).append(finding.version)
    return [f"- {scene}: `kubectl {line}` ({', '.join(versions)})" for (scene, line), versions in lines.items()]


def _typed(findings: list[Finding]) -> str:
    """Return how many different lines there are of each command; what needs a running container is not among them."""
    lines = {(f.scene, f.line) for f in findings}
    counts = Counter(_command(line) for _, line in lines)
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) + "."


def _command(line: str) -> str:
    """Return ``create job`` or ``get``: the command of a line, with what it creates, sets or asks."""
    words = line.split()
    second = words[1] if len(words) > 1 and words[1].isalpha() or "-" in "".join(words[1:2]).strip("-") else ""
    return f"{words[0]} {second}".strip() if words[0] in GROUPS and not second.startswith("-") else words[0]


def _share(findings: list[Finding]) -> str:
    return f"{sum(f.same for f in findings)} of {len(findings)}" if findings else "-"


def _differences(findings: list[Finding]) -> Iterable[str]:
    """Yield a line for each command that differs: with which kubectls, and why."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for finding in findings:
        if finding.known and not finding.same:
            found.setdefault((finding.scene, finding.line, finding.reason or NOT_YET), []).append(finding.version)
    for (scene, line, reason), versions in found.items():
        yield f"- {scene}: `kubectl {line}` ({', '.join(versions)}): {reason}"
