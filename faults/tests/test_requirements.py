"""Requirements of packs: read, compared with clusters and with each other, and made into practice clusters."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from itertools import cycle, permutations

import pytest
import yaml

from faults import clashes, packs, practice_shape
from faults.errors import FaultError
from faults.inventory import Inventory, gpus_taken_on, lacking, lacks
from faults.packs import Pack, PackError
from faults.practice_shape import PRODUCT_LABELS, USUAL, shape_for
from faults.services.requirements import choose_values, refusal_together
from faults.tests.variants import CATALOG, PACKS

FILES = packs.load_folder(CATALOG / "architecture-mismatch")
WHOLE = yaml.safe_load(FILES["scenario.yaml"])
KEPT = (
    "schema",
    "slug",
    "version",
    "title",
    "category",
    "difficulty",
    "minutes",
    "tags",
    "source",
    "requires",
    "variants",
)
DOCUMENT = {
    **{name: WHOLE[name] for name in (*KEPT, "namespaces", "inject", "solutions")},
    **{name: WHOLE[name][:1] for name in ("symptom", "checks", "rubric")},  # half of the time to read it
    "guards": [],
    "hints": [],
}
FILES = {name: text for name, text in FILES.items() if "/" not in name or name in json.dumps(DOCUMENT)}
T4 = {"name": "small", "count": 2, "gpus": 2, "products": ["T4", "V100"]}
TAINT = {"key": "team", "value": "vision", "effect": "NoSchedule"}
MIG = {"name": "cut", "count": 1, "gpus": 2, "products": ["A100"], "mig": "all-1g.10gb"}


def made(*, title="One", namespace="", requires=None, **more) -> Pack:
    """Return a pack like the catalogue's first, with other requirements; in ``namespace``, it meets no other."""
    document = copy.deepcopy(DOCUMENT) | {"title": title, **more}
    document["requires"] = {
        "tiers": ["practice", "dedicated"],
        "agent": False,
        **(requires or {"nodes": 1, "gpus": 1}),
    }
    document["namespaces"] = {"workloads": namespace or "ml-training"}
    return packs.parse(FILES | {"scenario.yaml": json.dumps(document)})


def node(name, gpus=8, product="NVIDIA-H100-80GB-HBM3", *, labels=None, taints=(), closed=False):
    own = {"nvidia.com/gpu.product": product} if gpus else {}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **own, **(labels or {})}},
        "spec": {"taints": list(taints), "unschedulable": closed},
        "status": {"allocatable": {"cpu": "8", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}},
    }


def found(*nodes, groups=(), is_monitored=True, namespaces=()) -> Inventory:
    spaces = [{"metadata": {"name": name}} for name in namespaces]
    taken = Inventory.of(nodes, groups, is_monitored=is_monitored, namespaces=spaces)
    return Inventory.load(taken.dump())


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"requires": {"nodes": 1}}, "requires"),
        ({"requires": {"max-gpus": 8}}, "requires"),
        ({"requires": {"pools": []}}, "requires.pools"),
        ({"requires": {"pools": [T4, T4]}}, "requires.pools.1.name the name small is there twice"),
        ({"requires": {"pools": [{**T4, "colour": "red"}]}}, "requires.pools.0"),
        ({"requires": {"pools": [{**T4, "mig": "half"}]}}, "requires.pools.0.mig"),
        ({"requires": {"pools": [{**T4, "taints": [{"key": "a", "effect": "Never"}]}]}}, "pools.0.taints.0.effect"),
        ({"requires": {"nodes": 1, "gpus": 1, "addons": ["toaster"]}}, "requires.addons.0"),
        ({"requires": {"nodes": 1, "gpus": 1, "no-labels": ["a"]}}, "requires.no-labels.0"),
        ({"requires": {"nodes": 1, "gpus": 1, "toolbox-gpu": []}}, "requires.toolbox-gpu"),
        (
            {"requires": {"nodes": 1, "gpus": 1, "tiers": ["shared"], "toolbox-gpu": ["T4"]}},
            "requires.toolbox-gpu takes a node, which nobody has to themselves on shared clusters",
        ),
        ({"cluster-values": {"node": {"pool": "small"}}}, "cluster-values.node.pool there is no pool small"),
        ({"cluster-values": {"node": {}}}, "cluster-values.node"),
        (
            {"requires": {"pools": [T4]}, "cluster-values": {"zone": {"label": "zone", "node": "none"}}},
            "cluster-values.zone.node none is not the name of a value with a pool",
        ),
        (
            {"requires": {"pools": [T4]}, "cluster-values": {name: {"pool": "small"} for name in "abc"}},
            "cluster-values.small there are more values than the 2 nodes",
        ),
    ],
)
def test_requirements_that_make_no_sense_are_refused_with_their_place(change, where):
    with pytest.raises(PackError) as refused:
        made(**change)
    assert where in f"{refused.value.where} {refused.value.message}"


def test_a_cluster_is_compared_with_everything_that_a_pack_requires():
    pool = {"name": "large", "count": 2, "gpus": 4, "labels": {"tier": "big"}, "taints": [TAINT]}
    pack = made(requires={"pools": [pool, T4, {"name": "cpu", "count": 1, "gpus": 0}], "addons": ["mpi-operator"]})
    big = {"labels": {"tier": "big"}, "taints": [TAINT]}
    good = [node("a", 4, **big), node("b", 8, **big), node("c", 2, "Tesla-T4"), node("d", 4, "Tesla-V100-SXM2-16GB")]
    cpu = node("e", 0)
    assert [*lacking(found(*good, cpu, groups=["kubeflow.org"]), pack.requires)] == []
    wrong = [node("a", 4, **big), node("b", 8, labels={"tier": "big"}), node("c", 2, "Tesla-T4"), node("x", 2)]
    wrong.append(node("closed", 4, "Tesla-T4", closed=True))
    assert [*lacking(found(*wrong), pack.requires)] == [
        "2 nodes with at least 4 GPUs each, the label tier=big, the taint team=vision:NoSchedule; there is 1",
        "2 nodes with at least 2 GPUs each (T4 or V100); there is 1",
        "1 node without GPUs; there are none",
        "the addon mpi-operator (the API group kubeflow.org); it is missing",
    ]
    sentence = lacks(found(*good), [pack], "the cluster lab-1")
    assert sentence == "“One” needs 1 node without GPUs; there are none in the cluster lab-1."


def test_a_missing_prometheus_and_a_missing_namespace_are_said_in_words():
    pack = made(requires={"nodes": 1, "gpus": 1, "addons": ["monitoring"]}, existing=["observability"])
    with_all = found(node("a"), namespaces=["default", "observability"])
    assert lacks(with_all, [pack], "lab") == ""
    assert lacks(found(node("a"), namespaces=["default"]), [pack], "lab") == (
        "“One” needs the namespace observability; it is missing in lab."
    )
    assert "needs a Prometheus, known by its service's labels" in lacks(
        found(node("a"), is_monitored=False, namespaces=["observability"]), [pack], "lab"
    )


def test_what_an_earlier_version_has_kept_of_a_cluster_is_still_read():
    kept = {"nodes": [{"gpus": 8, "labels": {}, "taints": [], "count": 1}], "groups": ["apps"]}
    pack = made(requires={"nodes": 1, "gpus": 1, "addons": ["monitoring"]}, existing=["observability"])
    assert lacks(Inventory.load(kept), [pack], "lab") == ""


def test_nodes_that_keep_pods_away_are_none_but_for_the_taint_of_gpu_nodes():
    pack = made(requires={"nodes": 1, "gpus": 8})
    kept = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    assert not [*lacking(found(node("a", taints=[kept])), pack.requires)]
    assert not [*lacking(found(node("a", taints=[{**TAINT, "effect": "PreferNoSchedule"}])), pack.requires)]
    assert [*lacking(found(node("a", taints=[TAINT])), pack.requires)]


def test_partitioned_gpus_are_for_packs_that_ask_for_them():
    product, label = "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", {"nvidia.com/mig.config": "all-1g.10gb"}
    cut, whole = node("a", 14, product, labels=label), node("a", 8, "NVIDIA-A100-SXM4-80GB")
    asked, plain = made(requires={"pools": [MIG]}).requires, made(requires={"pools": [{**MIG, "mig": "all-2g.20gb"}]})
    assert not [*lacking(found(cut), asked)]
    assert [*lacking(found(whole), asked)]
    assert [*lacking(found(cut), plain.requires)]
    assert [*lacking(found(cut), made().requires)]


def test_what_must_be_had_nowhere_is_found_anywhere():
    pack = made(requires={"nodes": 1, "gpus": 1, "max-gpus": 8, "no-labels": ["tier=big"]})
    assert not [*lacking(found(node("a")), pack.requires)]
    assert [*lacking(found(node("a"), node("b", 16, labels={"tier": "big"})), pack.requires)] == [
        "no node with more than 8 GPUs; there is one with 16",
        "no node with the label tier=big; there is one",
    ]


def test_the_inventory_of_a_large_cluster_stays_small():
    inventory = found(*[node(f"n-{at}", 1 + at % 4) for at in range(2000)], groups=["apps"])
    assert [kind.count for kind in inventory.nodes] == [500] * 4
    kinds = [node(f"n-{at}", labels={"rack": str(at)}) for at in range(500)]
    assert len(found(*kinds).nodes) == 200


def test_what_needs_nothing_special_takes_the_cluster_that_is_kept_ready():
    usual = {"nodes": 3, "gpus": 8, "addons": practice_shape.ADDONS}
    assert shape_for([]).dump() == shape_for([made(), made(requires={"nodes": 3, "gpus": 8})]).dump() == usual
    pool = {"name": "big", "count": 2, "gpus": 4, "products": ["A100", "H100"]}
    assert shape_for([made(requires={"pools": [pool]})]).dump() == usual


def test_pools_are_added_to_the_usual_ones_and_shared_by_all_packs():
    more = {**T4, "name": "other", "count": 1, "gpus": 4, "products": ["T4"]}
    tainted = {"name": "kept", "count": 1, "gpus": 1, "products": ["L4"], "labels": {"a": "b"}, "taints": [TAINT]}
    wanted = [made(requires={"pools": [T4]}), made(requires={"pools": [more, tainted], "addons": ["mpi-operator"]})]
    shape = shape_for(wanted)
    assert shape.pools[:2] == list(USUAL)
    assert [(pool.product, pool.count, pool.gpus) for pool in shape.pools[2:]] == [("T4", 2, 4), ("L4", 1, 1)]
    asked = shape.dump()
    assert asked["addons"][-1] == "mpi-operator"
    assert asked["nodes"][-1]["labels"] == {"a": "b"}
    assert {taint["key"] for taint in asked["nodes"][-1]["taints"]} == {"nvidia.com/gpu", "team"}
    assert lacks(shape.inventory, [wanted[0]], "it") == ""


def test_no_practice_cluster_has_partitions():
    pack = made(requires={"pools": [MIG]})
    assert "the MIG configuration all-1g.10gb" in lacks(shape_for([pack]).inventory, [pack], "a practice cluster")


def test_a_toolbox_with_a_gpu_has_a_node_of_its_own_which_is_nobody_elses():
    one, two = ({"nodes": 1, "gpus": 1, "toolbox-gpu": products} for products in (["V100", "L4", "T4"], ["T4", "L4"]))
    asking = [made(requires=one), made(requires=two)]
    shape = shape_for(asking)
    assert shape.dump()["nodes"][2:] == [
        {
            "count": 1,
            "gpus": 1,
            "product": "L4",
            "labels": {"node-role.kubernetes.io/toolbox": ""},
            "taints": [
                {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
                {"key": "node-role.kubernetes.io/toolbox", "value": "", "effect": "NoSchedule"},
            ],
        }
    ]
    small = made(requires={"pools": [{"name": "small", "count": 1, "gpus": 1, "products": ["L4"]}]})
    assert lacks(shape.inventory, [small], "it").startswith("“One” needs 1 node with at least 1 GPU (L4)")


def test_the_products_are_those_of_practice_clusters():
    path = CATALOG.parents[1] / "kubesim" / "gpu" / "products.yaml"
    known = yaml.safe_load(path.read_text(encoding="utf-8"))["products"]
    assert {key: (row["label"], row["accelerator"]) for key, row in known.items()} == PRODUCT_LABELS


LARGE = {"name": "large", "count": 1, "gpus": 16}
APART = [
    pytest.param(
        [{"max-gpus": 8}, {"pools": [LARGE]}], "no node with more than 8 GPUs; there is one with 16", id="gpus"
    ),
    pytest.param(
        [{"no-labels": ["cloud.google.com/gke-accelerator=nvidia-tesla-t4"]}, {"pools": [T4]}],
        "needs no node with the label cloud.google.com/gke-accelerator=nvidia-tesla-t4; there is one if the other",
        id="label",
    ),
    pytest.param(
        [{}, {"pools": [{**T4, "products": ["P4"]}]}], "(P4), which no practice cluster can have", id="product"
    ),
    pytest.param(
        [
            {},
            {
                "pools": [
                    {**T4, "count": 16, "products": ["T4"]},
                    {**T4, "count": 16, "name": "l", "products": ["L4"]},
                ]
            },
        ],
        "needs 36 nodes together; a practice cluster has at most 24",
        id="too-many",
    ),
    pytest.param(
        [{"tiers": ["practice"]}, {"tiers": ["dedicated"]}], "“Two” is made for dedicated clusters", id="tier"
    ),
    pytest.param(
        [{"toolbox-gpu": ["T4"]}, {"toolbox-gpu": ["L4"]}], "“Two” needs a toolbox with a GPU (L4)", id="toolbox"
    ),
]


@pytest.mark.parametrize(("wanted", "words"), APART)
def test_scenarios_that_no_cluster_satisfies_together_are_told_apart(wanted, words):
    both = [
        made(title=title, namespace=title.lower(), requires={"nodes": 1, "gpus": 1, **requires})
        for title, requires in zip(("One", "Two"), wanted, strict=True)
    ]
    assert words in refusal_together(packs=both).replace("The scenarios need ", "needs ")
    assert refusal_together(packs=both[:1]) == ""


def breaking_nodes():
    return [pack for pack in PACKS if pack.requires.agent]


def test_the_catalogue_fits_into_one_interview_but_for_what_takes_metrics_away_breaks_nodes_or_brings_the_same_code():
    taker = next(pack for pack in PACKS if pack.takes_away)
    judged = [pack for pack in PACKS if pack.is_judged_by_gpu_metrics]
    assert [pack.slug for pack in judged] == [
        *("gpu-readiness", "latency-puzzle", "slow-training", "tenant-workloads", "training-hangs"),
    ]
    coded = [pack for pack in PACKS if pack.workspace]
    assert [pack.slug for pack in coded] == [
        "extend-tenancy",
        "jobs-refused",
        "new-tenant-offline",
        "pipeline-unknown",
        "tenant-workloads",
        "tenants-leak",
    ]
    # Each of the first kind brings the platform's code, which is applied once in a cluster; each of the second breaks
    # GPUs of nodes that are only chosen when it is planned, perhaps the same.
    for kept in zip(coded, cycle(breaking_nodes()), strict=False):
        alone = [*coded, *breaking_nodes()]
        others = [pack for pack in PACKS if not pack.needs_free and (pack in kept or pack not in alone)]
        assert refusal_together(packs=[pack for pack in others if pack not in judged]) == ""
        assert refusal_together(packs=[pack for pack in others if pack is not taker]) == ""
    for other in judged:
        for both in ([taker, other], [other, taker]):
            assert refusal_together(packs=both) == (
                f"“The service that nobody can watch” and “{other.title}” cannot be in one interview: until it is "
                "repaired, the first takes the GPU metrics away by which the second is judged. Leave one of them out."
            )


def test_two_scenarios_that_break_gpus_of_nodes_are_not_in_one_interview():
    for both in permutations(breaking_nodes(), 2):
        told = refusal_together(packs=list(both))
        assert all(pack.title in told for pack in both)
        assert "cannot be in one interview: both " in told


def test_two_scenarios_with_the_platforms_code_are_in_one_interview_only_where_the_later_says_so():
    for first, second in permutations([pack for pack in PACKS if pack.workspace], 2):
        told = refusal_together(packs=[first, second])
        if first.slug in second.workspace.after:
            assert told == ""
        elif second.slug not in first.workspace.after:
            assert all(pack.title in told for pack in (first, second))
            assert re.search(r"cannot be in one interview: both create .*\. Leave one of them out\.$", told)


def test_a_task_on_the_gpus_of_every_node_is_refused_beside_scenarios_with_gpu_nodes_of_their_own():
    (task,) = [pack for pack in PACKS if pack.needs_free]
    taking = {pack.slug: pack for pack in PACKS if pack.requires.pools}
    others = [
        *("fine-tune-restarts", "gpu-off-duty", "gpus-not-ready", "idle-node", "latency-puzzle", "new-pods-fail"),
        *("new-tenant-offline", "node-not-back", "one-job-died", "training-hangs"),
    ]
    assert (task.slug, sorted(taking)) == ("gpu-acceptance", others)
    for other in taking.values():
        for both in ([task, other], [other, task]):
            assert refusal_together(packs=both) == (
                f"“Prove that the GPUs of every node work” and “{other.title}” cannot be in one interview: the first "
                "needs free GPUs on every node, and the second has GPU nodes of its own, with fewer of them or with "
                "all of them in use. Leave one of them out."
            )


def test_two_scenarios_that_make_the_same_object_clash_and_in_namespaces_of_their_own_do_not():
    assert "both create Deployment embedding-api in the namespace ml-training." in clashes.clash(
        [made(title="One"), made(title="Two")]
    )
    assert clashes.clash([made(title="One"), made(title="Two", namespace="two")]) == ""


def patching(patch, kind="merge", name="gpu-node-1") -> Callable[[str], Pack]:
    target = {"apiVersion": "v1", "kind": "Node", "name": name}
    step = {"kind": "patch", "target": target, "type": kind, "patch": patch}
    return lambda title: made(title=title, namespace=title.lower(), inject=[*DOCUMENT["inject"], step])


def adding(path, value):
    return patching([{"op": "add", "path": path, "value": value}], "json")


LABEL, OTHER = {"metadata": {"labels": {"a": "b"}}}, {"metadata": {"labels": {"c": "b"}}}


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        (patching(LABEL), patching(LABEL), "change metadata.labels.a of Node gpu-node-1"),
        (patching(LABEL), patching(OTHER), ""),
        (patching(LABEL), patching(LABEL, name="gpu-node-2"), ""),
        (patching(LABEL), adding("/metadata/labels", {}), "change metadata.labels.a of Node"),
        (adding("/spec/taints/-", {"key": "a"}), adding("/spec/taints/-", {"key": "b"}), ""),
        (adding("/spec/taints/-", {"key": "a"}), adding("/spec/taints/-", {"key": "a"}), "spec.taints.[key=a]"),
        (adding("/spec/taints/0", {"key": "a"}), adding("/spec/taints/-", {"key": "b"}), "spec.taints.[key=b]"),
        (patching({"spec": {"taints": [{"key": "a"}]}}), adding("/spec/taints/-", {"key": "b"}), "spec.taints"),
        (
            patching({"spec": {"taints": [{"key": "a"}]}}, "strategic"),
            patching({"spec": {"taints": [{"key": "b"}]}}, "strategic"),
            "",
        ),
    ],
)
def test_two_patches_clash_where_they_set_the_same_field(one, other, meet):
    told = clashes.clash([one("One"), other("Two")])
    assert meet in told
    assert bool(told) == bool(meet)


def test_what_one_deletes_the_other_may_not_change():
    target = {"apiVersion": "v1", "kind": "Node", "name": "gpu-node-1"}
    gone = made(title="Two", namespace="two", inject=[*DOCUMENT["inject"], {"kind": "delete", "target": target}])
    told = clashes.clash([patching(LABEL)("One"), gone])
    assert "the first changes metadata.labels.a of Node gpu-node-1, which the second deletes" in told


def test_a_node_that_the_cluster_decides_may_be_any():
    name, more = "${cluster.node}", {"requires": {"pools": [T4]}, "cluster-values": {"node": {"pool": "small"}}}
    step = {"kind": "patch", "target": {"apiVersion": "v1", "kind": "Node", "name": name}, "patch": LABEL}
    any_node = made(title="One", namespace="one", inject=[*DOCUMENT["inject"], step], **more)
    told = clashes.clash([any_node, patching(LABEL)("Two")])
    assert "both change metadata.labels.a of a node that the cluster decides" in told


def test_two_images_of_one_name_clash_unless_they_are_the_same():
    def bring(title, size):
        image = {"name": "registry.example.com/team/report", "size": size}
        return made(
            title=title,
            namespace=title.lower(),
            images=[image],
            requires={"nodes": 1, "gpus": 1, "tiers": ["practice"]},
        )

    assert clashes.clash([bring("One", 5000), bring("Two", 5000)]) == ""
    assert "each brings another image registry.example.com/team/report" in clashes.clash(
        [bring("One", 5000), bring("Two", 6000)]
    )


VALUES = {"first": {"pool": "small"}, "second": {"pool": "small"}, "zone": {"label": "zone", "node": "second"}}


@pytest.fixture
def decided() -> Pack:
    return made(requires={"pools": [T4]}, **{"cluster-values": VALUES})


def test_the_seed_chooses_among_the_nodes_and_each_value_has_another(decided):
    nodes = [node(f"t4-{at}", 4, "Tesla-T4", labels={"zone": f"z-{at}"}) for at in range(4)]
    nodes += [node("h100"), node("closed", 4, "Tesla-T4", closed=True)]
    drawn = [choose_values(decided, nodes, seed) for seed in range(40)]
    assert drawn == [choose_values(decided, nodes[::-1], seed) for seed in range(40)]
    assert {values["cluster.first"] for values in drawn} == {f"t4-{at}" for at in range(4)}
    for values in drawn:
        assert values["cluster.first"] != values["cluster.second"]
        assert values["cluster.zone"] == values["cluster.second"].replace("t4", "z")


def test_nodes_whose_gpus_nobody_holds_are_chosen_first(decided):
    def pod(name, phase, limits):
        spec = {"nodeName": name, "containers": [{"name": "main", "resources": {"limits": limits}}]}
        return {"spec": spec, "status": {"phase": phase}}

    nodes = [node(f"t4-{at}", 4, "Tesla-T4", labels={"zone": f"z-{at}"}) for at in range(4)]
    pods = [pod("t4-0", "Running", {"nvidia.com/gpu": "1"}), pod("t4-1", "Pending", {"nvidia.com/mig-1g.5gb": "1"})]
    pods += [pod("t4-2", "Succeeded", {"nvidia.com/gpu": "1"}), pod("t4-3", "Running", {"cpu": "8"})]
    taken = gpus_taken_on([*pods, {"spec": {"containers": [{"name": "waits"}]}, "status": {}}])
    assert taken == {"t4-0", "t4-1"}
    for seed in range(20):
        values = choose_values(decided, nodes, seed, taken)
        assert {values["cluster.first"], values["cluster.second"]} == {"t4-2", "t4-3"}
    assert choose_values(decided, nodes[:3], 1, taken) == choose_values(decided, nodes[:3], 1)


def test_a_cluster_without_such_nodes_or_labels_is_refused_in_a_sentence(decided):
    one = node("t4-0", 4, "Tesla-T4", labels={"zone": "z"})
    with pytest.raises(FaultError, match=r"“One” needs 2 nodes .*\(T4 or V100\), and the cluster has 1 that take"):
        choose_values(decided, [one], 1)
    odd = [one, node("t4-1", 4, "Tesla-T4"), node("t4-2", 4, "Tesla-T4")]
    with pytest.raises(FaultError, match="needs the label zone of the node t4-[12], which has none"):
        choose_values(decided, odd[1:], 1)


def test_values_of_the_cluster_stand_where_the_pack_names_them_and_words_where_there_are_none():
    document = copy.deepcopy(DOCUMENT) | {"cluster-values": {"node": {"pool": "small"}}}
    document["requires"] = {"tiers": ["practice"], "agent": False, "pools": [T4]}
    files = FILES | {"scenario.yaml": json.dumps(document), "brief.md": "On `${cluster.node}`."}
    pack = packs.parse(files)
    variant = dict(pack.variants[1])
    assert pack.bind(parameters={**variant, "cluster.node": "t4-1"}).brief == "On `t4-1`."
    assert pack.bind(parameters=variant).brief == "On `any-node`."
    with pytest.raises(PackError, match="no such placeholder"):
        packs.parse(files | {"brief.md": "On `${cluster.nodes}`."})
