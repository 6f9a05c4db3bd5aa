"""Takes out of a transcript what no two runs of the same commands share: times, ages, uids, random names."""

from __future__ import annotations

import re

_SAFE = "bcdfghjklmnpqrstvwxz2456789"
_RULES = (
    (r"\b0x[0-9a-f]{8,}", "<pointer>"),
    (r"\b[0-9a-f]{64}\b", "<digest>"),
    (r"/tmp/transcripts-\w+/(left|right)/", "<home>/"),
    (r"(-edit-)\w+(\.yaml)", r"\1random\2"),
    (r"/tmp/[\w./-]*?([\w-]+\.yaml)", r"<folder>/\1"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", "<time>"),
    (r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "<time>"),
    (r"https://127\.0\.0\.1:\d+", "<server>"),
    (r"\b10(\.\d+){3}\b(?!/)", "<address>"),
    (r"gke-ml-prod-\S+-[0-9a-f]{8}-[a-z0-9]{4}\b", "<node>"),
    (rf"-[{_SAFE}]{{6,10}}-[{_SAFE}]{{5}}\b", "-<hash>-<random>"),
    (rf"(?<=[a-z>])-[{_SAFE}]{{5}}\b", "-<random>"),
    (rf"(?<=[a-z>])-(?=[a-z]*\d)[{_SAFE}]{{8,10}}\b", "-<hash>"),
    (rf"(pod-template-hash[=:] ?)\"?[{_SAFE}]{{6,10}}\"?", r"\1<hash>"),
    (r'"resourceVersion":"\d+"', '"resourceVersion":"<version>"'),
    (r"\b(resourceVersion:)\d+", r"\1<version>"),
    (r"(resourceVersion|resource version)(\"?: )\"\d+\"", r'\1\2"<version>"'),
    (r"(NodePort: .*?|nodePort: |:)3[0-2]\d{3}\b", r"\1<port>"),
    (r"\b([WEF])\d{4} [\d:.]+ +\d+ ", r"\1<time> "),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? \+0000", "<time>"),
    (r"\b\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\b", "<time>"),
    (r"(Created pod: \w+-\d)-\w{5}", r"\1-<random>"),
    (r"\.[0-9a-f]{16}\b", ".<event>"),
    (r"(\A|(?<=[ (]))(\d+[dhms])+ ago\b", "<age> ago"),
    (r"\(x\d+ over (\d+[dhms])+\)", "(repeated)"),
    (r"(?m)(?<!:  )(?<=  )(\d+[dhms]){1,2}(?=( |$))", "<age>"),
    (r"(?m)^(\d+[dhms]){1,2} ", "<age> "),
    (r"(Duration|Age|AGE): +(\d+[dhms])+", r"\1: <age>"),
    (r"(Resource Version:  +)\d+", r"\1<version>"),
    (r"(resource version to be \d+, was) \d+", r"\1 <version>"),
    (r"(LIVE|MERGED)-\d+", r"\1-<random>"),
    (r"containerd://[0-9a-f]{64}", "<container>"),
    (r"\bin [\d.]+m?s \([\d.]+m?s including waiting\)", "in <time>"),
    (r"\b127\.0\.0\.1\b(?!:)", "<address>"),
    (r"\beyJ[\w-]+\.[\w-]+\.[\w-]+", "<token>"),
)
_COMPILED = [(re.compile(pattern), text) for pattern, text in _RULES]
_STEPS = re.compile(r"^Waiting for deployment ")
_LEFT_OUT = (
    r"  kubelet  ",
    r"  PodReadyToStartContainers  ",
    r"kubelet, <node>",
    r"^ +Container ID:",
    r"^ +Image ID:",
    r"^ *Kubelet ",
    _STEPS.pattern,
)
_OF_KUBELETS = re.compile("|".join(_LEFT_OUT))


def normalise(text: str, namespace: str, *, kubelets: bool = False) -> str:
    """Return a command's output as every run of it should print it.

    Runs of spaces become two, so that a column's width, which follows from ages and names, does not matter; lines
    that only a kubelet is the author of are left out, because the real control plane runs without one (unless
    ``kubelets``), and so are the steps of a roll-out, of which kubectl prints as many as it happens to see.
    """
    text = re.sub(r"(?<=\S) {2,}", "  ", text.replace(namespace, "<namespace>"))
    for pattern, replacement in _COMPILED:
        text = pattern.sub(replacement, text)
    lines = [re.sub(r"(?<=\S) {2,}", "  ", line).rstrip() for line in text.splitlines()]
    left_out = _STEPS if kubelets else _OF_KUBELETS
    return "\n".join(line for line in lines if not left_out.search(line))
