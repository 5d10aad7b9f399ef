"""A wrong argument is refused where it is given, by penstock's own error, which names the argument, its value and what is expected."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock
from penstock import Dataset, Fixed, Ragged, Spec, Var, _identity, dds
from penstock.tfrecord import write_tfrecord

ROWS = Dataset.from_range(10)

Call = Callable[[], object]


def _call(function: Callable[..., object], *args: Any, **kwargs: Any) -> Call:
    return functools.partial(function, *args, **kwargs)


WRONG: list[tuple[Call, str]] = [
    (_call(Dataset.from_range, 10.5), r"from_range: start=10\.5 .*expected a whole number"),
    (_call(Dataset.from_range, "10"), "from_range: start='10'"),
    (_call(Dataset.from_range, 0, 2**70), r"from_range: stop=1180591620717411303424 .*to 2\*\*63-1"),
    (_call(Dataset.from_range, 0, 5, 0), "from_range: step=0"),
    (_call(Dataset.from_range, None), "from_range: start=None"),
    (_call(Dataset.from_tfrecord, 5), "from_tfrecord: files=5 .*expected a path or pattern"),
    (_call(Dataset.from_tfrecord, []), r"from_tfrecord: files=\[\] .*at least one"),
    (_call(Dataset.from_tfrecord, ["a", 5]), "from_tfrecord: files=5"),
    (_call(Dataset.from_tfrecord, "a", compression="gz"), "from_tfrecord: compression='gz' .*'gzip'"),
    (_call(Dataset.from_tfrecord, "a", verify_crc="no"), "from_tfrecord: verify_crc='no' .*True or False"),
    (_call(Dataset.from_python, [1, 2]), r"from_python: factory=\[1, 2\] .*a function"),
    (_call(Dataset.from_python, list, lanes=0), "from_python: lanes=0 .*from 1"),
    (_call(Dataset.from_python, list, spec="int64"), r"from_python: spec='int64' .*Spec\(dtype, shape\)"),
    (_call(Dataset.from_torch, 5), "from_torch: dataset=5 .*a torch dataset"),
    (_call(Dataset.from_tf, ROWS), "from_tf: dataset=.*a tf.data.Dataset"),
    (_call(Dataset.from_tf, [1, 2]), "from_tf: dataset=.*a tf.data.Dataset"),
    (_call(ROWS.map, 5), "map: fn=5 .*a function of a row"),
    (_call(ROWS.map, abs, spec={"a": 5}), "map: spec=5"),
    (_call(ROWS.filter, None), "filter: fn=None"),
    (_call(ROWS.flat_map, "x"), "flat_map: fn='x'"),
    (_call(ROWS.map_batch, abs, 0), "map_batch: batch_size=0"),
    (_call(ROWS.parse_example, ["id"]), r"parse_example: features=\['id'\] .*a dict"),
    (_call(ROWS.parse_example, {}), "parse_example: features={}"),
    (_call(ROWS.parse_example, {5: "int64"}), "parse_example: features={5"),
    (_call(ROWS.project, "id"), r"project: columns='id' .*\['id'\]"),
    (_call(ROWS.project, [1]), "project: columns=1 .*a string"),
    (_call(ROWS.prefetch, "many"), "prefetch: buffer_size='many'"),
    (_call(ROWS.interleave, 0), "interleave: cycle_length=0"),
    (_call(ROWS.shuffle, 0), "shuffle: buffer_size=0 .*a whole number from 1"),
    (_call(ROWS.shuffle, 10, 1.5), r"shuffle: seed=1\.5"),
    (_call(ROWS.batch, 4.7), r"batch: batch_size=4\.7 .*a whole number from 1"),
    (_call(ROWS.batch, "4"), "batch: batch_size='4'"),
    (_call(ROWS.batch, True), "batch: batch_size=True"),
    (_call(ROWS.batch, None), "batch: batch_size=None"),
    (_call(ROWS.batch, 4, 3), "batch: drop_remainder=3"),
    (_call(ROWS.padded_batch, 0), "padded_batch: batch_size=0"),
    (_call(ROWS.take, -2), "take: count=-2 .*where -1 is all"),
    (_call(ROWS.skip, -1), "skip: count=-1"),
    (_call(ROWS.shard, 0, 0), "shard: num_shards=0"),
    (_call(ROWS.shard, 2, 2), "shard: index=2 .*from 0 to 1"),
    (_call(ROWS.shard, 2, -1), "shard: index=-1"),
    (_call(ROWS.enumerate, "a"), "enumerate: start='a'"),
    (_call(ROWS.repeat, -2), "repeat: count=-2"),
    (_call(ROWS.zip, [1, 2]), r"zip: others=\[1, 2\] .*datasets"),
    (_call(ROWS.concatenate, ROWS, None), "concatenate: others=None"),
    (_call(Dataset.from_arrays, 5), "from_arrays: the array is a single value"),
    (_call(Fixed, "float32", 4), r"Fixed: shape=4 .*such as \(4,\)"),
    (_call(Fixed, "float32", (1.5,)), r"Fixed: shape=1\.5"),
    (_call(Fixed, object()), "dtype=.*a name such as 'int64'"),
    (_call(Var, 5), "dtype=5"),
    (_call(Ragged, np.zeros(3), ()), "shape .* ragged"),
    (_call(Ragged, np.zeros(3), 5), "Ragged: offsets=5"),
    (_call(dds.register_dataset, ROWS, [1]), r"service=\[1\]"),
    (_call(ROWS.distribute, 5050), "service=5050 .*'penstock://host:5050'"),
    (_call(ROWS.distribute, ""), "service is ''"),
    (_call(ROWS.distribute, "inline", job_name=5), "job_name=5 .*a string"),
    (_call(ROWS.distribute, "inline", processing_mode=["shared"]), "processing_mode="),
    (_call(ROWS.distribute, "inline", processing_mode="sharde"), "sharde"),
    (_call(ROWS.distribute, "inline", seed=-1), "seed=-1"),
    (_call(ROWS.distribute, "inline", epochs=0), "epochs=0 .*None for one at each iteration"),
    (_call(ROWS.distribute, "inline", even=True), "even=True"),
    (_call(ROWS.distribute, "inline", memory="much"), "memory='much' .*'256MiB'"),
    (_call(ROWS.distribute, "inline", memory=0), "memory=0"),
    (_call(ROWS.distribute, "inline", timeout="10"), "timeout='10' .*seconds"),
    (_call(ROWS.distribute, "inline", timeout=float("nan")), "timeout=nan"),
    (_call(ROWS.distribute, "inline", consumer_index=1), "consumer_index and num_consumers go together"),
    (_call(ROWS.distribute, "inline", consumer_index=2, num_consumers=2), "consumer_index=2 .*from 0 to 1"),
    (_call(ROWS.distribute, "inline", on_restart="retry"), "retry"),
    (_call(ROWS.distribute, "inline", compression="gzip"), "compression='gzip' .*'lz4' or 'zstd' or None"),
    (_call(ROWS.distribute, "inline", on_death=None), "on_death=None"),
    (_call(ROWS.distribute, "inline", places=1.5), r"places=1\.5"),
    (_call(penstock.connect, 5050), "service=5050"),
    (_call(penstock.connect, "inline", token=5), "connect: token=5"),
    (_call(penstock.connect, "penstock://127.0.0.1:1", tls=5), "connect: tls=5 .*PEM"),
    (_call(penstock.connect, "inline", timeout=-1), "connect: timeout=-1"),
    (_call(penstock.connect, "local:0"), "local:0"),
    (_call(penstock.local, workers="2"), "local: workers='2' .*from 1 to 1024"),
    (_call(penstock.local, workers=0), "local: workers=0"),
    (_call(penstock.local, memory="lots"), "local: memory='lots'"),
    (_call(write_tfrecord, 5, []), "write_tfrecord: path=5"),
    (_call(write_tfrecord, "/dev/null", [], "gz"), "write_tfrecord: compression='gz'"),
    (_call(write_tfrecord, "/dev/null", [[1]]), r"write_tfrecord: a row=\[1\]"),
    (_call(write_tfrecord, "/dev/null", [{1: 1}]), "write_tfrecord: a feature's name=1"),
    (_call(write_tfrecord, "/dev/null", [{"a": 2**63}]), "write_tfrecord: feature 'a'=9223372036854775808 .*int64"),
    (_call(write_tfrecord, "/dev/null", [{"a": [0, -(2**63) - 1]}]), "write_tfrecord: feature 'a'=-9223372036854775809"),
    (_call(write_tfrecord, "/dev/null", [{"a": np.uint64(2**64 - 1)}]), "write_tfrecord: feature 'a'=18446744073709551615"),
    (_call(write_tfrecord, "/dev/null", [{"a": 1e39}]), r"write_tfrecord: feature 'a'=1e\+39 .*32 bits"),
    (lambda: _identity.current().place(None, 0, 2), "this is rank 0 of 2"),
    (lambda: ROWS.map(lambda x: ()).element_spec, r"the row is \(\), and holds nothing"),
]


@pytest.mark.parametrize(("call", "words"), WRONG, ids=[words.split(" ")[0] + str(i) for i, (_, words) in enumerate(WRONG)])
def test_a_wrong_argument_is_named_at_the_call(call: Call, words: str) -> None:
    with pytest.raises(penstock.Invalid, match=words):
        call()


def test_what_is_nearly_a_number_of_python_is_one() -> None:
    dataset = Dataset.from_range(np.int64(10)).shuffle(np.int32(4), seed=np.int64(1)).batch(np.uint8(4), drop_remainder=np.bool_(True)).take(-1)  # type: ignore[arg-type]
    assert dataset.cardinality() == 2
    assert Fixed("int64", [2, np.int64(3)]).shape == (2, 3)
    assert len(list(Dataset.from_range(4).map(lambda i: i, spec=Spec(np.dtype("int64"), ())).distribute("inline", memory=1 << 24, timeout=5))) == 4


def test_arguments_that_are_missing_or_too_many_are_python_s_own_error() -> None:
    with pytest.raises(TypeError, match="batch_size"):
        ROWS.batch()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'tiemout'; it takes job_name"):
        ROWS.distribute("inline", tiemout=3)  # type: ignore[call-arg]


def test_a_reader_s_methods_name_wrong_arguments_too() -> None:
    with ROWS.distribute("inline") as reader:
        for call, words in (
            (_call(reader.state_dict, behind=-1), "state_dict: behind=-1"),
            (_call(reader.state_dict, scope="all"), "state_dict: scope='all' .*'job' or 'rank'"),
            (_call(reader.state_dict, timeout=None), "state_dict: timeout=None"),
            (_call(reader.set_epoch, "next"), "set_epoch: epoch='next'"),
            (_call(reader.load_state_dict, "state"), "load_state_dict takes what state_dict gave"),
        ):
            with pytest.raises(penstock.Invalid, match=words):
                call()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch_size": 4.5}, r"DataLoader: batch_size=4\.5"),
        ({"shuffle": 1}, "DataLoader: shuffle=1"),
        ({"collate_fn": 5}, "DataLoader: collate_fn=5"),
        ({"prefetch_factor": 0}, "DataLoader: prefetch_factor=0"),
        ({"mesh": 5}, "DataLoader: mesh=5 .*DeviceMesh"),
        ({"group": 5}, "DataLoader: group=5 .*process group"),
        ({"device": "gpu"}, "DataLoader: device='gpu' .*a device of torch"),
        ({"sampler": [1, 2]}, "sampler is torch's.*shuffle=True"),
        ({"worker_init_fn": print}, "worker_init_fn is torch's.*__getitem__"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_the_loader_names_wrong_arguments_and_says_what_torch_s_own_become(options: dict[str, Any], words: str) -> None:
    from penstock.torch import DataLoader

    with pytest.raises(penstock.Invalid, match=words):
        DataLoader(ROWS, service="inline", **options)


def test_torch_s_own_arguments_may_be_given_as_none() -> None:
    from penstock.torch import DataLoader

    assert len(list(DataLoader(ROWS, 5, service="inline", sampler=None, worker_init_fn=None, num_workers=4))) == 2
    with pytest.raises(TypeError, match="nonsense"):
        DataLoader(ROWS, 5, service="inline", nonsense=1)
