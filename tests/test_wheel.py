"""The wheel has everything inside."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# In the release preset's tree, with its flags and the name of its compiler: what it has compiled is packed.
SETTINGS = ["build-dir=build/release", "cmake.define.PENSTOCK_WERROR=ON"]
LIKE_RELEASE = [word for setting in SETTINGS for word in ("--config-settings", setting)]
COMPILER = {"CXX": "c++"}


@pytest.mark.timeout(300)
def test_the_wheel_holds_module_executable_and_entry_point(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), *LIKE_RELEASE]
    done = subprocess.run(build, capture_output=True, text=True, env={**os.environ, **COMPILER}, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (wheel,) = tmp_path.glob("penstock-*.whl")
    site = tmp_path / "site"
    subprocess.run([sys.executable, "-m", "pip", "install", "--no-deps", "--target", str(site), str(wheel)], capture_output=True, check=True)
    names = zipfile.ZipFile(wheel).namelist()
    assert "penstock/bin/penstock" in names
    assert "penstock/py.typed" in names
    program = "import penstock; print(penstock.__file__); print(len(list(penstock.Dataset.from_range(5).distribute('local:1'))))"
    environment = {**os.environ, "PYTHONPATH": str(site)}
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False)
    assert out.stdout.split() == [str(site / "penstock" / "__init__.py"), "5"], out.stderr
    version = subprocess.run([str(site / "bin" / "penstock"), "version"], capture_output=True, text=True, env=environment, check=False)
    assert version.returncode == 0, version.stderr
    assert "0.1.0" in version.stdout
