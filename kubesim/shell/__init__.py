"""The emulated shell: what runs inside simulated containers. It starts no host process and touches no host file.

``spawn.spawn`` starts a program of a container's image; ``rootfs`` says which programs and files an image has.
"""
