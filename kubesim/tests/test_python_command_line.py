"""The command line of ``python3`` in containers: modules that people start with ``-m``, and its options."""

import pytest

from kubesim.tests import shell_world
from kubesim.tests.containers import log
from kubesim.tests.world import container, pod, world

FILES = """
printf 'def f():\\n    return 1\\nif __name__ == "__main__":\\n    print(__name__, f())\\n' > m.py
printf 'import unittest\\nclass T(unittest.TestCase):\\n    def test_a(self): self.assertEqual(1, 2)\\n' > t.py
mkdir app; echo 'print("app", __name__)' > app/__main__.py
"""


@pytest.fixture
async def made():
    machine = shell_world.machine("toolbox")
    await shell_world.run(FILES, made=machine)
    return machine


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("echo '{\"b\": [1]}' | python3 -m json.tool", '{\n    "b": [\n        1\n    ]\n}\n'),
        ("echo '{' | python3 -m json.tool", "Expecting property name enclosed in double quotes: line 2 column 1"),
        ("python3 -m timeit -n 2 -r 2 1+1", "2 loops, best of 2: "),
        ("python3 -m compileall m.py && ls __pycache__", "Compiling 'm.py'...\nm.cpython-311.pyc\n"),
        ("python3 -m unittest t", "AssertionError: 1 != 2\n\n---"),
        ("python3 -m pip --version", "pip 2"),
        ("python3 -m ensurepip", "/usr/bin/python3: No module named ensurepip\n"),
        (
            "python3 -m venv env",
            "'-m', 'ensurepip', '--upgrade', '--default-pip']' returned non-zero exit status 1.\n",
        ),
        ("python3 -m nosuch.module", "ModuleNotFoundError: No module named 'nosuch')\n"),
        ("python3 -m m", "__main__ 1\n"),
        (
            "python3 -m app; python3 app; cd app; python3 -m app",
            "app __main__\napp __main__\n/usr/bin/python3: No mod",
        ),
        ("python3 -m xml", "No module named xml.__main__; 'xml' is a package and cannot be directly executed\n"),
        ("python3 .", "/usr/bin/python3: can't find '__main__' module in '/tmp/w/.'\n"),
        ("python3 -m this | tail -1", "let's do more of those!\n"),
        ("python3 -m pydoc len | head -1", "Help on built-in function len in module builtins:\n"),
        ("python3 -m platform", "Linux-"),
        ("python3 -m sysconfig | sed -n 2p", 'Python version: "3.11"\n'),
        ("python3 -m dis m.py", "RETURN_VALUE"),
        ("python3 -m base64 -e m.py", "ZGVmIGYoKTo"),
        ("python3 -m pdb m.py < /dev/null", "> /tmp/w/m.py(1)<module>()\n-> def f():\n(Pdb) "),
        ("python3 -O -c 'assert 0; print(__debug__)'", "False\n"),
        ("python3 -W error -c 'import warnings; warnings.warn(\"x\")'", "UserWarning: x\n"),
        ("PYTHONWARNINGS=ignore python3 -c 'import warnings; warnings.warn(\"x\")'", ""),
        ("echo 'x + 1' | python3 -q -i -c 'x = 1'", ">>> 2\n>>> \n"),
        ("echo 'print(__name__)' | python3", "__main__\n"),
        ("PYTHONPATH=/tmp/w/app python3 -c 'import sys; print(sys.path[1])'", "/tmp/w/app\n"),
        ("python3 -X", "Argument expected for the -X option\nusage: python3 [option]"),
    ],
)
async def test_it_answers_as_cpython_does(made, line, shown):
    text, _ = await shell_world.run(f"cd /tmp/w; {line}", made=made)
    assert shown in text if shown else text == ""
    assert "/0/" not in text


async def test_as_a_containers_own_program_it_answers_as_well():
    lines = {"version": ["--version"], "none": [], "missing": ["app.py"], "module": ["-m", "nosuch"]}
    async with world(count=1) as w:
        for name, words in lines.items():
            await w.create("pods", pod(name, container("python:3.9-slim", "python3", *words), restartPolicy="Never"))
        await w.tick(30)
        assert [log(w, name) for name in lines] == [
            "Python 3.9.25\n",
            "",
            "python3: can't open file '/app.py': [Errno 2] No such file or directory\n",
            "/usr/local/bin/python3: No module named nosuch\n",
        ]
