"""Compare the toolbox's Terraform with a real one, command by command, and write ``docs/parity-terraform.md``.

``TF_PLUGIN_DIR=... python -m kubesim.tests.contract.terraform_parity`` starts two practice clusters, one for each.
"""

from __future__ import annotations

import difflib
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from kubesim.tests.contract.plain import Plain
from kubesim.tests.contract.terraform import Terraform, terraform_in
from kubesim.tests.contract.terraform_toolbox import toolbox
from kubesim.tests.live import serving

ROOT = Path(__file__).parents[3]
TARGET = ROOT / "docs" / "parity-terraform.md"
GPUS = 'module.tenant["tenant-a"].kubernetes_resource_quota_v1.gpus'
LAUNCHER = "kubernetes_cluster_role_v1.job_launcher"
QUOTA = "/api/v1/namespaces/tenant-b/resourcequotas/gpus"
TENANTS = 'tenants = {{\n  tenant-a = {{ team = "vision", gpus = {a}, developers = ["vision"] }}\n{more}}}\n'
B = '  tenant-b = { team = "speech", gpus = 4 }\n'
C = '  tenant-c = { team = "robots", gpus = 1, external_ranges = [] }\n'
PROGRESS = re.compile(
    r"(: (Refreshing state|Reading|Read complete|Creating|Creation|Modif|Destr|Still )|^- (Installed|Installing))"
)
REASONS = {
    "init": "the provider comes from a mirror here, unsigned, of which real Terraform warns",
    "show without a state": "an empty line",
    "plan before init": "the paragraph is broken into lines elsewhere",
    "plan with a wrong value": "real Terraform lets a value that fails in one instance of a module stop all of them",
    "plan with too many GPUs": "the summary of what was planned before the mistake is left out",
    "apply -target": "lines of progress stand in another order",
}
"""Why a command's output differs."""

Step = tuple[str, Callable[[Path, Plain], None] | None, tuple[str, ...]]


def tfvars(text: str) -> Callable[[Path, Plain], None]:
    return lambda folder, cluster: void((folder / "terraform.tfvars").write_text(text))


def file(name: str, text: str) -> Callable[[Path, Plain], None]:
    return lambda folder, cluster: void((folder / name).write_text(text))


def gone(name: str) -> Callable[[Path, Plain], None]:
    return lambda folder, cluster: (folder / name).unlink()


def drift(folder: Path, cluster: Plain) -> None:
    wrong = {"spec": {"hard": {"requests.nvidia.com/gpu": "8"}}}
    cluster("PATCH", QUOTA, wrong, kind="application/merge-patch+json")


def void(_: object) -> None:
    """Return nothing of a value."""


def mistakes() -> Iterator[Step]:
    """Yield plans of code with a mistake each."""
    found = {
        "an undeclared variable": 'output "x" {\n  value = var.nope\n}\n',
        "an undeclared local value": 'output "x" {\n  value = local.nope\n}\n',
        "an undeclared resource": 'output "x" {\n  value = kubernetes_role_v1.nope.id\n}\n',
        "an undeclared module": "locals {\n  x = module.nope.y\n}\n",
        "an argument that there is not": 'resource "kubernetes_role_v1" "x" {\n  metadata {\n    nope = 1\n  }\n'
        "  rule {\n"
        '    api_groups = [""]\n    resources  = ["pods"]\n    verbs      = ["get"]\n  }\n}\n',
        "a block that there is not": 'resource "kubernetes_cluster_role_v1" "x" {\n  metadata {}\n  nope {}\n}\n',
        "a missing block": 'resource "kubernetes_cluster_role_v1" "x" {\n}\n',
        "a missing argument": 'resource "kubernetes_cluster_role_v1" "x" {\n  metadata {}\n  rule {}\n}\n',
        "a wrong type": 'resource "kubernetes_cluster_role_v1" "x" {\n  metadata {\n    labels = "a"\n  }\n}\n',
        "a count of text": 'resource "kubernetes_cluster_role_v1" "x" {\n  count = "many"\n  metadata {}\n}\n',
        "for_each over a list": 'resource "kubernetes_cluster_role_v1" "x" {\n  for_each = ["a"]\n  metadata {}\n}\n',
        "an index too large": "locals {\n  x = [1, 2][5]\n}\noutput \"x\" {\n  value = local.x\n}\n",
        "a block that does not end": 'output "x" {\n  value = 1\n',
        "two outputs of a name": 'output "gpus" {\n  value = 1\n}\n',
        "a circle": "locals {\n  x = local.y\n  y = local.x\n}\n",
    }  # fmt: skip
    for name, text in found.items():
        yield f"plan: {name}", file("mistake.tf", text), ("plan",)
    yield "validate: the last of these", None, ("validate",)


STEPS: list[Step] = [
    ("version", None, ("version",)),
    ("fmt -check", None, ("fmt", "-check")),
    ("validate before init", tfvars(TENANTS.format(a=4, more=B)), ("validate",)),
    ("plan before init", None, ("plan",)),
    ("init", None, ("init",)),
    ("init once more", None, ("init",)),
    ("validate", None, ("validate",)),
    ("output without a state", None, ("output",)),
    ("show without a state", None, ("show",)),
    ("state list without a state", None, ("state", "list")),
    ("plan", None, ("plan",)),
    ("plan -target", None, ("plan", f"-target={GPUS}")),
    ("plan -var of no variable", None, ("plan", "-var=nope=1")),
    ("plan -var-file that is missing", None, ("plan", "-var-file=nope.tfvars")),
    ("plan with a wrong value", tfvars(TENANTS.format(a=2.5, more=B)), ("plan",)),
    ("plan with too many GPUs", tfvars(TENANTS.format(a=16, more=B)), ("plan",)),
    ("plan -out", tfvars(TENANTS.format(a=4, more=B)), ("plan", "-out=p")),
    ("show of a plan", None, ("show", "p")),
    ("apply of a plan", None, ("apply", "p")),
    ("apply of a plan once more", None, ("apply", "p")),
    ("plan without a change", None, ("plan",)),
    ("plan -detailed-exitcode", None, ("plan", "-detailed-exitcode")),
    ("apply without a change", None, ("apply", "-auto-approve")),
    ("output", None, ("output",)),
    ("output -json", None, ("output", "-json")),
    ("output of a name", None, ("output", "job_launcher")),
    ("output -raw", None, ("output", "-raw", "job_launcher")),
    ("output -raw of an object", None, ("output", "-raw", "gpus")),
    ("output -json of a name", None, ("output", "-json", "gpus")),
    ("output that there is not", None, ("output", "nope")),
    ("state list", None, ("state", "list")),
    ("state list of a module", None, ("state", "list", 'module.tenant["tenant-a"]')),
    ("state show", None, ("state", "show", GPUS)),
    ("state show of nothing", None, ("state", "show", "kubernetes_role_v1.nope")),
    ("show", None, ("show",)),
    ("plan of a change", tfvars(TENANTS.format(a=1, more=B)), ("plan",)),
    ("apply -target", None, ("apply", "-auto-approve", f"-target={GPUS}")),
    ("plan of outputs alone", None, ("plan",)),
    ("apply of outputs alone", None, ("apply", "-auto-approve")),
    ("plan after drift", drift, ("plan",)),
    ("plan -refresh-only", None, ("plan", "-refresh-only")),
    ("apply -refresh-only", None, ("apply", "-refresh-only", "-auto-approve")),
    ("apply after drift", None, ("apply", "-auto-approve")),
    ("plan of another tenant", tfvars(TENANTS.format(a=1, more=B + C)), ("plan",)),
    ("apply of another tenant", None, ("apply", "-auto-approve")),
    ("plan with a tenant less", tfvars(TENANTS.format(a=1, more=C)), ("plan",)),
    ("apply with a tenant less", None, ("apply", "-auto-approve")),
    ("plan -replace", None, ("plan", f"-replace={LAUNCHER}")),
    ("state rm -dry-run", None, ("state", "rm", "-dry-run", LAUNCHER)),
    ("state rm", None, ("state", "rm", LAUNCHER)),
    ("state rm of nothing", None, ("state", "rm", LAUNCHER)),
    ("plan of what was forgotten", None, ("plan", f"-target={LAUNCHER}")),
    ("import", None, ("import", LAUNCHER, "job-launcher")),
    ("import once more", None, ("import", LAUNCHER, "job-launcher")),
    ("import of nothing", None, ("import", "kubernetes_role_v1.nope", "x")),
    *mistakes(),
    ("fmt -diff", file("mistake.tf", "locals {\nx=1\n  long = [1,2]\n}\n"), ("fmt", "-list=false")),
    ("apply without a terminal", None, ("apply",)),
    ("plan -destroy", gone("mistake.tf"), ("plan", "-destroy")),
    ("destroy", None, ("destroy", "-auto-approve")),
    ("destroy once more", None, ("destroy", "-auto-approve")),
    ("a command that there is not", None, ("aply",)),
]  # fmt: skip


def normalized(text: str) -> list[str]:
    """Return the lines of an output without what differs between any two runs; what happens at once is sorted."""
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "UID", text)
    text = re.sub(r"(after|elapsed:?) \d+s", r"\1 0s", text)
    text = re.sub(r'(resource_version += )"\d+"( -> "\d+")?', r'\1"N"', text)
    text = re.sub(r' Did you mean "[^"]*"\?', "", text)
    text = re.sub(r"(?<=Cycle: ).+", lambda found: ", ".join(sorted(found[0].split(", "))), text)
    lines: list[str] = []
    run: list[str] = []
    for line in text.splitlines():
        if PROGRESS.search(line):
            run.append(line)
            continue
        lines += sorted(run)
        run = []
        lines.append(line.rstrip())
    return [*lines, *sorted(run)]


def compared() -> Iterator[tuple[str, list[str]]]:
    """Yield each command's name and how the outputs differ, as lines of a diff."""
    with (
        tempfile.TemporaryDirectory() as place,
        serving(Path(place, "a"), nodes=1) as one,
        serving(Path(place, "b"), nodes=1) as other,
    ):
        sides = []
        for name, live in (("real", one), ("toolbox", other)):
            folder = Path(place, name)
            shutil.copytree(ROOT / "deploy" / "terraform", folder, ignore=shutil.ignore_patterns(".terraform*"))
            cluster = Plain("kubesim", live.kubeconfig)
            cluster("POST", "/api/v1/namespaces", {"metadata": {"name": "platform"}})
            sides.append((folder / "tenants", live.kubeconfig, cluster))
        real = terraform_in(sides[0][0], sides[0][1])
        for name, change, arguments in STEPS:
            for folder, _, cluster in sides:
                if change is not None:
                    change(folder, cluster)
            yield name, _difference(real, sides[1], arguments)


def _difference(real: Terraform, side: tuple[Path, Path, Plain], arguments: tuple[str, ...]) -> list[str]:
    more = (f"-plugin-dir={real.plugins}",) if arguments[0] == "init" else ()
    wanted, found = real.run(*arguments, *more), toolbox(side[0], side[1], *arguments)
    texts = [normalized(f"{done.stdout}{done.stderr}\nstatus {done.returncode}") for done in (wanted, found)]
    return [
        line for line in difflib.unified_diff(*texts, lineterm="", n=0) if not line.startswith(("---", "+++", "@@"))
    ]


def page(rows: list[tuple[str, list[str]]]) -> str:
    """Return the text of the page."""
    same = sum(not lines for _, lines in rows)
    text = [
        "# The toolbox's Terraform beside a real one", "",
        "`terraform` in the toolbox of practice clusters is an interpreter (`kubesim/terraform/`). These",
        "commands ran in order on the tenants of `deploy/terraform`: Terraform 1.11.4, hashicorp/kubernetes 3.2 on",
        "one practice cluster, the toolbox's on another. Outputs are compared by line, without identifiers,",
        "versions of objects and seconds; lines of progress, whose order is chance, are sorted.",
        "`TF_PLUGIN_DIR=... python -m kubesim.tests.contract.terraform_parity` makes this page.", "",
        f"**{same} of {len(rows)} commands say the same ({100 * same // len(rows)} %).**", "",
        "| command | same | what differs, and why |", "| --- | --- | --- |",
    ]  # fmt: skip
    text += [f"| {name} | {'no' if lines else 'yes'} | {_why(name, lines)} |" for name, lines in rows]
    return "\n".join(text) + "\n"


def _why(name: str, lines: list[str]) -> str:
    if not lines:
        return ""
    shown = "; ".join(f"`{line.replace('|', '¦').replace('`', '')[:90]}`" for line in lines[:2])
    more = f" and {len(lines) - 2} lines more" if len(lines) > 2 else ""
    return f"{REASONS.get(name, 'not imitated')}: {shown}{more}"


def main() -> None:
    """Compare, and write the page."""
    rows = []
    for name, lines in compared():
        rows.append((name, lines))
        sys.stdout.write(
            f"{'DIFFERS' if lines else 'same   '} {name}\n" + "".join(f"    {line}\n" for line in lines[:12])
        )
        sys.stdout.flush()
    TARGET.write_text(page(rows))


if __name__ == "__main__":
    main()
