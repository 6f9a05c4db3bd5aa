"""CPython for simulated containers: compiled to WebAssembly, one sandboxed instance for each program.

``guest/`` is built into the component and asks the simulated machine through one function; ``calls/`` answers.
"""
