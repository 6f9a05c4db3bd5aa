"""Host calls of Python programs, by theme: what ``machine.ask`` in the sandbox may ask, and who answers."""
