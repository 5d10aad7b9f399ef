"""What the documentation shows of C++ and CMake is what a project of one's own can write."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/howto/cpp.md").read_text()

# What the blocks leave to the reader.
SURROUNDINGS = """
#include <chrono>
#include <memory>
#include <span>
#include <string>

#include "penstock/client.h"
#include "penstock/dataset.h"

template <class Values>
void Use(Values values, uint64_t rows);
void Train(const penstock::Batch& batch);
bool Due();
void Save(const std::string& state);
extern const uint32_t rank, world;
extern const std::string checkpoint;
"""
BEFORE_A_BLOCK = """
penstock::Status Block{number}(std::unique_ptr<penstock::Client> client, const penstock::Dataset& dataset) {{
  {{
{block}
  }}
  return {{}};
}}
"""


def _blocks(language: str) -> "list[str]":
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_cpp_blocks_compile(tmp_path: Path) -> None:
    blocks = _blocks("cpp")
    assert len(blocks) >= 2
    program = tmp_path / "blocks.cc"
    program.write_text(SURROUNDINGS + "".join(BEFORE_A_BLOCK.format(number=i, block=block) for i, block in enumerate(blocks)))
    compile_ = ["g++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wno-unused", "-Wno-shadow", f"-I{ROOT}/include", str(program)]
    done = subprocess.run(compile_, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_cmake_block_configures_a_project(tmp_path: Path) -> None:
    (block,) = _blocks("cmake")
    (tmp_path / "third_party").mkdir()
    (tmp_path / "third_party/penstock").symlink_to(ROOT)
    (tmp_path / "trainer.cc").write_text("int main() {}\n")
    project = "cmake_minimum_required(VERSION 3.25)\nproject(trainer CXX)\nadd_executable(trainer trainer.cc)\n"
    (tmp_path / "CMakeLists.txt").write_text(project + block)
    configure = ["cmake", "-S", str(tmp_path), "-B", str(tmp_path / "build"), "-G", "Ninja"]
    done = subprocess.run(configure, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "penstock_client" in (tmp_path / "build/build.ninja").read_text()
