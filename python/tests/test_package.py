"""The package itself: what is generated, types, the command, and the examples of its README."""

import doctest
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import rocm_ops
from rocm_ops import _native, _ops

HERE = Path(__file__).resolve().parents[1]


def test_the_functions_are_those_of_the_registry():
    subprocess.run([sys.executable, HERE / "write_ops.py", "--check"], check=True)
    assert sorted(op["name"] for op in rocm_ops.ops()) == sorted(_ops.__all__)


def test_every_function_is_documented():
    for op in rocm_ops.ops():
        function = getattr(rocm_ops, op["name"])
        lines = inspect.getdoc(function).splitlines()
        assert len(lines[0]) > 3 and all(f"``{option['name']}``" in function.__doc__ for option in op["options"])


def test_stubs_name_everything_that_is_there():
    stub = (HERE / "rocm_ops/_native.pyi").read_text()
    for name in dir(_native):
        if not name.startswith("__"):
            assert f"def {name}(" in stub or f"class {name}(" in stub or f"class {name}:" in stub, name
    for of in (_native.Tensor, _native.Model, _native.Stream):
        for name in vars(of):
            if not name.startswith("__"):
                assert f"def {name}(" in stub, name


def test_readme():
    failed, ran = doctest.testfile(
        str(HERE / "README.md"),
        module_relative=False,
        optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS,
        globs={"MODEL": str(HERE.parent / "models/tiny-llama-kjv-q8_0.gguf"), "ENCODER": str(HERE.parent / "tests/data/folders/bert")},
    )
    assert ran > 10 and failed == 0
    assert doctest.testmod(rocm_ops)[0] == 0


def run(*words, **env):
    words = [sys.executable, "-m", *words]
    return subprocess.run(words, capture_output=True, text=True, env={**os.environ, **env}, timeout=100)


needs_command = pytest.mark.skipif(not hasattr(_native, "command"), reason="this build has no command")


@needs_command
def test_the_command():
    info = run("rocm_ops", "info", "--json")
    assert info.returncode == 0 and json.loads(info.stdout.splitlines()[0])["backends"]
    text = run("rocm_ops", "generate", "--max-tokens", "4")
    assert text.returncode == 0 and len(text.stdout) > 10, text.stderr
    assert run("rocm_ops", "no-such-command").returncode == 2


@needs_command
def test_check_starts_the_command_again(tmp_path):
    checked = run("rocm_ops.check", "--level", "1", "--op", "softmax", "--out", str(tmp_path))
    assert checked.returncode in (0, 1, 2), checked.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["schema"] == 1
    names = [step["name"] for step in report["steps"]]
    assert "survey" in names, report


@pytest.mark.parametrize("name", ["rocm_ops", "rocm_ops._ops", "rocm_ops.check"])
def test_imports_without_torch(name):
    code = f"import sys; sys.modules['torch'] = None; import {name}"
    subprocess.run([sys.executable, "-c", code], check=True)
