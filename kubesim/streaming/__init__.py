"""Streams between a client and a container: remote commands and forwarded ports, over SPDY/3.1 and WebSocket.

An API server and a kubelet both serve them; neither is known here, only what ``seam`` asks of them.
"""
