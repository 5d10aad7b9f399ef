"""The dataset op: TensorFlow takes elements without Python, and its iterators can be saved. Without it the same comes out."""

import ctypes
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock
from penstock import _binary, _core
from support.cluster import TestCluster
from test_tf import EXITS

pytestmark = [pytest.mark.xdist_group("tensorflow"), pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Two services that know nothing of each other."""
    started = [TestCluster(tmp_path_factory.mktemp(name), workers=1, worker_flags=["--allow-code"]) for name in ("one", "other")]
    yield [cluster.address for cluster in started]
    for cluster in started:
        cluster.stop()


@pytest.fixture
def address(clusters: list[str]) -> str:
    return clusters[0]


@pytest.fixture(params=["op", "python"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "python":
        monkeypatch.setenv("PENSTOCK_TF_OP", "0")
    return str(request.param)


def uses_the_op(dataset: Any) -> bool:
    from tensorflow.python.ops import gen_dataset_ops

    return b"PenstockDataset" in gen_dataset_ops.dataset_to_graph_v2(dataset._variant_tensor, external_state_policy=1).numpy()


# ---- what comes out, either way


def test_elements_of_every_kind_come_out_as_they_were(tf: Any, service: Any, address: str, path: str) -> None:
    def element(i: Any) -> Any:
        small = tf.cast(i, tf.int32)
        return {
            "text": tf.strings.as_string(i),
            "number": i,
            "aligned": tf.fill([16], i),
            "matrix": tf.fill([small, 3], 1.5),
            "words": tf.fill([small + 1], "a word that is longer than what a tstring holds inline"),
            "empty": tf.zeros([0, 2], tf.bfloat16),
            "ragged": tf.RaggedTensor.from_row_lengths(tf.range(small + 2), [small, 2], validate=False),
            "deep": tf.ragged.stack([tf.ragged.range([small, 1]), tf.ragged.range([2])]),
            "narrow": tf.RaggedTensor.from_row_lengths(["x", "y", "z"], tf.constant([1, 2], tf.int32)),
            "sparse": tf.sparse.from_dense([[0, i], [i, 0]]),
            "some": tf.cond(
                i % 2 == 0, lambda: tf.experimental.Optional.from_value(i), lambda: tf.experimental.Optional.empty(tf.TensorSpec((), i.dtype))
            ),
            "none": None,
            "pair": (tf.cast(i, tf.complex64), {"z": i > 1, "a": tf.cast(i, tf.uint8)}),
        }

    dataset = tf.data.Dataset.range(5).map(element)
    read = dataset.apply(service.distribute("distributed_epoch", address))
    assert uses_the_op(read) == (path == "op")
    assert read.element_spec == dataset.element_spec
    elements = list(read)
    assert len(elements) == 5
    for got, wanted in zip(elements, dataset):
        for name in ("text", "number", "aligned", "matrix", "words", "empty"):
            assert np.array_equal(got[name], wanted[name]), name
        for name in ("ragged", "deep", "narrow"):
            assert got[name].to_list() == wanted[name].to_list(), name
        assert np.array_equal(tf.sparse.to_dense(got["sparse"]), tf.sparse.to_dense(wanted["sparse"]))
        assert bool(got["some"].has_value()) == bool(wanted["some"].has_value())
        assert got["none"] is None
        assert tf.nest.map_structure(lambda one, other: bool(one == other), got["pair"], wanted["pair"]) == (True, {"z": True, "a": True})


def test_native_batches_come_out_dense_and_ragged(tf: Any, service: Any, address: str, path: str) -> None:
    rows = {"id": np.arange(10), "wide": np.arange(40, dtype=np.float32).reshape(10, 4)}
    dataset = penstock.Dataset.from_arrays(rows).map(_with_tags).batch(4)
    read, reader = service.read(dataset, address)
    assert uses_the_op(read) == (path == "op")
    batches = list(read)
    reader.close()
    assert [batch["id"].numpy().tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert np.array_equal(np.concatenate([batch["wide"] for batch in batches]), rows["wide"])
    assert [tags for batch in batches for tags in batch["tags"].to_list()] == [list(range(i % 3)) for i in range(10)]


def _with_tags(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "tags": np.arange(row["id"] % 3)}


def test_iterations_of_a_named_job_are_its_epochs_and_only_the_newest_reads(tf: Any, service: Any, address: str, path: str) -> None:
    read = tf.data.Dataset.range(20).apply(service.distribute("distributed_epoch", address, job_name=f"epochs-{path}"))
    for _ in range(2):
        assert sorted(int(i) for i in read) == list(range(20))
    older = iter(read)
    assert int(next(older)) == 0
    newer = iter(read)
    assert int(next(newer)) == 0
    with pytest.raises(tf.errors.OpError, match="another iteration of this dataset was begun"):
        list(older)
    assert [int(i) for i in newer] == list(range(1, 20))


def test_a_dataset_of_the_service_is_distributed_again(tf: Any, service: Any, address: str, path: str) -> None:
    inner = tf.data.Dataset.range(8).apply(service.distribute("distributed_epoch", address))
    outer = inner.map(lambda x: x * 10).apply(service.distribute("distributed_epoch", address))
    assert sorted(int(i) for i in outer) == list(range(0, 80, 10))


def test_a_worker_that_cannot_have_the_op_says_what_to_do(tf: Any, service: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from penstock import _tf_op

    assert _tf_op.usable()
    with monkeypatch.context() as of_workers:
        of_workers.setenv("CXX", "/no/such/compiler")
        of_workers.setenv("PENSTOCK_CACHE", str(tmp_path / "cache"))
        cluster = TestCluster(tmp_path, workers=1, worker_flags=["--allow-code"])
    try:
        inner = tf.data.Dataset.range(8).apply(service.distribute("distributed_epoch", cluster.address))
        outer = inner.map(lambda x: x * 10)
        with pytest.raises(tf.errors.OpError, match=r"/no/such/compiler.*Install g\+\+.*PENSTOCK_TF_OP=0"):
            list(outer.apply(service.distribute("distributed_epoch", cluster.address)))
        monkeypatch.setenv("PENSTOCK_TF_OP", "0")
        inner = tf.data.Dataset.range(8).apply(service.distribute("distributed_epoch", cluster.address))
        outer = inner.map(lambda x: x * 10)
        assert sorted(int(i) for i in outer.apply(service.distribute("distributed_epoch", cluster.address))) == list(range(0, 80, 10))
    finally:
        cluster.stop()


def _fails_at_three(tf: Any, service: Any, address: str) -> Any:
    """All of the job fails with it: a row that cannot be made cannot be passed over."""
    broken = tf.data.Dataset.range(10).map(lambda x: tf.debugging.check_numerics(1.0 / tf.cast(x - 3, tf.float32), "three"))
    return broken.apply(service.distribute("distributed_epoch", address))


def test_an_iterator_is_at_its_end_after_its_error(tf: Any, service: Any, address: str, path: str) -> None:
    iterator = iter(_fails_at_three(tf, service, address))
    with pytest.raises(tf.errors.InvalidArgumentError, match="three"):
        list(iterator)
    assert list(iterator) == []


def test_ignore_errors_ends_where_the_job_has_failed(tf: Any, service: Any, address: str, path: str) -> None:
    assert len(list(_fails_at_three(tf, service, address).ignore_errors())) <= 3


def test_a_column_of_another_type_than_the_spec_says_is_refused(tf: Any, service: Any, address: str) -> None:
    from penstock import _tf_op

    with penstock.Dataset.from_range(10).distribute(address) as reader:
        read = _tf_op.over_reader(reader, tf.TensorSpec((), tf.int32), None)
        with pytest.raises(tf.errors.InvalidArgumentError, match="values of another size than int32"):
            next(iter(read))


# ---- saving


@pytest.mark.parametrize("job_name", [None, "saved"])
def test_an_iterator_goes_on_exactly_where_it_was_saved(tf: Any, service: Any, clusters: list[str], tmp_path: Path, job_name: str | None) -> None:
    """In the same order, where one consumer reads what is made in one place; those that share a job are promised the same elements."""

    def made(address: str) -> Any:
        numbers = tf.data.Dataset.range(500).map(lambda i: (i, tf.fill([100], i)))
        read = numbers.apply(service.distribute("distributed_epoch", address, job_name=job_name))
        return read.shuffle(30, seed=5).batch(7).prefetch(3)

    def rest(iterator: Any) -> list[int]:
        numbers = [int(i) for batch, _ in iterator for i in batch]
        return numbers if job_name is None else sorted(numbers)

    iterator = iter(made(clusters[0]))
    for _ in range(20):
        next(iterator)
    saved = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "middle"))
    wanted = rest(iterator)
    assert len(set(wanted)) == 500 - 20 * 7
    for address in (clusters[1], clusters[0]):
        again = iter(made(address))
        tf.train.Checkpoint(iterator=again).restore(saved).assert_consumed()
        assert rest(again) == wanted


def test_an_iterator_is_rolled_back_and_the_next_one_reads_the_next_epoch(tf: Any, service: Any, address: str, tmp_path: Path) -> None:
    read = tf.data.Dataset.range(50).apply(service.distribute("distributed_epoch", address, job_name="rolled-back"))
    iterator = iter(read)
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    begin = checkpoint.write(str(tmp_path / "begin"))
    assert [int(next(iterator)) for _ in range(10)] == list(range(10))
    middle = checkpoint.write(str(tmp_path / "middle"))
    for _ in range(2):
        assert [int(i) for i in iterator] == list(range(10, 50))
        end = checkpoint.write(str(tmp_path / "end"))
        checkpoint.read(middle)
    checkpoint.read(end)
    assert list(iterator) == []
    checkpoint.read(checkpoint.write(str(tmp_path / "end of the end")))
    assert list(iterator) == []
    assert [int(i) for i in read] == list(range(50)), "of the next epoch"
    again = iter(read)
    tf.train.Checkpoint(iterator=again).read(begin)
    assert int(next(again)) == 0


def test_where_there_are_no_positions_saving_is_refused(tf: Any, service: Any, address: str, tmp_path: Path) -> None:
    iterator = iter(tf.data.Dataset.range(5).apply(service.distribute("parallel_epochs", address)))
    next(iterator)
    with pytest.raises(tf.errors.OpError, match="replicated"):
        tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "none"))


def test_a_readers_state_is_after_what_tensorflow_took(tf: Any, service: Any, address: str) -> None:
    """Rows come in runs; those that the op has not handed out are not in it."""
    read, reader = service.read(penstock.Dataset.from_range(100), address, job_name="by-reader")
    iterator = iter(read)
    got = [int(next(iterator)) for _ in range(30)]
    state = reader.state_dict()
    reader.load_state_dict(state)
    with pytest.raises(tf.errors.OpError, match="a state was loaded"):
        next(iterator)
    assert sorted(got + [int(i) for i in read]) == list(range(100))
    reader.close()


def taking_nothing_ahead(tf: Any, dataset: Any) -> Any:
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.inject_prefetch = False
    return dataset.with_options(options)


@pytest.mark.parametrize("taken", [1, 17])
def test_rows_that_the_op_has_not_handed_out_go_to_others_when_the_reader_closes(tf: Any, service: Any, address: str, taken: int) -> None:
    dataset = penstock.Dataset.from_range(1000)
    read, reader = service.read(dataset, address, job_name=f"closed-after-{taken}")
    iterator = iter(taking_nothing_ahead(tf, read))
    got = [int(next(iterator)) for _ in range(taken)]
    with dataset.distribute(address, job_name=reader.job_name) as other:
        reader.close()
        assert sorted(got + [int(i) for i in other]) == list(range(1000))


def test_iterations_of_python_and_tensorflow_over_one_reader_are_one_after_the_other(tf: Any, service: Any, address: str) -> None:
    read, reader = service.read(penstock.Dataset.from_range(1000), address, job_name="both-ways", epochs=None)
    older = iter(reader)
    next(older)
    newer = iter(taking_nothing_ahead(tf, read))
    got = [int(next(newer)) for _ in range(40)]
    with pytest.raises(penstock.Invalid, match="another iteration of this dataset was begun"):
        next(older)
    reader.load_state_dict(reader.state_dict())
    assert sorted(got + [int(i) for i in read]) == list(range(1000))
    newest = iter(reader)
    assert int(next(newest)) in range(1000), "of the next epoch"
    with pytest.raises(tf.errors.OpError, match="another iteration of this dataset was begun"):
        next(newer)
    reader.close()
    with pytest.raises(penstock.Cancelled, match="the reader was closed"):
        next(newest)


def test_a_dataset_over_a_reader_is_not_sent_to_workers(service: Any, address: str) -> None:
    read, reader = service.read(penstock.Dataset.from_range(10), address)
    with reader, pytest.raises(penstock.Invalid, match="over a reader of this process"):
        read.apply(service.distribute("parallel_epochs", address))


# ---- threads


def test_who_waits_for_an_element_holds_no_python_and_is_cancelled_at_once(tf: Any, service: Any, address: str) -> None:
    known = set(sys._current_frames())
    options = tf.data.Options()
    options.autotune.enabled = False  # its thread ends only when it looks
    one = tf.data.Dataset.range(10**9).filter(lambda x: x < 1).apply(service.distribute("distributed_epoch", address))
    iterator = iter(one.with_options(options).prefetch(1))
    assert int(next(iterator)) == 0
    assert set(sys._current_frames()) <= known, "TensorFlow's thread, which waits for the second, is not in Python"
    begin = time.monotonic()
    del iterator
    assert time.monotonic() - begin < 1


def test_a_program_without_the_op_ends_too() -> None:
    environment = {**_binary.environment(), "PENSTOCK_TF_OP": "0"}
    done = subprocess.run([sys.executable, "-c", EXITS], env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 7, done.stderr[-3000:]


# ---- joining, with a dispatcher that does not answer


class Text(ctypes.Structure):
    _fields_ = [("set", ctypes.c_void_p), ("to", ctypes.c_void_p)]


class Abi(ctypes.Structure):
    """That of abi.h."""

    NAMES = ("find", "release", "begin", "next", "save", "restore", "end", "keep", "drop")
    _fields_ = [("version", ctypes.c_uint32), ("size", ctypes.c_uint32), *((name, ctypes.c_void_p) for name in NAMES)]


class Iterations:
    """Of a job, as the op makes them, without TensorFlow's threads around them."""

    WAITING = -1

    def __init__(self, job: Any, name: str) -> None:
        abi = Abi.from_address(_core.tf_abi())
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        self._offer = job.offer(name)
        self._set = ctypes.CFUNCTYPE(None, pointer, pointer, number)(lambda *_: None)
        self._element = ctypes.create_string_buffer(256)
        self._next = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, number, pointer, Text)(abi.next)
        self._begin = ctypes.CFUNCTYPE(pointer, pointer)(abi.begin)
        self.end = ctypes.CFUNCTYPE(None, pointer)(abi.end)
        self._job = ctypes.CFUNCTYPE(pointer, ctypes.c_char_p, number)(abi.find)(name.encode(), len(name))

    def begin(self) -> int:
        begun: int = self._begin(self._job)
        return begun

    def next(self, iteration: int, wait_ms: int = 20) -> int:
        text = Text(ctypes.cast(self._set, ctypes.c_void_p), None)
        code: int = self._next(iteration, wait_ms, ctypes.addressof(self._element), text)
        return code

    def element(self, iteration: int) -> int:
        while (code := self.next(iteration, 1000)) == self.WAITING:
            pass
        return code


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[TestCluster]:
    """Its dispatcher can be stopped, and goes on at the end."""
    cluster = TestCluster(tmp_path, workers=1, worker_flags=["--allow-code"])
    yield cluster
    os.kill(cluster.dispatcher.pid, signal.SIGCONT)
    cluster.stop()


def test_an_iteration_that_is_given_up_while_it_joins_reads_no_epoch(tf: Any, service: Any, stopped: TestCluster) -> None:
    from penstock.tf.iterations import Job

    dataset = service.register_dataset(stopped.address, tf.data.Dataset.range(50)).numpy().decode()
    iterations = Iterations(Job(stopped.address, dataset, "given-up", "shared", None, None), "given-up")
    os.kill(stopped.dispatcher.pid, signal.SIGSTOP)
    given_up = iterations.begin()
    assert iterations.next(given_up) == Iterations.WAITING
    iterations.end(given_up)
    read = iterations.begin()
    assert iterations.next(read) == Iterations.WAITING
    os.kill(stopped.dispatcher.pid, signal.SIGCONT)
    assert iterations.element(read) == 0
    assert [job["epoch"] for job in stopped.status()["jobs"]] == [0]
    iterations.end(read)


def test_an_iteration_ends_while_another_joins(tf: Any, service: Any, stopped: TestCluster) -> None:
    from penstock.tf.iterations import Job

    dataset = service.register_dataset(stopped.address, tf.data.Dataset.range(50)).numpy().decode()
    iterations = Iterations(Job(stopped.address, dataset, None, "shared", None, None), "alone")
    ended = iterations.begin()
    assert iterations.element(ended) == 0
    os.kill(stopped.dispatcher.pid, signal.SIGSTOP)
    joining = iterations.begin()
    assert iterations.next(joining) == Iterations.WAITING
    iterations.end(ended)
    assert iterations.next(joining) == Iterations.WAITING
    os.kill(stopped.dispatcher.pid, signal.SIGCONT)
    assert iterations.element(joining) == 0
    iterations.end(joining)


# ---- building


def test_the_op_is_compiled_once_however_many_want_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from penstock._tf_op import build

    compiler = tmp_path / "compiler"
    compiler.write_text(f'#!/bin/sh\necho called >> {tmp_path}/calls\nwhile [ "$1" != -o ]; do shift; done\necho library > "$2"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "cache"))
    with ThreadPoolExecutor(4) as pool:
        paths = {future.result() for future in [pool.submit(build.library) for _ in range(4)]}
    assert [Path(path).read_text() for path in paths] == ["library\n"]
    assert (tmp_path / "calls").read_text() == "called\n" * len(build.SOURCES)
    assert build.rows_library() is not None


def test_what_executors_use_may_not_compile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from penstock._tf_op import build

    compiler = tmp_path / "compiler"
    compiler.write_text('#!/bin/sh\ncase "$*" in *rows.cc*) exit 1;; esac\nwhile [ "$1" != -o ]; do shift; done\necho library > "$2"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "cache"))
    assert Path(build.library()).read_text() == "library\n"
    assert build.rows_library() is None
    assert "executors hand elements of tf.data over by way of Python, which is slower" in caplog.text
    assert sorted(file.suffix for file in (tmp_path / "cache" / "tf-op").iterdir()) == [".lock", ".so"], "and nothing is left of it"


@pytest.mark.parametrize(("compiler", "said"), [("", "there is no g++"), ("false", "could not compile"), ("/no/such", "No such file")])
def test_without_a_compiler_one_line_says_so_and_python_does_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture, compiler: str, said: str
) -> None:
    from penstock import _tf_op

    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    monkeypatch.setenv("CXX", compiler)
    if not compiler:
        monkeypatch.setenv("PATH", str(tmp_path))
    with caplog.at_level(logging.WARNING, "penstock"):
        assert _tf_op._loaded.__wrapped__().module is None
    lines = [record.getMessage() for record in caplog.records if "by way of Python" in record.getMessage()]
    assert len(lines) == 1
    assert said in lines[0]


def test_without_a_home_directory_python_does_it(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    from penstock import _tf_op

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("PENSTOCK_CACHE", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert _tf_op._loaded.__wrapped__().module is None
    assert "name one in PENSTOCK_CACHE" in caplog.text


def test_with_a_compiler_that_does_not_end_python_does_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from penstock import _tf_op

    compiler = tmp_path / "compiler"
    compiler.write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(_tf_op.build, "_WITHIN", 0.1)
    assert _tf_op._loaded.__wrapped__().module is None
    assert "within 0.1 s" in caplog.text
