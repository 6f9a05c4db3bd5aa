"""Terraform in containers: its language, its commands, its state, and what it refuses to be drawn into."""

import asyncio
import json
import time
from collections import OrderedDict

import pytest

from kubesim.shell.files import File
from kubesim.terraform import tool
from kubesim.terraform.fmt import formatted
from kubesim.terraform.schema import quantity
from kubesim.terraform.state import dump, parse, parsed_address
from kubesim.terraform.syntax import parse as parse_file
from kubesim.terraform.worker import HARD_CPU_S
from kubesim.tests.shell_world import machine, run

LANGUAGE = r"""
variable "team" {
  type = object({ name = string, size = optional(number, 3), tags = optional(list(string), ["a"]) })
}
variable "count" { default = "2" }
locals {
  names  = [for i in range(3) : "n-${i}"]
  squares = { for i, name in local.names : name => i * i if i > 0 }
  groups = { for name in local.names : substr(name, 2, 1) == "0" ? "first" : "rest" => name... }
  people = [{ name = "ada", age = 36 }, { name = "bob", age = 41 }]
  text   = <<-EOT
      ${join(";", local.names)}
    done
  EOT
}
output "team" { value = var.team }
output "squares" { value = local.squares }
output "groups" { value = local.groups }
output "splat" { value = local.people[*].name }
output "text" { value = local.text }
output "condition" { value = var.count > 1 ? "many" : "one" }
output "merged" { value = merge({ a = 1 }, { b = 2 }, { a = 3 }) }
output "tried" { value = [try(local.people[7].name, "nobody"), can(regex("^a", "b")), coalesce(null, "", "x")] }
output "set" { value = toset(["b", "a", "b"]) }
output "encoded" { value = jsonencode({ b = [1, true, null], a = "<" }) }
output "net" { value = [cidrhost("10.0.0.0/24", 5), cidrsubnet("10.0.0.0/16", 8, 2)] }
output "format" { value = format("%03d %s %q %5.1f", 7, "x", "y", 2.25) }
output "escaped" { value = "$${a} %%{b} \"\u00e9\"" }
output "math" { value = [7 / 2, 7 % 3, -(2 + 3), 6 / 3, !false && (1 != 2)] }
output "looked" { value = lookup({ a = 1 }, "z", 9) }
output "yaml" { value = yamldecode("a: [1, {b: c}]") }
"""


ANSWERS = {
    "team": {"name": "vision", "size": 3, "tags": ["a"]},
    "squares": {"n-1": 1, "n-2": 4},
    "groups": {"first": ["n-0"], "rest": ["n-1", "n-2"]},
    "splat": ["ada", "bob"],
    "text": "  n-0;n-1;n-2\ndone\n",
    "condition": "many",
    "merged": {"a": 3, "b": 2},
    "tried": ["nobody", False, "x"],
    "set": ["a", "b"],
    "encoded": '{"a":"\\u003c","b":[1,true,null]}',
    "net": ["10.0.0.5", "10.0.2.0/24"],
    "format": '007 x "y"   2.2',
    "escaped": '${a} %{b} "\u00e9"',
    "math": [3.5, 1, -5, 2, True],
    "looked": 9,
    "yaml": {"a": [1, {"b": "c"}]},
}
ROLE = """
resource "kubernetes_cluster_role_v1" "this" {
  metadata {
    name = "reader"
  }
  %s
}
"""
LOCK = 'provider "registry.terraform.io/hashicorp/kubernetes" {\n}\n'
HOSTILE = {
    "a million instances": (
        'resource "kubernetes_cluster_role_v1" "this" {\n  count = 1000000\n  metadata {}\n}',
        "at most 500",
    ),
    "deep nesting": ("locals {\n  a = " + "[" * 5000 + "]" * 5000 + "\n}", "nested too deeply"),
    "text without end": (
        "locals {\n"
        + "".join(f'  a{at + 1} = "${{local.a{at}}}${{local.a{at}}}"\n' for at in range(40))
        + '  a0 = "xxxxxxxx"\n}\noutput "a" {\n  value = length(local.a40)\n}',
        "longer than 1 MiB",
    ),
    "a module that calls itself": ('module "again" {\n  source = "./"\n}', "Too many module calls"),
    "a file of the host": ('output "a" {\n  value = file("/etc/passwd")\n}', "outside of the workspace"),
    "a program as data source": (
        'data "external" "this" {\n  program = ["id"]\n}',
        'data source "external" is not supported',
    ),
    "a provisioner": (ROLE % 'provisioner "local-exec" {\n    command = "id"\n  }', "Provisioners are not supported"),
    "an expression that backtracks": (
        'output "a" {\n  value = regex("(a+)+$", "' + "a" * 40 + 'b")\n}',
        "than practice clusters grant",
    ),
    "aliases without end": (
        'output "a" {\n  value = yamldecode(<<-EOT\n    a0: &a0 [x, x]\n'
        + "".join(f"    a{at + 1}: &a{at + 1} [*a{at}, *a{at}, *a{at}, *a{at}]\n" for at in range(20))
        + "  EOT\n  )\n}",
        "too many elements",
    ),
    "half a pair of surrogates": (
        'output "a" {\n  value = regex("b", "\\ud800\\U00110000")\n}',
        "did not match any part",
    ),
}
BROKEN = {
    "terraform.tfstate": '{"version": 4, "serial": 1, "lineage": "x", "resources": [], "outputs": {"a": 7}}',
    ".terraform/modules/modules.json": "[]",
    ".terraform/terraform.tfstate": '{"backend": 7}',
}


async def terraform(script, files):
    """Run a script in a folder with these files, where Terraform is at hand."""
    made = machine("debian")
    made.files.walk("/usr/bin").node.put("terraform", File(program="gnu:terraform", mode=0o755))
    for name, text in files.items():
        made.files.walk("/tmp/w").node.put(name, File(data=text.encode()))
    return await run(script, made=made)


async def test_the_language_means_what_it_means_to_terraform():
    files = {"main.tf": LANGUAGE, "terraform.tfvars": 'team = { name = "vision" }\n'}
    text, status = await terraform("terraform apply -auto-approve > log; terraform output -json", files)
    assert status == 0, text
    assert {name: each["value"] for name, each in json.loads(text).items()} == ANSWERS


KEYED = """variable "sizes" { type = map(number) }
module "each" {
  source   = "./each"
  for_each = var.sizes
  size     = each.value
}
output "a" { value = module.each["a"].twice }
"""


async def test_one_of_several_instances_is_named_by_its_key():
    files = {"main.tf": KEYED, "terraform.tfvars": "sizes = { a = 2 }\n"}
    inner = 'variable "size" {}\noutput "twice" {\n  value = var.size * 2\n}\n'
    script = f"mkdir each; printf '%s' '{inner}' > each/main.tf; terraform init > log; "
    text, _ = await terraform(f"{script}terraform apply -auto-approve > log; terraform output a", files)
    assert text == "4\n"
    files["main.tf"] = KEYED.replace('["a"]', '["b"]') + 'output "b" {\n  value = var.sizes["c"]\n}\n'
    text, _ = await terraform(f"{script}terraform plan -no-color", files)
    assert "Error: Invalid index" in text
    assert "var.sizes is map of number with 1 element" in text


async def test_outputs_are_planned_kept_in_a_file_and_shown():
    files = {"main.tf": 'output "a" {\n  value = { b = 1 }\n}\n'}
    script = "terraform plan -no-color; terraform apply -no-color -auto-approve; terraform plan -no-color"
    text, _ = await terraform(f"{script}; terraform output a; cat terraform.tfstate", files)
    assert "Changes to Outputs:\n  + a = {\n      + b = 1\n    }" in text
    assert "Apply complete! Resources: 0 added, 0 changed, 0 destroyed." in text
    assert "and found no differences, so no changes are needed." in text
    state = json.loads(text[text.index('{\n  "version"') :])
    assert (state["version"], state["terraform_version"], state["serial"]) == (4, "1.11.4", 1)
    assert state["outputs"] == {"a": {"value": {"b": 1}, "type": ["object", {"b": "number"}]}}


async def test_an_apply_waits_for_yes():
    files = {"main.tf": 'output "a" {\n  value = 1\n}\n'}
    text, _ = await terraform("echo no | terraform apply -no-color; echo $?; ls", files)
    assert "Only 'yes' will be accepted to approve." in text
    assert text.endswith("\nApply cancelled.\n1\nmain.tf\n")


async def test_who_interrupts_an_apply_gets_it_ended_in_order():
    files = {"main.tf": 'output "a" {\n  value = 1\n}\n'}
    text, _ = await terraform("sleep 3 | timeout -s INT 1 terraform apply -no-color; echo $?; ls", files)
    assert "Interrupt received." in text
    assert "execution halted" in text
    assert text.endswith("124\nmain.tf\n")


async def test_a_saved_plan_is_applied_once():
    files = {"main.tf": 'output "a" {\n  value = 1\n}\n'}
    script = "terraform plan -out p > log; rm main.tf; terraform apply -no-color p; terraform apply -no-color p"
    text, status = await terraform(script, files)
    assert "a = 1" in text
    assert status == 1
    assert "Saved plan is stale" in text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('output "a" {\n  value = var.nope\n}\n', "Reference to undeclared input variable"),
        ('output "a" {\n  value = nosuch(1)\n}\n', 'There is no function named "nosuch".'),
        ("locals {\n  a = local.b\n  b = local.a\n}\n", "Cycle: local.a (expand), local.b (expand)"),
        ('resource "aws_instance" "a" {}\n', 'The resource type "aws_instance" is not supported on practice'),
        ('output "a" {\n  value = 1\n', "Unclosed configuration block"),
        (ROLE % "nope = 1", 'An argument named "nope" is not expected here.'),
        ('output "a" {\n  value = "%{if true}a%{endif}"\n}\n', "Unsupported template directive"),
        ('variable "a" {\n  sensitive = true\n}\n', "Sensitive values are not supported on practice clusters."),
        ('import {\n  to = a.b\n  id = "c"\n}\n', "Import blocks are not supported on practice clusters."),
    ],
)
async def test_a_mistake_is_told_with_its_line(text, problem):
    said, status = await terraform("terraform validate -no-color", {"main.tf": text, ".terraform.lock.hcl": LOCK})
    assert status == 1
    assert problem in " ".join(said.split()).replace("│ ", "")
    assert "main.tf line" in said or "Cycle" in said


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_workspace_ends_in_a_clear_error(name, monkeypatch):
    text, problem = HOSTILE[name]
    began, runs, work = time.process_time(), [], tool._Run._work
    monkeypatch.setattr(tool._Run, "_work", lambda self: runs.append(self) or work(self))
    said, status = await terraform("terraform plan -no-color", {"main.tf": text, ".terraform.lock.hcl": LOCK})
    assert status == 1
    assert problem in " ".join(said.replace("│", "").split()), said[:600]
    assert "root:" not in said
    assert time.process_time() - began < 0.4  # here, where the cluster runs; the worker has a time of its own
    assert runs[0].used <= HARD_CPU_S == 2


@pytest.mark.parametrize("path", BROKEN)
async def test_a_file_of_its_own_that_somebody_has_broken_is_told(path):
    script = f"mkdir a; touch a/main.tf; terraform init > log; printf '%s' '{BROKEN[path]}' > {path}"
    files = {"main.tf": 'module "a" {\n  source = "./a"\n}\n'}
    text, status = await terraform(f"{script}; terraform plan -no-color", files)
    assert (status, "is not as Terraform writes it" in " ".join(text.replace("│", "").split())) == (1, True)


async def test_a_link_leads_no_file_of_elsewhere_into_the_code():
    files = {"main.tf": 'output "a" {\n  value = file("b/hostname")\n}\n'}
    text, status = await terraform("ln -s /etc b; terraform plan -no-color", files)
    assert (status, "files outside of the workspace" in " ".join(text.replace("│", "").split())) == (1, True)


async def test_a_cluster_runs_only_so_many_at_a_time(monkeypatch):
    running, most, work = 0, 0, tool._Run._work

    async def counted(self):
        nonlocal running, most
        running, most = running + 1, max(most, running + 1)
        try:
            return await work(self)
        finally:
            running -= 1

    monkeypatch.setattr(tool._Run, "_work", counted)
    made = machine("debian")
    made.files.walk("/usr/bin").node.put("terraform", File(program="gnu:terraform", mode=0o755))
    made.share.terraforms = asyncio.Semaphore(2)
    text, _ = await run("for i in 1 2 3 4; do terraform fmt & done; wait; echo done", made=made)
    assert (most, text.endswith("done\n")) == (2, True)


async def test_it_works_again_once_the_parent_of_its_processes_has_gone():
    text, _ = await terraform("terraform fmt -check", {"main.tf": "a = 1\n"})
    parent = tool.workers._parent
    assert (text, parent.poll()) == ("", None)
    parent.kill()
    parent.wait()
    text, status = await terraform("terraform fmt", {"main.tf": "a=1\n"})
    assert (text, status) == ("main.tf\n", 0)
    assert tool.workers._parent is not parent


async def test_a_run_that_nobody_waits_for_ends():
    ours = tool.workers.connect()
    ours.sendall(json.dumps({"argv": ["fmt", "-"], "folder": "/", "environment": {}, "width": 78}).encode() + b"\n")
    asked = await asyncio.to_thread(ours.recv, 4096)
    children = tool.Path(f"/proc/{tool.workers._parent.pid}/task/{tool.workers._parent.pid}/children")
    assert (asked != b"", len(children.read_text().split())) == (True, 1)
    ours.close()
    while children.read_text().split():
        await asyncio.sleep(0.01)


async def test_parsed_files_are_kept_up_to_a_size(monkeypatch):
    monkeypatch.setattr(tool, "MAX_CACHED", 100)
    monkeypatch.setattr(tool, "_files", OrderedDict())
    keep = tool._Run(machine("toolbox"))._parsed
    for digest, size in (("a", 40), ("b", 40), ("c", 40), ("d", 400)):
        await keep(digest, "x" * size)
        assert sum(map(len, tool._files.values())) <= 100
    assert not tool._files
    await keep("e", "x")
    assert [*tool._files] == ["e"]


async def test_what_is_not_supported_is_refused_by_name():
    text, status = await terraform("terraform console", {})
    assert (text, status) == ('The command "terraform console" is not supported on practice clusters.\n', 1)


def test_files_are_formatted_as_terraform_formats_them():
    text = 'resource "a"   "b" {\na=1\n  longer = [ 1,2 ] # c\n\n  blk{\nz = merge( {a=1},{\nb = 2\n})\n}\n}\n'
    wanted = 'resource "a" "b" {\n  a      = 1\n  longer = [1, 2] # c\n\n  blk {\n'
    wanted += "    z = merge({ a = 1 }, {\n      b = 2\n    })\n  }\n}\n"
    assert formatted(text) == wanted


def test_a_state_is_written_as_it_was_read():
    instance = {"index_key": "a", "schema_version": 0, "attributes": {"id": "x"}, "sensitive_attributes": []}
    group = {"module": 'module.m["k"]', "mode": "managed", "type": "kubernetes_role_v1", "name": "r"}
    group |= {"provider": 'provider["registry.terraform.io/hashicorp/kubernetes"]', "instances": [instance]}
    state = {
        "version": 4,
        "terraform_version": "1.11.4",
        "serial": 3,
        "lineage": "l",
        "outputs": {},
        "resources": [group],
    }
    assert json.loads(dump(parse(json.dumps(state)))) == {**state, "check_results": None}


def test_addresses_are_taken_apart():
    assert parsed_address('module.a["x.y"].module.b[0].data.t.n["k"]') == (
        'module.a["x.y"].module.b[0]',
        "data",
        "t",
        "n",
        "k",
    )
    assert parsed_address("t.n[2]") == ("", "managed", "t", "n", 2)
    assert parsed_address("module.a") is None


def test_quantities_of_one_amount_are_the_same():
    assert quantity("1Gi") == quantity("1024Mi") != quantity("1G")
    assert quantity("500m") == quantity("0.5")
    assert quantity("much") is None


def test_a_file_is_parsed_with_the_places_of_its_parts():
    body = parse_file('a = 1\nb "c" {\n  d = x.y\n}\n', "f.tf")
    kind, labels, span, inner = body["blocks"][0]
    assert (kind, labels, span[0]) == ("b", ["c"], 2)
    assert inner["attrs"]["d"][1][1] == [3, 7, 3, 10]
