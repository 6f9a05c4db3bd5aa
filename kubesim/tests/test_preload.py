"""LD_PRELOAD in containers: gcc makes a fault library of its table, and CUDA's calls return the library's errors."""

import asyncio
from pathlib import Path

import pytest

from kubesim.gpu.fault_table import CompileError, FaultRow, pack, read_table, unpack
from kubesim.gpu.preload import injected_error, preloaded
from kubesim.tests.containers import log, run, state
from kubesim.tests.world import container, pod, world

SOURCE = """/* {1, 2, "not a row"} */
enum { ours = 4242 };
static const struct { int xid; int error; const char *text; } errors[] = {
    {79, CUDA_ERROR_NO_DEVICE, "GPU has fallen off the bus"},  // the guide's row
    { 48, 214, "Double-bit" " ECC error" },
    {99, ours, "Custom error description"},
};
"""
LIBRARY = "/cuda-fault/fake_cuda_xid79.so"
VLLM = "nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.7.0"
BUILD = """
echo "Compiling"
gcc -shared -fPIC -o /dest/fake_cuda_xid79.so /source/fake_cuda_xid79.c -ldl
status=$?
ls -la /dest
exit $status
"""
FAULT = {"LD_PRELOAD": LIBRARY, "CUDA_FAULT_INJECTION_ENABLED": "1", "CUDA_XID_TYPE": "79"}


def test_the_table_is_all_that_is_read_of_a_source():
    rows = read_table(SOURCE, "a.c")
    assert rows == [
        FaultRow(79, 100, "GPU has fallen off the bus"),
        FaultRow(48, 214, "Double-bit ECC error"),
        FaultRow(99, 4242, "Custom error description"),
    ]
    assert unpack(pack(rows)) == rows


def test_the_library_of_the_product_compiles():
    source = Path("faults/sdk/cuda-fault-injection/fake_cuda_xid79.c").read_text()
    assert FaultRow(79, 100, "GPU has fallen off the bus") in read_table(source, "fake_cuda_xid79.c")


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ('{99, cudaErrorCustom, "x"},', "a.c:2:15: error: 'cudaErrorCustom' undeclared here (not in a function)"),
        ('{99, 100 "x"},', "a.c:2:19: error: expected '}' before string constant"),
        ('{99, 1x, "x"},', 'a.c:2:15: error: invalid suffix "x" on integer constant'),
        ('{99, 100, "x"} {1, 2, "y"}', "a.c:2:25: error: expected '}' before '{' token"),
    ],
)
def test_a_row_that_cannot_be_read_is_named_as_gcc_names_it(row, error):
    with pytest.raises(CompileError) as caught:
        read_table(f'errors[] = {{ {{1, 2, "first"}},\n         {row}\n}};', "a.c")
    assert str(caught.value).splitlines()[0] == error


def test_a_process_preloads_what_is_there_and_complains_of_the_rest():
    files = {"/a.so": pack([FaultRow(79, 100, "")]), "/b.so": b"#!/bin/sh\n", LIBRARY: pack([FaultRow(48, 214, "")])}
    env = {**FAULT, "LD_PRELOAD": f"/a.so:/b.so /c.so:{LIBRARY}", "CUDA_XID_TYPE": "48"}
    found, complaints = preloaded(env, files.get)
    assert [*found] == ["/a.so", LIBRARY]
    assert complaints == [
        "ERROR: ld.so: object '/b.so' from LD_PRELOAD cannot be preloaded (invalid ELF header): ignored.",
        "ERROR: ld.so: object '/c.so' from LD_PRELOAD cannot be preloaded (cannot open shared object file): ignored.",
    ]
    assert injected_error(env, files.get) == 214
    assert injected_error({**env, "CUDA_XID_TYPE": "94"}, files.get) == 0
    assert injected_error({**env, "CUDA_FAULT_INJECTION_ENABLED": "0"}, files.get) == 0


def worker(source=SOURCE, **env):
    """A worker as the guide's injector patches it."""
    mount = {"name": "cuda-fault-lib", "mountPath": "/cuda-fault", "readOnly": True}
    build = {"name": "compile-cuda-fault-lib", "image": "gcc:latest", "command": ["sh", "-c", BUILD]}
    build["volumeMounts"] = [
        {"name": "cuda-fault-lib-source", "mountPath": "/source"},
        {"name": "cuda-fault-lib", "mountPath": "/dest"},
    ]
    main = container(VLLM, args=["Qwen/Qwen2.5-0.5B-Instruct"], volumeMounts=[mount])
    main |= {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    main["env"] = [{"name": name, "value": value} for name, value in {**FAULT, **env}.items()]
    volumes = [
        {"name": "cuda-fault-lib-source", "configMap": {"name": "cuda-fault-injection-lib"}},
        {"name": "cuda-fault-lib", "emptyDir": {}},
    ]
    source = {"metadata": {"name": "cuda-fault-injection-lib"}, "data": {"fake_cuda_xid79.c": source}}
    return source, pod("worker", main, initContainers=[build], volumes=volumes)


async def start(w, made):
    source, worker = made
    await w.create("configmaps", source)
    await w.create("pods", worker)
    await w.tick(40)


async def test_a_worker_that_preloads_the_library_crashes_with_its_error():
    async with world(1, present=("gcc:latest", VLLM)) as w:
        await start(w, worker())
        built = w.kubelets.logs("default", "worker", "compile-cuda-fault-lib").decode()
        assert built.startswith("Compiling\n")
        assert "fake_cuda_xid79.so" in built
        assert "No CUDA GPUs are available" in log(w, "worker", previous=True)
        assert state(await w.pod("worker"))["restartCount"] >= 1
        assert state(await w.pod("worker"))["lastState"]["terminated"]["exitCode"] == 1


async def test_a_worker_whose_xid_is_not_in_the_table_runs_and_shows_the_library():
    async with world(1, present=("gcc:latest", VLLM)) as w:
        await start(w, worker(CUDA_XID_TYPE="31"))
        assert state(await w.pod("worker"))["state"].keys() == {"running"}
        assert "LD_PRELOAD=" + LIBRARY in (await run(w, "worker", "env"))[1]
        assert "fake_cuda_xid79.so" in (await run(w, "worker", "ls", "-la", "/cuda-fault/"))[1]
        assert f"{LIBRARY} (0x" in (await run(w, "worker", "ldd", "/usr/bin/python3"))[1]
        status, seen, _ = await run(w, "worker", "env", "CUDA_XID_TYPE=48", "nvidia-smi", "-L")
        assert (status, seen.count("H100")) == (0, 1)
        ask = "import torch; print(torch.cuda.is_available())"
        assert (await run(w, "worker", "python3", "-c", ask))[1] == "True\n"
        refused = asyncio.ensure_future(run(w, "worker", "env", "CUDA_XID_TYPE=79", "python3", "-c", ask))
        while not refused.done():  # a call that fails takes its time on the cluster's clock
            await w.tick(0.1)
        assert refused.result()[1] == "False\n"


async def test_a_library_that_is_missing_is_ignored_with_the_linkers_warning():
    async with world(1, present=("gcc:latest", VLLM)) as w:
        await start(w, worker(LD_PRELOAD="/cuda-fault/other.so"))
        warning = "ERROR: ld.so: object '/cuda-fault/other.so' from LD_PRELOAD cannot be preloaded "
        warning += "(cannot open shared object file): ignored.\n"
        assert log(w, "worker").count(warning) == 1
        assert state(await w.pod("worker"))["state"].keys() == {"running"}
        assert await run(w, "worker", "sh", "-c", "echo hi; true | cat") == (0, "hi\n", warning * 2)


async def test_a_source_that_does_not_compile_keeps_the_worker_from_starting():
    async with world(1, present=("gcc:latest", VLLM)) as w:
        await start(w, worker(SOURCE.replace("ours = 4242", "theirs")))
        built = w.kubelets.logs("default", "worker", "compile-cuda-fault-lib").decode()
        assert "/source/fake_cuda_xid79.c:6:10: error: 'ours' undeclared here (not in a function)\n" in built
        status = (await w.pod("worker"))["status"]["initContainerStatuses"][0]
        assert status["lastState"]["terminated"]["exitCode"] == 1
