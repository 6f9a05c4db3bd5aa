"""The tables of calls are what CUDA's headers say."""

import importlib
import re

import pytest

from native.tests.native_library import NATIVE, needs_compiler, package_file


@pytest.fixture
def reader(monkeypatch):
    monkeypatch.syspath_prepend(str(NATIVE))
    return importlib.import_module("read_headers")


@pytest.fixture(scope="module")
def folders():
    packages = (("cuda_runtime", "include/cuda.h"), ("nvml_dev", "include/nvml.h"), ("cu13", "include/cuda.h"))
    return [package_file(package, header).parent for package, header in packages]


@needs_compiler
def test_what_is_committed_is_what_the_headers_say(tmp_path, folders, reader, monkeypatch):
    (tmp_path / "src").mkdir()
    monkeypatch.setattr(reader, "NATIVE", tmp_path)
    reader.main([str(folder) for folder in folders])
    for path in (tmp_path / "src").iterdir():
        assert path.read_text(encoding="utf-8") == (NATIVE / "src" / path.name).read_text(encoding="utf-8"), (
            "run: make -C native calls"
        )


def test_arguments_that_two_toolkits_have_in_common_are_as_wide_as_the_wider(reader):
    old = reader.Call("cudaMemPrefetchAsync", "cudaMemPrefetchAsync", 0, ("p", "q", "i", "p"))
    new = reader.Call("cudaMemPrefetchAsync", "cudaMemPrefetchAsync", 0, ("p", "q", "s8", "i", "p"))
    assert reader.merged(old, new).arguments == ("p", "q", "q", "q", "p")
    with pytest.raises(ValueError, match="cudaMemPrefetchAsync has arguments"):
        reader.merged(old, reader.Call("cudaMemPrefetchAsync", "", 0, ("p", "s64")))


def test_no_call_is_in_two_tables():
    text = "".join(path.read_text(encoding="utf-8") for path in (NATIVE / "src").glob("*.def"))
    found = re.findall(r"^(?:CALL|OWN)\((\w+),", text, re.M)
    assert len(found) == len(set(found))


def test_no_file_is_longer_than_500_lines():
    sources = [path for folder in ("src", "stubs", "tests") for path in (NATIVE / folder).iterdir() if path.is_file()]
    assert [path.name for path in sources if len(path.read_text(encoding="utf-8").splitlines()) > 500] == []
