"""The same program is the same dataset in each process that runs it: ranks agree on it, and a state saved by one is taken by the next."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock import _binary

PROGRAM = """
import functools, sys
import numpy as np
import torch
from penstock import Dataset

NAMES = {"b", "a", "zz", "q"}

class Scale:
    def __init__(self, factor):
        self.factor, self.names = factor, {"x", "y", "z"}
    def __call__(self, x):
        return x * self.factor

class Rows(torch.utils.data.Dataset):
    def __init__(self):
        self.keep, self.data, self.tensor = frozenset({"u", "v", "w"}), np.arange(100), torch.arange(10)
    def __len__(self):
        return 100
    def __getitem__(self, i):
        return {"id": self.data[i]}

def of_globals(x):
    return x if "a" in NAMES else -x

def of_literals(x):
    return x if str(x) in {"p", "q", "r"} else -x

def of_closure(factor):
    names = {"one", "two", "three"}
    return lambda x: x * factor + len(names)

numbers = Dataset.from_range(100)
datasets = {
    "a lambda": numbers.map(lambda x: x + 1),
    "a set among the globals": numbers.map(of_globals),
    "a set in the code": numbers.map(of_literals),
    "a set in the closure": numbers.map(of_closure(3)),
    "an object with a set": numbers.map(Scale(2)),
    "a partial": numbers.map(functools.partial(np.multiply, 3)),
    "a torch dataset": Dataset.from_torch(Rows()),
    "tensors": Dataset.from_torch(torch.utils.data.TensorDataset(torch.arange(6).reshape(3, 2))),
    "a generator": Dataset.from_python(lambda: range(10)),
    "a filter": numbers.filter(lambda x: x % 3 > 0),
}
for name, dataset in datasets.items():
    print(name, dataset.batch(4).fingerprint(), sep="=")
"""


def _fingerprints(path: Path, program: str, hash_seed: int) -> "dict[str, str]":
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(program)
    environment = {**os.environ, **_binary.environment(), "PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run([sys.executable, str(path)], env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(line.split("=") for line in done.stdout.splitlines())


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> "dict[str, str]":
    return _fingerprints(tmp_path_factory.mktemp("here") / "train.py", PROGRAM, 1)


def test_another_process_in_another_directory_has_the_same_datasets(here: "dict[str, str]", tmp_path: Path) -> None:
    assert _fingerprints(tmp_path / "there" / "train.py", PROGRAM, 2) == here


def test_lines_above_the_code_are_none_of_its_business(here: "dict[str, str]", tmp_path: Path) -> None:
    assert _fingerprints(tmp_path / "train.py", "# a comment\n\n" + PROGRAM, 3) == here


@pytest.mark.parametrize(
    ("name", "was", "became"),
    [
        ("a lambda", "x + 1", "x + 2"),
        ("a set among the globals", '"zz"', '"yy"'),
        ("a set in the code", '"r"}', '"s"}'),
        ("a set in the closure", '"three"', '"four"'),
        ("an object with a set", "Scale(2)", "Scale(3)"),
        ("a torch dataset", "torch.arange(10)", "torch.arange(11)"),
        ("tensors", "reshape(3, 2)", "reshape(2, 3)"),
        ("a filter", "x % 3", "x % 4"),
    ],
)
def test_other_code_is_another_dataset(here: "dict[str, str]", tmp_path: Path, name: str, was: str, became: str) -> None:
    there = _fingerprints(tmp_path / "train.py", PROGRAM.replace(was, became), 1)
    assert {each for each in here if here[each] != there[each]} == {name}
