"""The network of nodes and pods from inside: interfaces and sockets."""

from kubesim.tests.containers import run
from kubesim.tests.test_rooted import chrooted, debugger
from kubesim.tests.world import container, pod, world


async def test_a_node_has_an_interface_for_each_of_its_pods():
    async with world(1) as w:
        await w.create("pods", debugger(hostNetwork=True))
        await w.create("pods", pod("other", container("busybox:1.36", "sleep", "99")))
        await w.tick(5)
        address = (await w.pod("other"))["status"]["podIP"]
        node = (await w.pod("look"))["status"]["hostIP"]
        brief = await chrooted(w, "ip -br a")
        assert f"eth0             UP             {node}/24 \n" in brief
        assert brief.count("veth") == 1
        assert f"{address} dev veth" in await chrooted(w, "ip route")
        assert f"inet {address}/24" in (await run(w, "other", "ip", "addr", "show", "eth0"))[1]
        assert (await run(w, "other", "ip", "link", "show", "eth9"))[0] == 1


async def test_sockets_name_the_processes_that_ps_shows():
    async with world(1) as w:
        await w.create("pods", debugger(hostNetwork=True))
        await w.tick(5)
        pid = (await chrooted(w, "pgrep -x kubelet")).strip()
        shown = await chrooted(w, "ss -tlnp")
        (line,) = [line.split() for line in shown.splitlines() if ":10250 " in line]
        assert line[0] == "LISTEN"
        assert line[5].startswith(f'users:(("kubelet",pid={pid},')
        assert "127.0.0.1:6666" in shown
        assert f"{pid}/kubelet" in await chrooted(w, "netstat -tlnp")
