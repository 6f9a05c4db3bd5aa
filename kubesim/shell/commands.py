"""The words of a simple command: expanded, assigned, traced."""

from __future__ import annotations

from kubesim.shell.assignments import Assignment, assignment, declares
from kubesim.shell.handles import Handle
from kubesim.shell.nodes import Array, Simple, Word
from kubesim.shell.quoting import quote
from kubesim.shell.redirects import Redirects


class Commands(Redirects):
    """Arguments and assignments of one shell."""

    async def _arguments(self, words: tuple[Word, ...]) -> list[str]:
        """Expand a command's words; those of declaring builtins are assignments and not split."""
        if words and len(words) > 1 and declares(words[0]):
            fixed: list[str] = await self.expander.fields(words[:1])
            for word in words[1:]:
                found = assignment(word)
                if found:
                    keyed = any(each[:1] == "-" and "A" in each for each in fixed[1:])
                    fixed.append(await self._declared(found, keyed=keyed))
                else:
                    fixed.extend(await self.expander.fields((word,)))
            return fixed
        return await self.expander.fields(words)

    async def _declared(self, found: Assignment, *, keyed: bool) -> str:
        name, index, append, value = found
        variable = self.state.variables.get(name)
        keyed = keyed or variable is not None and variable.associative
        plus = "+" if append else ""
        if value and isinstance(value[0], Array):
            items = await self.array_items(value[0], {}, associative=keyed)
            return f"{name}{plus}=\0" + "\0".join(f"{key}\1{text}" for key, text in items.items())
        where = f"[{await self.expander.value(index)}]" if index else ""
        return f"{name}{where}{plus}={await self.expander.value(value)}"

    async def _bare(self, assigns: list[Assignment], node: Simple, saved: list[tuple[int, Handle | None]]) -> int:
        if not await self.redirect(node.redirects, saved):
            return 2 if self.dialect == "dash" else 1
        for each in assigns:
            await self._guarded(self.assign(each))
        return self.substituted

    async def assign(self, each: Assignment, *, exported: bool = False) -> str:
        """Do one assignment; returns the value."""
        name, index, append, word = each
        if word and isinstance(word[0], Array):
            await self._assign_array(name, word[0], append=append)
            return ""
        value = await self.expander.value(word)
        place = self.index(name, await self.expander.value(index)) if index else None
        variable = self.state.variables.get(name)
        if append:
            old = self.element(name, place) if place is not None else self.state.get(name)
            if variable and variable.integer:
                value = str(self.expander.arithmetic(f"({old or 0})+({value or 0})"))
            else:
                value = (old or "") + value
        elif variable and variable.integer:
            value = str(self.expander.arithmetic(value))
        if "xtrace" in self.state.options and not exported:
            await self.trace([f"{name}={quote(value) if value else ''}"])
        self.state.set(name, value, index=place)
        return value

    async def _assign_array(self, name: str, array: Array, *, append: bool) -> None:
        variable = self.state.variable(name)
        start = variable.items() if append else {}
        items = await self.array_items(array, start, associative=variable.associative)
        self.state.charge(sum(map(len, items.values())) - sum(map(len, variable.items().values())))
        self.state.put_items(variable, items)

    async def _temporary_value(self, each: Assignment) -> str:
        return await self.expander.value(each[3])

    async def _trace_command(self, argv: list[str], assigns: list[Assignment]) -> None:
        shown = [f"{each[0]}={quote(await self.expander.value(each[3]))}" for each in assigns]
        if self.dialect == "bash":
            for text in shown:
                await self.trace([text])
            shown = []
        words = argv if self.dialect == "dash" else [self._traced(word) for word in argv]
        await self.trace([*shown, *words])

    def _traced(self, word: str) -> str:
        if word in ("]", "[", "]]") and not (self.dialect == "bash" or word == "["):
            return word
        return quote(word, always=not word)

    async def trace(self, words: list[str]) -> None:
        """Print a line of ``set -x``."""
        mark = self.state.get("PS4")
        await self.process.error(f"{'+ ' if mark is None else mark}{' '.join(words)}\n")
