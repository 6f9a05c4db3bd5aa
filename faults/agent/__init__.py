"""The node agent for real nodes: writes the driver's lines about an Xid to the kernel log, under a lease.

It ships alone in its image, with nothing but the standard library. kubesim's agent answers the same requests for
simulated nodes; ``faults/tests/test_node_agent_contract.py`` holds both to them.
"""
