"""penstock.tf: a program of tf.data service goes on when its import is changed."""

import inspect
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock import _binary
from support.waiting import wait_until

pytestmark = [pytest.mark.xdist_group("tensorflow"), pytest.mark.timeout(300)]  # whose import takes seconds, in each executor too


class Cluster:
    """A dispatcher that keeps its state, and workers, as a program of tf.data service starts them."""

    def __init__(self, service: Any, directory: Path) -> None:
        self._service = service
        self._state = str(directory)
        self._port = 0
        self.workers: list[Any] = []
        self.start_dispatcher()

    def start_dispatcher(self) -> None:
        config = self._service.DispatcherConfig(port=self._port, work_dir=self._state, fault_tolerant_mode=True)
        self.dispatcher = self._service.DispatchServer(config)
        self._port = int(self.dispatcher.target.rpartition(":")[2])

    def start_worker(self) -> Any:
        self.workers.append(self._service.WorkerServer(self._service.WorkerConfig(self.target.split("://")[1])))
        return self.workers[-1]

    @property
    def target(self) -> str:
        return str(self.dispatcher.target)

    def stop(self) -> None:
        for server in (*self.workers, self.dispatcher):
            server.stop()


@pytest.fixture(scope="module")
def one_worker(service: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    cluster = Cluster(service, tmp_path_factory.mktemp("one"))
    cluster.start_worker()
    yield cluster.target
    cluster.stop()


@pytest.fixture
def cluster(service: Any, tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(service, tmp_path)
    yield cluster
    cluster.stop()


def numbers(dataset: Any) -> list[int]:
    return [int(i) for i in dataset]


# ---- names and arguments


def test_every_public_name_takes_the_arguments_of_the_original(tf: Any, service: Any) -> None:
    original = tf.data.experimental.service
    for name in (name for name in dir(original) if not name.startswith("_")):
        theirs, ours = getattr(original, name), getattr(service, name)
        if name == "ShardingPolicy":
            assert {policy.name: int(policy) for policy in ours} == {policy.name: int(policy) for policy in theirs}
            continue
        arguments = [(p.name, p.default) for p in inspect.signature(theirs).parameters.values()]
        assert [(p.name, p.default) for p in inspect.signature(ours).parameters.values()] == arguments, name
        methods = {method for method in dir(theirs) if not method.startswith("_")} if inspect.isclass(theirs) else set()
        assert methods <= set(dir(ours)), name


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"processing_mode": "sometimes"}, "'sometimes' is neither a ShardingPolicy"),
        ({"service": ""}, "service is empty"),
        ({"service": 5}, "a int"),
        ({"service": "grpc://a://b"}, "more than once"),
        ({"job_name": ""}, "job_name is empty"),
        ({"job_name": 5}, "must be a string"),
        ({"consumer_index": 1}, "go together"),
        ({"consumer_index": 0, "num_consumers": 2}, "needs a job_name"),
        ({"consumer_index": 3, "num_consumers": 2, "job_name": "j"}, "consumer_index=3 .* from 0 to 1"),
        ({"consumer_index": -1, "num_consumers": 2, "job_name": "j"}, "consumer_index=-1"),
        ({"consumer_index": 0, "num_consumers": 0, "job_name": "j"}, "num_consumers=0"),
        ({"consumer_index": "0", "num_consumers": 2, "job_name": "j"}, "consumer_index='0'"),
        ({"max_outstanding_requests": 0}, "at least 1"),
        ({"compression": "ZIP"}, "'ZIP' is none of"),
        ({"target_workers": "LOCAL"}, "shared memory"),
        ({"target_workers": "SOME"}, "'SOME' is none of"),
    ],
    ids=str,
)
def test_a_wrong_argument_is_refused_by_its_name(service: Any, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        service.distribute(**{"processing_mode": "parallel_epochs", "service": "nowhere:1", **arguments})


def test_what_cannot_be_configured_is_said(service: Any) -> None:
    with pytest.raises(ValueError, match="needs a work_dir"):
        service.DispatchServer(service.DispatcherConfig(fault_tolerant_mode=True))
    with pytest.raises(ValueError, match="directory of its host"):
        service.DispatchServer(service.DispatcherConfig(work_dir="gs://bucket"))
    with pytest.raises(ValueError, match="trainer_id is empty"):
        service.CrossTrainerCache("")
    with pytest.raises(ValueError, match="needs a job_name"):
        service.distribute("parallel_epochs", "nowhere:1", cross_trainer_cache=service.CrossTrainerCache("a"))
    with pytest.raises(ValueError, match="made of its graph"):
        service.register_dataset("nowhere:1", None, dataset_id="mine")


# ---- modes and jobs


def test_each_worker_reads_all_of_it_or_each_element_comes_once(tf: Any, service: Any, cluster: Cluster) -> None:
    cluster.start_worker()
    cluster.start_worker()
    dataset = tf.data.Dataset.range(10)
    twice = dataset.apply(service.distribute("parallel_epochs", cluster.target, compression=None, max_outstanding_requests=4))
    assert sorted(numbers(twice)) == sorted(2 * list(range(10)))
    once = dataset.map(lambda x: x * x).apply(service.distribute(service.ShardingPolicy.DYNAMIC, cluster.target, data_transfer_protocol="grpc"))
    for _ in range(2):
        assert sorted(numbers(once.map(lambda x: x + 1))) == [x * x + 1 for x in range(10)], "each iteration is a pass"
    first, second = iter(once), iter(once)
    assert [int(next(first)), int(next(second)), int(next(first))] == [0, 0, 1], "iterations without a job name know nothing of each other"
    assert numbers(second) == [x * x for x in range(1, 10)]
    assert (int(once.cardinality()), int(twice.cardinality())) == (tf.data.UNKNOWN_CARDINALITY,) * 2
    endless = dataset.repeat().apply(service.distribute("parallel_epochs", cluster.target))
    assert int(endless.cardinality()) == tf.data.INFINITE_CARDINALITY


def test_each_sharding_policy_delivers_each_element_once(tf: Any, service: Any, one_worker: str, tmp_path: Path) -> None:
    for i in range(4):
        with tf.io.TFRecordWriter(str(tmp_path / str(i))) as writer:
            for j in range(5):
                writer.write(f"{i}-{j}".encode())
    files = tf.data.Dataset.list_files(str(tmp_path / "*")).interleave(tf.data.TFRecordDataset)
    hinted = tf.data.Dataset.range(20).shard(tf.data.experimental.SHARD_HINT, tf.data.experimental.SHARD_HINT)
    by_file = files.apply(service.distribute(service.ShardingPolicy.FILE, one_worker))
    assert sorted(x.numpy().decode() for x in by_file) == sorted(f"{i}-{j}" for i in range(4) for j in range(5))
    assert sorted(numbers(hinted.apply(service.distribute(service.ShardingPolicy.HINT, one_worker)))) == list(range(20))
    whole = tf.data.Dataset.range(12)
    for policy in (service.ShardingPolicy.DATA, service.ShardingPolicy.FILE_OR_DATA):
        assert sorted(numbers(whole.apply(service.distribute(policy, one_worker, job_name=f"whole by {policy.name}")))) == list(range(12))
    with pytest.raises(ValueError, match="names no files"):
        whole.apply(service.distribute(service.ShardingPolicy.FILE, one_worker))
    with pytest.raises(ValueError, match="SHARD_HINT"):
        whole.apply(service.distribute(service.ShardingPolicy.HINT, one_worker))


@pytest.mark.parametrize("elements", [0, 1, 5, 8])
def test_a_hint_may_divide_few_elements(tf: Any, service: Any, one_worker: str, elements: int, tmp_path: Path) -> None:
    hint = tf.data.experimental.SHARD_HINT
    hinted = tf.data.Dataset.range(elements).shard(hint, hint).apply(service.distribute(service.ShardingPolicy.HINT, one_worker))
    assert sorted(numbers(hinted)) == list(range(elements))
    for i in range(elements):
        (tmp_path / f"{i}").write_text(f"{i}\n")
    files = tf.data.Dataset.from_tensor_slices([str(tmp_path / str(i)) for i in range(elements)] or tf.zeros([0], tf.string))
    lines = files.shard(hint, hint).interleave(tf.data.TextLineDataset).apply(service.distribute(service.ShardingPolicy.HINT, one_worker))
    assert sorted(int(line.numpy()) for line in lines) == list(range(elements))


def read_all(datasets: list[Any]) -> list[list[int]]:
    """Each on a thread, as each would be in a process of its own."""
    got: list[list[int]] = [[] for _ in datasets]

    def read(i: int) -> None:
        got[i].extend(numbers(datasets[i]))

    threads = [threading.Thread(target=read, args=(i,)) for i in range(len(datasets))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return got


def test_datasets_of_one_job_name_share_its_elements_epoch_by_epoch(tf: Any, service: Any, one_worker: str) -> None:
    def made() -> Any:
        return tf.data.Dataset.range(200).map(lambda x: x + 1).apply(service.distribute("distributed_epoch", one_worker, job_name="together"))

    datasets = [made(), made()]
    for _ in range(2):
        assert sorted(sum(read_all(datasets), [])) == list(range(1, 201))  # noqa: RUF017
    assert datasets[0].options().experimental_distribute.auto_shard_policy == tf.data.experimental.AutoShardPolicy.OFF


def test_trainers_with_ids_of_their_own_read_everything_each(tf: Any, service: Any, one_worker: str) -> None:
    datasets = [
        tf.data.Dataset.range(100).apply(
            service.distribute("distributed_epoch", one_worker, job_name="cached", cross_trainer_cache=service.CrossTrainerCache(trainer))
        )
        for trainer in ("fast", "slow")
    ]
    slow = iter(datasets[1])
    assert int(next(slow)) == 0
    assert numbers(datasets[0]) == list(range(100))
    assert numbers(slow) == list(range(1, 100)), "who lags behind skips nothing"


def test_consumers_that_are_coordinated_get_neighbours_though_their_worker_is_replaced(tf: Any, service: Any, cluster: Cluster) -> None:
    worker = cluster.start_worker()
    # Rounds of two batches of one width, as for sequences of similar length.
    dataset = tf.data.Dataset.range(10**6).map(lambda i: tf.fill([i // 2 % 5 + 1], i)).repeat()
    readers = [
        iter(dataset.apply(service.distribute("parallel_epochs", cluster.target, job_name="rounds", consumer_index=i, num_consumers=2)))
        for i in range(2)
    ]

    def rounds(begin: int, end: int) -> None:
        for step in range(begin, end):
            got = [values.numpy() for values in pool.map(next, readers)]
            assert [len(values) for values in got] == [step % 5 + 1] * 2, "of one width in each step"
            assert [int(values[0]) for values in got] == [2 * step, 2 * step + 1]

    with ThreadPoolExecutor(2) as pool:
        rounds(0, 20)
        cluster.start_worker()
        worker.stop()
        rounds(20, 400)


# ---- registered datasets and what they are made of


def test_a_registered_dataset_is_read_by_its_id(tf: Any, service: Any, one_worker: str) -> None:
    def made() -> Any:
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["0", "3"], tf.constant([10, 13], tf.int64)), -1)
        return tf.data.Dataset.range(5).map(lambda i: (i, table.lookup(tf.strings.as_string(i))))

    dataset_id = service.register_dataset(one_worker, made())
    assert dataset_id.dtype == tf.string
    assert service.register_dataset(("grpc", one_worker.split("://")[1]), made()) == dataset_id, "the same dataset has one id"
    for named in (dataset_id, dataset_id.numpy(), dataset_id.numpy().decode()):
        read = service.from_dataset_id("distributed_epoch", one_worker, named, job_name="by-id")
        assert read.element_spec == made().element_spec
    assert [(int(i), int(known)) for i, known in read] == [(0, 10), (1, -1), (2, -1), (3, 13), (4, -1)]
    with pytest.raises(ValueError, match="leave it out"):
        service.from_dataset_id("distributed_epoch", one_worker, dataset_id, element_spec=tf.TensorSpec((), tf.int64))
    with pytest.raises(ValueError, match="register_dataset gives the id"):
        service.from_dataset_id("distributed_epoch", one_worker, "0" * 32)


def test_graphs_that_are_large_or_call_python_and_elements_of_every_kind_go_through(tf: Any, service: Any, one_worker: str) -> None:
    large = tf.constant(np.arange(1_500_000, dtype=np.float32))  # 6 MB

    def element(i: Any) -> Any:
        small = tf.cast(i, tf.int32)
        return {
            "ragged": tf.RaggedTensor.from_row_lengths(tf.range(small + 2), [small, 2]),
            "sparse": tf.sparse.from_dense([[0, i], [i, 0]]),
            "text": tf.strings.as_string(i),
            "large": large[i * 1000],
        }

    generated = tf.data.Dataset.from_generator(lambda: iter(range(6)), output_signature=tf.TensorSpec((), tf.int64))
    dataset = generated.map(element)
    read = dataset.apply(service.distribute("parallel_epochs", one_worker))
    assert read.element_spec == dataset.element_spec
    elements = list(read)
    assert len(elements) == 6
    for got, wanted in zip(elements, dataset):
        assert got["ragged"].to_list() == wanted["ragged"].to_list()
        assert np.array_equal(tf.sparse.to_dense(got["sparse"]), tf.sparse.to_dense(wanted["sparse"]))
        assert (got["text"], got["large"]) == (wanted["text"], wanted["large"])


def test_optional_elements_come_with_their_value_or_without(tf: Any, service: Any, one_worker: str) -> None:
    optional = tf.experimental.Optional

    def even_only(x: Any) -> Any:
        return x, tf.cond(x % 2 == 0, lambda: optional.from_value(x * 10), lambda: optional.empty(tf.TensorSpec((), tf.int64)))

    dataset = tf.data.Dataset.range(6).map(even_only)
    read = dataset.apply(service.distribute("distributed_epoch", one_worker))
    assert read.element_spec == dataset.element_spec
    got = [(int(x), int(value.get_value()) if value.has_value() else None) for x, value in read]
    assert got == [(x, x * 10 if x % 2 == 0 else None) for x in range(6)]


NAMES_A_DATASET = """
import tensorflow as tf
from penstock import Dataset
print(Dataset.from_tf(tf.data.Dataset.range(9).map(lambda x: {name: x for name in ("id", "label", "weight", "age", "x")})).fingerprint())
"""


def test_elements_with_names_have_one_id_in_every_process() -> None:
    programs = [subprocess.Popen([sys.executable, "-c", NAMES_A_DATASET], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert len({program.communicate(timeout=200)[0] for program in programs}) == 1


def test_a_distributed_dataset_can_be_distributed_again(tf: Any, service: Any, one_worker: str) -> None:
    inner = tf.data.Dataset.range(8).apply(service.distribute("distributed_epoch", one_worker))
    outer = inner.map(lambda x: x * 10).apply(service.distribute("distributed_epoch", one_worker))
    assert sorted(numbers(outer)) == list(range(0, 80, 10))


# ---- servers that come and go


def test_nothing_is_lost_when_workers_and_the_dispatcher_are_restarted(tf: Any, service: Any, cluster: Cluster) -> None:
    worker = cluster.start_worker()
    reader = iter(tf.data.Dataset.range(3000).map(lambda x: tf.fill([500], x)).apply(service.distribute("distributed_epoch", cluster.target)))
    got = [int(next(reader)[0]) for _ in range(50)]
    cluster.dispatcher.stop()
    got += [int(next(reader)[0]) for _ in range(50)]
    cluster.start_dispatcher()
    cluster.start_worker()
    worker.stop()
    got += [int(values[0]) for values in reader]
    assert sorted(got) == list(range(3000))


def test_a_worker_that_comes_in_mid_job_reads_all_of_it_where_each_does(tf: Any, service: Any, cluster: Cluster) -> None:
    cluster.start_worker()
    dataset = tf.data.Dataset.range(2000).map(lambda x: tf.fill([5000], x))
    reader = iter(dataset.apply(service.distribute("parallel_epochs", cluster.target)))
    got = [int(next(reader)[0]) for _ in range(20)]
    cluster.start_worker()
    got += [int(values[0]) for values in reader]
    assert sorted(got) == sorted(2 * list(range(2000)))


def test_servers_may_come_after_the_program_that_reads(tf: Any, service: Any, cluster: Cluster) -> None:
    address = cluster.target
    cluster.dispatcher.stop()
    got: list[int] = []
    reader = threading.Thread(target=lambda: got.extend(numbers(tf.data.Dataset.range(7).apply(service.distribute("distributed_epoch", address)))))
    reader.start()
    cluster.start_dispatcher()
    cluster.start_worker()
    reader.join(100)
    assert got == list(range(7))


EXITS = """
import atexit, time
ending = []
atexit.register(lambda: print(time.monotonic() - ending[0], flush=True))  # after all others
import tensorflow as tf
from penstock import tf as service
dispatcher = service.DispatchServer()
worker = service.WorkerServer(service.WorkerConfig(dispatcher.target.split("://")[1]))
print(dispatcher._server._process.pid, worker._server._process.pid)
options = tf.data.Options()
options.autotune.enabled = False  # its thread misses cancellations now and then, and sleeps on for seconds, with any dataset
endless = tf.data.Dataset.range(10).repeat().apply(service.distribute("distributed_epoch", dispatcher.target)).prefetch(4).with_options(options)
reader = iter(endless)
next(reader)
begin = time.monotonic()
del reader
print(time.monotonic() - begin)
waiting = iter(tf.data.Dataset.range(10**9).filter(lambda x: x < 0).apply(service.distribute("distributed_epoch", dispatcher.target)).prefetch(1))
del waiting  # nothing will come
reader = iter(endless)
next(reader)
ending.append(time.monotonic())
raise SystemExit(7)
"""


def test_a_program_ends_at_once_and_its_servers_with_it() -> None:
    done = subprocess.run([sys.executable, "-c", EXITS], env=_binary.environment(), capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 7, done.stderr[-3000:]
    servers, cancelled, left = done.stdout.split("\n")[:3]
    assert float(cancelled) < 1
    assert float(left) < 1, "of what penstock does at the end"
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in servers.split()), "that the servers are gone")


DROPS = """
import os
os.environ["PENSTOCK_TF_OP"] = "0"
import tensorflow as tf
from penstock import _tf_dataset
from penstock._tf_op.eager import quick
iterators = [iter(tf.data.Dataset.range(3)), iter(quick(tf.data.Dataset.range(3)))]
_tf_dataset._drop_iterators()
print([type(iterator).__name__ for iterator in iterators if iterator._iterator_resource is None])
"""


def test_iterators_of_every_class_are_dropped_while_python_is_there() -> None:
    done = subprocess.run([sys.executable, "-c", DROPS], env=_binary.environment(), capture_output=True, text=True, timeout=200, check=False)
    assert done.stdout.strip() == "['OwnedIterator', '_Iterator']", done.stderr[-3000:]


def test_an_error_on_a_worker_reaches_the_loop(tf: Any, service: Any, one_worker: str) -> None:
    broken = tf.data.Dataset.range(10).map(lambda x: tf.debugging.check_numerics(tf.constant(1.0) / tf.cast(x - 3, tf.float32), "three"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="three"):
        list(broken.apply(service.distribute("distributed_epoch", one_worker)))
    missing = tf.data.Dataset.range(3).map(lambda x: tf.io.read_file("/no/such/file"))
    read = missing.apply(service.distribute("distributed_epoch", one_worker))
    with pytest.raises(tf.errors.NotFoundError, match="/no/such/file"):
        list(read)
    with pytest.raises(tf.errors.NotFoundError, match="/no/such/file"):
        read.map(lambda text: text).reduce(0, lambda count, _: count + 1)
