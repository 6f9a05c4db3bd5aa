"""``nvidia-smi``: what it prints about the devices that a container, or the node itself, can see."""
