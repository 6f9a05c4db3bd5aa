"""YAML whose mappings know the lines they stand on, so that an error can say where it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

MAX_BYTES = 10 * 1024 * 1024
MERGE, TIMESTAMP = "tag:yaml.org,2002:merge", "tag:yaml.org,2002:timestamp"


class FileError(Exception):
    """A file that cannot be used; the message says which line of which file, and what to do."""

    def __init__(self, path: Path, line: int, message: str) -> None:
        super().__init__(f"{path}:{line}: {message}" if line else f"{path}: {message}")
        self.message = message


class Mapping(dict[str, Any]):
    """A YAML mapping; ``lines`` are those of its keys, ``line`` is its first."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}


def without_lines(value: Any) -> Any:
    """Return plain JSON with mappings that stand on no line."""
    if isinstance(value, dict):
        found = Mapping(0)
        found.update({name: without_lines(item) for name, item in value.items()})
        return found
    return [without_lines(item) for item in value] if isinstance(value, list) else value


class _Loader(yaml.SafeLoader):
    """As Kubernetes reads YAML: times stay texts, keys are texts, and no key comes twice."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in found if tag != TIMESTAMP]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def mapping(self, node: yaml.MappingNode) -> Mapping:
        """Return a mapping with its lines."""
        _check_keys(node)
        self.flatten_mapping(node)
        found = Mapping(node.start_mark.line + 1)
        for key, value in node.value:
            found[key.value] = self.construct_object(value, deep=True)
            found.lines[key.value] = key.start_mark.line + 1
        return found


_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.mapping)


def _check_keys(node: yaml.MappingNode) -> None:
    """Raise an error of YAML for a key that is no text, or comes twice."""
    seen = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag not in ("tag:yaml.org,2002:str", MERGE):
            raise yaml.MarkedYAMLError(problem="a key is no text; put it into quotes", problem_mark=key.start_mark)
        if key.value in seen:
            raise yaml.MarkedYAMLError(problem=f"{key.value} is given twice", problem_mark=key.start_mark)
        seen.add(key.value)


def documents(path: Path) -> Iterator[Any]:
    """Yield the documents of a YAML (or JSON) file but for empty ones; raises FileError."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise FileError(path, 0, f"the file is larger than {MAX_BYTES // 1024**2} MiB; split it")
        yield from (found for found in yaml.load_all(content, _Loader) if found is not None)
    except OSError as error:
        raise FileError(path, 0, f"{error.strerror}; give a file that can be read") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise FileError(path, line, f"this is no YAML that can be used: {error.problem}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise FileError(path, 0, f"this is no YAML that can be used: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise FileError(path, 0, "it is nested too deeply") from error
