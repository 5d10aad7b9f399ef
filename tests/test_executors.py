"""User code on workers: what goes in comes out the same as inline, and what it does wrong costs nobody else anything."""

import ctypes
import os
import random
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock
from conftest import StartCluster
from model.plans import plain, sortable
from penstock import Dataset
from support.cluster import TestCluster
from support.servers import LOOK_INTO_PROCESSES, Servers, without
from support.waiting import wait_until

CODE = ["--allow-code", "--cpus", "2"]


def _numbers() -> Iterator[dict[str, Any]]:
    for i in range(500):
        yield {"i": i, "values": np.arange(i % 7, dtype=np.float32), "name": f"row {i}"}


def _part(lane: int, lanes: int) -> Iterator[int]:
    return iter(range(lane, 100, lanes))


def _noisy(x: Any) -> Any:
    return {"x": x, "noise": np.random.rand()}


def _halves(x: Any) -> Any:
    return [x] * int(x % 3)


CASES: dict[str, Callable[[], Dataset]] = {
    "an iterable": lambda: Dataset.from_python(_numbers),
    "an iterable in lanes": lambda: Dataset.from_python(_part, lanes=4),
    "map": lambda: Dataset.from_range(1000).map(lambda x: {"x": x, "square": x * x}).batch(32),
    "map below shuffle": lambda: Dataset.from_range(1000).map(lambda x: x * 2).shuffle(50).batch(32),
    "map with random numbers": lambda: Dataset.from_range(300).map(_noisy),
    "filter": lambda: Dataset.from_range(1000).filter(lambda x: x % 7 == 1).batch(5),
    "flat_map": lambda: Dataset.from_range(200).flat_map(_halves).batch(8),
    "filter, flat_map and map": lambda: Dataset.from_range(300).filter(lambda x: x > 20).flat_map(_halves).map(lambda x: (x, -x)),
    "map_batch": lambda: Dataset.from_range(1000).batch(10).map_batch(lambda x: x * 0.5),
    "map of batches": lambda: Dataset.from_range(96).batch(16).map(lambda x: x.sum()),
    "code below native operators": lambda: Dataset.from_range(100).filter(lambda x: x % 2 == 0).shuffle(10).take(20),
    "strings and ragged rows": lambda: Dataset.from_python(_numbers).map(lambda row: {**row, "twice": [row["values"]] * 2}),
}


def _rows(elements: Any) -> list[Any]:
    return sorted((plain(element) for element in elements), key=sortable)


@pytest.fixture
def cluster(start_cluster: StartCluster) -> TestCluster:
    return start_cluster(1, worker_flags=CODE)


@pytest.mark.parametrize("name", CASES)
def test_workers_give_the_rows_of_inline(name: str, cluster: TestCluster) -> None:
    batched = CASES[name]()
    rows = _rows(batched.distribute(cluster.address, seed=3))
    here = _rows(batched.distribute("inline", seed=3))
    if batched._facts["batch"] > 0:  # which rows share a batch depends on who reads which lane
        rows, here = _unbatched(batched, rows), _unbatched(batched, here)
    assert rows == here
    assert len(here) > 0


def _unbatched(dataset: Dataset, elements: list[Any]) -> list[Any]:
    if dataset._facts["element_structure"] is None:
        return sorted(row for element in elements for row in element)
    return sorted((sortable(row) for element in elements for row in zip(*element.values())), key=repr)


def test_a_worker_without_the_flag_refuses_and_names_it(start_cluster: StartCluster) -> None:
    cluster = start_cluster(1)
    with pytest.raises(penstock.PermissionDenied, match="--allow-code"):
        list(Dataset.from_range(10).map(lambda x: x).distribute(cluster.address))
    assert len(list(Dataset.from_range(10).distribute(cluster.address))) == 10


def _fails_at_37(x: Any) -> Any:
    if x == 37:
        raise KeyError("no such thing")
    return x


def test_an_exception_reaches_the_loop_with_its_traceback_and_row(cluster: TestCluster) -> None:
    dataset = Dataset.from_range(100).map(_fails_at_37)
    with pytest.raises(penstock.ExecutorError, match="KeyError") as raised:
        list(dataset.distribute(cluster.address))
    error = raised.value
    assert "_fails_at_37" in error.traceback
    assert 'raise KeyError("no such thing")' in error.traceback
    assert error.details["file"] == __file__
    assert error.worker
    assert (error.lane, error.seq) == (37 // 16, 37 % 16)


def test_rows_before_the_one_that_fails_arrive(cluster: TestCluster) -> None:
    def factory() -> Iterator[int]:
        yield from range(20)
        raise OSError("the source is broken")

    got: list[int] = []
    with pytest.raises(penstock.ExecutorError, match="the source is broken") as raised:
        got.extend(int(row) for row in Dataset.from_python(factory).distribute(cluster.address))
    assert raised.value.seq == 20


def _exits(x: Any) -> Any:
    if x == 50:
        os._exit(3)
    return x


def _segfaults(x: Any) -> Any:
    if x == 50:
        ctypes.string_at(0)
    return x


@pytest.mark.parametrize(("function", "why"), [(_exits, "exit code 3"), (_segfaults, "signal 11")], ids=["exit", "segfault"])
def test_code_that_crashes_costs_no_other_job_anything(function: Callable[[Any], Any], why: str, cluster: TestCluster) -> None:
    good = iter(Dataset.from_range(2000).map(lambda x: x + 1).distribute(cluster.address))
    first = next(good)
    with pytest.raises(penstock.ExecutorError, match=why) as raised:
        list(Dataset.from_range(64, 0, -1).map(function, spec=penstock.Spec(np.int64, ())).distribute(cluster.address))
    error = raised.value
    assert (error.lane, error.seq) == (14 // 16, 14 % 16)
    assert f"it was in map({function.__name__}), on row {error.seq}" in str(error)
    if function is _segfaults:
        assert "_segfaults" in error.traceback
        assert f'{__file__}", line' in str(error), "the end of the stack"
    assert sorted([int(first), *map(int, good)]) == list(range(1, 2001))


class _ExitsWhenLoaded:
    def __reduce__(self) -> Any:
        return os._exit, (3,)

    def __call__(self, x: Any) -> Any:
        return x


def test_a_crash_before_any_row_names_none(cluster: TestCluster) -> None:
    with pytest.raises(penstock.ExecutorError, match=r"exit code 3; it was in the loading of map\(_ExitsWhenLoaded\)") as raised:
        list(Dataset.from_range(20).map(_ExitsWhenLoaded(), spec=penstock.Spec(np.int64, ())).distribute(cluster.address))
    assert raised.value.seq is None


def _exits_at_5() -> Iterator[int]:
    yield from range(5)
    os._exit(3)


def test_a_source_that_crashes_is_named_with_its_row(cluster: TestCluster) -> None:
    with pytest.raises(penstock.ExecutorError, match=r"it was in python\(_exits_at_5\), on row 5") as raised:
        list(Dataset.from_python(_exits_at_5, spec=penstock.Spec(np.int64, ())).distribute(cluster.address))
    assert raised.value.seq == 5


def test_a_crash_that_does_not_come_again_is_not_seen(cluster: TestCluster, tmp_path: Path) -> None:
    marker = str(tmp_path / "crashed")

    def crashes_once(x: Any) -> Any:
        if x == 50 and not os.path.exists(marker):
            with open(marker, "w"):
                pass
            os._exit(1)
        return x

    dataset = Dataset.from_range(200).map(crashes_once)
    assert sorted(map(int, dataset.distribute(cluster.address))) == list(range(200))
    assert Path(marker).exists()


def _hangs(x: Any) -> Any:
    if x == 50:
        while True:
            time.sleep(1)
    return x


def test_code_that_hangs_is_ended_and_its_stack_told(start_cluster: StartCluster) -> None:
    cluster = start_cluster(1, worker_flags=[*CODE, "--code-timeout", "2s"])
    with pytest.raises(penstock.ExecutorError, match="did not answer") as raised:
        list(Dataset.from_range(100).map(_hangs, spec=penstock.Spec(np.int64, ())).distribute(cluster.address))
    assert "_hangs" in raised.value.traceback
    assert raised.value.seq == 50 % 16
    assert f"it was in map(_hangs), on row {50 % 16}; its stack ends in " in str(raised.value)
    assert sorted(map(int, Dataset.from_range(10).map(lambda x: x).distribute(cluster.address))) == list(range(10))


def _takes_memory(x: Any) -> Any:
    return int(x) + len(np.ones(1 << 28)) - (1 << 28) if x == 50 else int(x)  # 2 GiB


def test_code_that_takes_too_much_memory_is_told_so(start_cluster: StartCluster) -> None:
    cluster = start_cluster(1, worker_flags=[*CODE, "--code-memory", "512MiB"])
    with pytest.raises(penstock.ExecutorError, match="--code-memory"):
        list(Dataset.from_range(100).map(_takes_memory, spec=penstock.Spec(np.int64, ())).distribute(cluster.address))
    assert sorted(map(int, Dataset.from_range(10).map(lambda x: x).distribute(cluster.address))) == list(range(10))


def test_a_row_that_does_not_fit_the_spec_names_the_column(cluster: TestCluster) -> None:
    dataset = Dataset.from_range(100).map(lambda x: {"v": np.zeros(3 if x < 20 else 4)})
    with pytest.raises(penstock.ExecutorError, match=r"v should be float64\[3\], but is of shape \(4,\)"):
        list(dataset.distribute(cluster.address))


class _Fleeting:
    """Other rows on each worker, and nobody can see it from outside."""

    def __call__(self, x: Any) -> Any:
        return np.full(2048, os.getppid())


def test_code_that_makes_other_rows_on_another_worker_ends_the_loop_instead_of_mixing_them(start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers=2, worker_flags=CODE)
    # A group is as much as a block: smaller ones are cut where time has passed, and what is cut elsewhere is not compared.
    reader = iter(Dataset.from_range(100_000).map(_Fleeting()).batch(256).distribute(cluster.address, memory="1GiB"))
    while not (next(reader)[:, 0] == cluster.workers[0].pid).all():
        pass
    cluster.kill_worker(0)
    with pytest.raises(penstock.NotDeterministic, match="rows .* makes others"):
        list(reader)


def test_in_strict_code_that_makes_other_rows_on_another_worker_ends_the_loop_instead_of_mixing_them(start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers=2, worker_flags=CODE)
    dataset = Dataset.from_range(100_000).map(_Fleeting()).batch(16)
    with dataset.distribute(cluster.address, processing_mode="strict", num_consumers=1, consumer_index=0, places=4) as reader:
        elements = iter(reader)
        while not (next(elements)[:, 0] == cluster.workers[0].pid).any():
            pass
        cluster.kill_worker(0)
        with pytest.raises(penstock.NotDeterministic, match="rows .* makes others"):
            list(elements)


def test_killing_a_worker_loses_and_repeats_nothing(start_cluster: StartCluster) -> None:
    cluster = start_cluster(2, worker_flags=CODE)

    def slow(x: Any) -> Any:
        time.sleep(0.001)
        return {"x": x, "pid": os.getpid(), "parent": os.getppid()}

    dataset = Dataset.from_range(3000).filter(lambda x: x % 3 > 0).flat_map(lambda x: [x] * int(x % 3)).map(slow).batch(16)
    got: list[int] = []
    parents: dict[int, set[int]] = {}
    for batch in dataset.distribute(cluster.address):
        got.extend(batch["x"].tolist())
        for pid, parent in zip(batch["pid"].tolist(), batch["parent"].tolist()):
            parents.setdefault(parent, set()).add(pid)
        if len(got) >= 500 and cluster.workers[0].poll() is None and cluster.workers[0].pid in parents:
            cluster.kill_worker(0)
    assert cluster.workers[0].poll() is not None
    assert sorted(got) == sorted(x for x in range(3000) for _ in range(x % 3))
    orphans = parents[cluster.workers[0].pid]
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in orphans), "the end of the killed worker's executors")


def test_executors_do_not_see_the_token(start_cluster: StartCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / "token"
    token.write_text("a secret of some length")
    token.chmod(0o600)
    monkeypatch.setenv("PENSTOCK_TOKEN_FILE", str(token))
    cluster = start_cluster(1, token_file=token, worker_flags=CODE)

    def environment(x: Any) -> Any:
        return ",".join(sorted(os.environ))

    names = next(iter(Dataset.from_range(1).map(environment).distribute(cluster.connect(token="a secret of some length")))).decode().split(",")
    assert not [name for name in names if "TOKEN" in name]
    assert "OMP_NUM_THREADS" in names


def _page_faults_of_arrays(x: Any) -> Any:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        np.sqrt(np.full(20_000, float(x)))
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_functions_get_memory_that_they_had_before_and_not_fresh_pages(start_cluster: StartCluster) -> None:
    cluster = start_cluster(1, worker_flags=CODE)
    faults = [int(row) for row in Dataset.from_range(50).map(_page_faults_of_arrays).distribute(cluster.address)]
    assert min(faults) == 0, "each array of 160 KB has 40 pages"


def _readable_of_the_worker(_: Any) -> Any:
    """What user code can open of the process that started it."""
    return ",".join(name for name in ("environ", "mem", "maps", "status") if _opens(f"/proc/{os.getppid()}/{name}"))


def _opens(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY))
    except PermissionError:
        return False
    return True


def test_user_code_finds_no_token_in_the_worker(servers: Servers) -> None:
    secret = "a secret of some length"
    dispatcher = servers.start("dispatcher", "--listen", "127.0.0.1:0", PENSTOCK_TOKEN=secret)
    worker = servers.start("worker", "--dispatcher", dispatcher.address, *CODE, before=without(*LOOK_INTO_PROCESSES), PENSTOCK_TOKEN=secret)
    assert secret.encode() not in Path(f"/proc/{worker.process.pid}/environ").read_bytes(), "root, who may look into all, finds it wiped"
    with penstock.connect(dispatcher.address, token=secret) as service:
        assert next(iter(Dataset.from_range(1).map(_readable_of_the_worker).distribute(service))) == b"status"


def test_another_python_is_a_clear_error(cluster: TestCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock._executor.environment.python_version", lambda: "2.7")
    dataset = Dataset.from_range(10).map(lambda x: x, spec=penstock.Spec(np.int64, ()))
    with pytest.raises(penstock.DatasetMismatch, match="Python 2.7"):
        list(dataset.distribute(cluster.address))


def test_explain_tells_purity_and_where_functions_moved() -> None:
    text = Dataset.from_range(100).map(lambda x: x).shuffle(10).explain()
    assert text.index("map [row]") < text.index("shuffle [order]")
    assert "one permutation over all lanes" in text
    assert "purity: pure\n" in text

    def dated(x: Any) -> Any:
        return x + time.time()

    assert "purity: pure identity" in Dataset.from_range(100).map(dated).explain()
    assert "purity: impure" in Dataset.from_range(100).filter(lambda x: x < time.time()).explain()


def test_functions_of_modules_that_are_not_installed_travel(cluster: TestCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "helpers_of_mine.py").write_text("SCALE = 3\ndef scale(x):\n    return x * SCALE\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import helpers_of_mine  # type: ignore[import-not-found]

    dataset = Dataset.from_range(10).map(helpers_of_mine.scale)
    assert sorted(map(int, dataset.distribute(cluster.address))) == list(range(0, 30, 3))


# ---- sources that draw at random


def _buffered(lane: int, lanes: int) -> Iterator[dict[str, Any]]:
    """A shuffle buffer, as people write them."""
    buffer: list[int] = []
    for i in range(lane, 400, lanes):
        buffer.append(i)
        if len(buffer) > 20:
            yield {"id": buffer.pop(random.randrange(len(buffer)))}
    for i in buffer:
        yield {"id": i}


def _augmented(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "x": random.random(), "y": np.random.rand()}


RANDOM = Dataset.from_python(_buffered, lanes=4).map(_augmented).batch(10)


def _batches(where: str, **options: Any) -> list[Any]:
    return [plain(batch) for batch in RANDOM.distribute(where, seed=3, processing_mode="strict", places=4, timeout=100, **options)]


def test_a_source_that_draws_gives_the_same_rows_wherever_and_beside_whatever_it_runs(start_cluster: StartCluster) -> None:
    cluster = start_cluster(workers=2, worker_flags=["--allow-code", "--cpus", "1"])
    here = _batches("inline")
    assert _batches(cluster.address, job_name="first") == here
    assert _batches(cluster.address, job_name="second", memory="16KiB") == here


@pytest.mark.parametrize("mode", ["shared", "strict"])
def test_a_source_that_draws_is_resumed_exactly(mode: str) -> None:
    with RANDOM.distribute("inline", seed=3, processing_mode=mode) as reader:
        had = [row for _, batch in zip(range(15), reader) for row in batch["id"].tolist()]
        state = reader.state_dict()
    with RANDOM.distribute("inline", seed=3, processing_mode=mode) as reader:
        reader.load_state_dict(state)
        rest = [row for batch in reader for row in batch["id"].tolist()]
    assert sorted(had + rest) == list(range(400))


def test_inline_leaves_the_loops_own_generators_alone() -> None:
    random.seed(7)
    np.random.seed(7)
    drawn = (random.random(), np.random.rand())
    random.seed(7)
    np.random.seed(7)
    for _ in RANDOM.distribute("inline", seed=3):
        pass
    assert (random.random(), np.random.rand()) == drawn
