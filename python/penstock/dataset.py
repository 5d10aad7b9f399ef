"""Dataset: how rows are made. Lazy and immutable: nothing is read until it is iterated or distributed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, overload

from penstock import _core, _foreign, _identity, _sources
from penstock._check import checked, files, flag, function, instances, mapping, names, one_of, optional, path, whole
from penstock.condition import Condition, row_condition
from penstock.errors import Invalid
from penstock.features import Fixed, Var, to_attr

if TYPE_CHECKING:
    from os import PathLike

    from typing_extensions import Unpack

    from penstock._options import Options
    from penstock.reader import Reader
    from penstock.service import Service
    from penstock.spec import ElementSpec

    Files = str | PathLike[str] | Sequence[str | PathLike[str]]

UNKNOWN_CARDINALITY = -1
INFINITE_CARDINALITY = -2


_datasets = instances(lambda: Dataset, "datasets")
_row_function = function("a function of a row")
_spec = optional(_foreign.element_spec)
_lanes = whole(1, 2**20)


class Dataset:
    """A chain of operators over sources. Each method returns a new dataset.

    Iterating it reads it in this process (`inline`); `distribute` has workers read it.
    """

    def __init__(self, plan: _core.Plan | Callable[[], _core.Plan], *inputs: Dataset) -> None:
        """inputs: those whose plans the plan is made of."""
        self._made = plan
        self._inputs = inputs
        self._making = Lock()  # user code says what its rows are: once, also where two threads ask
        self._known_facts: dict[str, Any] | None = None

    @property
    def _plan(self) -> _core.Plan:
        """Made when first needed: what a function's rows look like is seen by calling it. Inputs first, one by one: a chain may be longer than
        Python's stack is deep.
        """
        waiting = [self]
        while not isinstance(self._made, _core.Plan):
            missing = [input for input in waiting[-1]._inputs if not isinstance(input._made, _core.Plan)]
            if len(waiting) > _core.MAX_PLAN_NODES:
                most = _core.MAX_PLAN_NODES
                raise Invalid(
                    f"the dataset is a chain of more than {most} operators, and a plan has no more; a function that takes several steps is one"
                )
            if missing:
                waiting += missing
            else:
                waiting.pop()._make()
        return self._made

    def _make(self) -> None:
        with self._making:
            if not isinstance(self._made, _core.Plan):
                self._made = self._made()
                self._inputs = ()

    # ---- sources

    @staticmethod
    @checked(start=whole(), stop=optional(whole()), step=whole())
    def from_range(start: int, stop: int | None = None, step: int = 1) -> Dataset:
        """The numbers of `range(start, stop, step)`, as int64; with one argument, from 0."""
        if stop is None:
            start, stop = 0, start
        if step == 0:
            raise Invalid("from_range: step=0 leads nowhere; expected a whole number other than 0")
        return _source("range", start=start, stop=stop, step=step)

    @staticmethod
    def from_arrays(arrays: Any) -> Dataset:
        """Rows of arrays that are equally long: a dict or tuple of arrays (nested where you like), or one array.

        The arrays travel inside the plan, so this is for small data: tests, tables, indices.
        """
        return _source("arrays", **_sources.arrays_attrs(arrays))

    @staticmethod
    @checked(files=optional(files), compression=one_of("auto", "none", "gzip", "zlib"), verify_crc=flag, listing=optional(path))
    def from_tfrecord(
        files: Files | None = None, compression: str = "auto", verify_crc: bool = True, *, listing: str | os.PathLike[str] | None = None
    ) -> Dataset:
        """Records of TFRecord files, as strings. `files` are paths or patterns, as the workers see them.

        compression: "auto" (by what the file begins with), "none", "gzip" or "zlib".
        listing: instead of files, a file of lines "path<tab>size<tab>seconds since 1970", as `find … -printf '%p\\t%s\\t%T@\\n'` prints them, for
            very many files: none is looked at before it is read. It needs a compression other than "auto".
        """
        if (files is None) == (listing is None):
            raise Invalid("from_tfrecord: name either files or a listing of them")
        if listing is not None and compression == "auto":
            raise Invalid('from_tfrecord: with listing= say compression="none", "gzip" or "zlib"; for "auto" every file would be looked at')
        named = {"files": files} if listing is None else {"listing": listing}
        return _source("tfrecord", **named, compression=compression, verify_crc=verify_crc)

    @staticmethod
    @checked(factory=function("a function that makes an iterable: each epoch and each worker begins it anew"), lanes=_lanes, spec=_spec)
    def from_python(factory: Callable[..., Iterable[Any]], *, lanes: int = 1, spec: ElementSpec | None = None) -> Dataset:
        """Rows of the iterable that `factory()` makes on a worker; with lanes > 1, `factory(lane, lanes)` makes each lane's.

        spec: what rows look like, as `element_spec` says it; None: as the first rows do.
        """
        return Dataset(lambda: _foreign.python_plan(factory, lanes, spec))

    @staticmethod
    @checked(dataset=_foreign.torch_dataset, lanes=_lanes, spec=_spec)
    def from_torch(dataset: Any, *, lanes: int = 1, spec: ElementSpec | None = None) -> Dataset:
        """Rows of a torch dataset. One with `__len__` and `__getitem__` is read by index: shuffle() permutes all of it, and resuming costs nothing.

        An iterable one is cut into `lanes`, each of which sees itself as one of so many workers (`torch.utils.data.get_worker_info`).
        """
        return Dataset(lambda: _foreign.torch_plan(dataset, lanes, spec))

    @staticmethod
    @checked(dataset=_foreign.tf_dataset, lanes=optional(_lanes))
    def from_tf(dataset: Any, *, lanes: int | None = None) -> Dataset:
        """Elements of a tf.data.Dataset, whose graph workers run. lanes: None for up to 8 where its files can be divided (what is done
        with their rows is done row by row), else 1.

        Seeds that were left out are drawn from the job's, and orders made deterministic; `explain()` says what was changed.
        """
        return Dataset(lambda: _foreign.tf_plan(dataset, lanes))

    # ---- rows

    @checked(fn=_row_function, spec=_spec)
    def map(self, fn: Callable[[Any], Any], *, spec: ElementSpec | None = None) -> Dataset:
        """`fn(row)` for each row, on workers that allow code. spec: what comes out; None: as the first rows show."""
        return Dataset(lambda: _foreign.function_plan(self, "map", fn, spec), self)

    @checked(fn=row_condition)
    def filter(self, fn: Callable[[Any], Any] | Condition) -> Dataset:
        """The rows for which `fn(row)` is true, or for which a condition holds: `filter((col("label") > 0) | (random() < 0.1))`.

        Conditions are evaluated by the workers themselves, without `--allow-code`; of a row that goes only the columns that they look at are parsed.
        """
        if isinstance(fn, Condition):
            return self._then("where", condition=fn.steps)
        return Dataset(lambda: _foreign.function_plan(self, "filter", fn, None), self)

    @checked(fn=function("a function of a row that gives rows"), spec=_spec)
    def flat_map(self, fn: Callable[[Any], Iterable[Any]], *, spec: ElementSpec | None = None) -> Dataset:
        """All rows of `fn(row)`, for each row."""
        return Dataset(lambda: _foreign.function_plan(self, "flat_map", fn, spec), self)

    @checked(fn=function("a function of columns"), batch_size=whole(1), spec=_spec)
    def map_batch(self, fn: Callable[[Any], Any], batch_size: int = 256, *, spec: ElementSpec | None = None) -> Dataset:
        """`fn(columns)` for up to `batch_size` rows at once, stacked; it returns columns of as many rows, each of them made of that row alone."""
        return Dataset(lambda: _foreign.function_plan(self, "map_batch", fn, spec, batch_size), self)

    @checked(features=mapping("a dict of feature names to dtypes, Fixed or Var: {'id': 'int64'}"))
    def parse_example(self, features: Mapping[str, Fixed | Var | Any]) -> Dataset:
        """Records, as tf.Examples, to dicts of features. A bare dtype means one value: `{"id": "int64"}`."""
        return self._then("parse_example", features=[to_attr(name, feature) for name, feature in features.items()])

    @checked(columns=names)
    def project(self, columns: Sequence[str]) -> Dataset:
        """Keeps these entries of each row's dict, in this order."""
        return self._then("project", columns=columns)

    @checked(buffer_size=optional(whole(-1)))
    def prefetch(self, buffer_size: int | None = None) -> Dataset:
        """Changes nothing: penstock reads ahead by itself, within its memory budget. Here for programs that come from tf.data."""
        return self._then("prefetch", count=buffer_size or 0)

    # ---- order

    @checked(cycle_length=whole(1))
    def interleave(self, cycle_length: int = 16) -> Dataset:
        """Takes rows from up to `cycle_length` files in turn."""
        return self._then("interleave", cycle_length=cycle_length)

    @checked(buffer_size=whole(1), seed=optional(whole()))
    def shuffle(self, buffer_size: int, seed: int | None = None) -> Dataset:
        """Mixes rows: inputs that can be counted as a whole; files by chunks, and rows in a buffer of `buffer_size`."""
        attrs = {"buffer_size": buffer_size}
        return self._then("shuffle", **(attrs if seed is None else {**attrs, "seed": seed}))

    @checked(batch_size=whole(1), drop_remainder=flag)
    def batch(self, batch_size: int, drop_remainder: bool = False) -> Dataset:
        """`batch_size` rows together, each column stacked; rows that differ in length become `Ragged`."""
        return self._then("batch", n=batch_size, drop_remainder=drop_remainder)

    @checked(batch_size=whole(1), drop_remainder=flag)
    def padded_batch(self, batch_size: int, drop_remainder: bool = False) -> Dataset:
        """Like batch, with ragged dimensions padded with zeros (empty strings) to the longest of the batch."""
        return self._then("padded_batch", n=batch_size, drop_remainder=drop_remainder)

    # ---- counts

    @checked(count=whole(-1, hint="where -1 is all"))
    def take(self, count: int) -> Dataset:
        """The first `count` rows of the whole dataset; all with -1."""
        return self._then("take", count=count)

    @checked(count=whole(0))
    def skip(self, count: int) -> Dataset:
        """All but the first `count` rows of the whole dataset."""
        return self._then("skip", count=count)

    @checked(num_shards=whole(1), index=whole(0))
    def shard(self, num_shards: int, index: int) -> Dataset:
        """Every `num_shards`-th row, from row `index` on."""
        if index >= num_shards:
            raise Invalid(f"shard: index={index} is none of num_shards={num_shards}; expected a whole number from 0 to {num_shards - 1}")
        return self._then("shard", num=num_shards, index=index)

    @checked(start=whole())
    def enumerate(self, start: int = 0) -> Dataset:
        """(number, row) for each row."""
        return self._then("enumerate", start=start)

    @checked(count=optional(whole(-1, hint="or None for without end")))
    def repeat(self, count: int | None = None) -> Dataset:
        """The dataset `count` times over; without end if None."""
        return self._then("repeat", count=-1 if count is None else count)

    # ---- several datasets

    @checked(others=_datasets)
    def zip(self, *others: Dataset) -> Dataset:
        """Rows side by side, as tuples; ends with the shortest."""
        return self._then("zip", *others)

    @checked(others=_datasets)
    def concatenate(self, *others: Dataset) -> Dataset:
        """The rows of this one, then those of the others, which must look alike."""
        return self._then("concatenate", *others)

    # ---- reading

    @overload
    def distribute(self, service: Literal["off"], **options: Any) -> Dataset: ...  # type: ignore[overload-overlap]
    @overload
    def distribute(self, service: Service | str | None = None, **options: Unpack[Options]) -> Reader: ...
    def distribute(self, service: Service | str | None = None, **options: Any) -> Any:
        """Has workers read this dataset, and returns the reader that receives from them.

        service: a Service, an address, "local[:N]", "inline" (here), "off" (this dataset, untouched),
            or None: what the environment names, else inline.
        job_name: readers that give the same name share one job, each row going to exactly one of them. None: `PENSTOCK_JOB_NAME`; with several
            ranks a name that all of them derive from the platform's job id and the ordinal of the dataset in the program; else a job of its own.
        processing_mode: "shared" (the default; each row once), "strict" (also in one order of batches, which is dealt to the consumers in turn and
            does not depend on workers and ranks) or "replicated" (each worker reads all). tf.data service's names work too.
        consumer_index, num_consumers: which of how many this reader is; None: the rank that the environment or the process group
            names, if there are several.
        seed: of all shuffling; with it the same rows come in the same lanes.
        epochs: how often the dataset is read; None: as often as it is iterated.
        even: whether all consumers end an epoch at the same step. "drop": yes, and fewer batches than there are consumers are dropped and
            counted; "pad": yes, and fewer than that come twice; "uneven": no, every row is delivered; "auto": "drop" where several consumers
            are declared, and wait for one that died (`on_death`).
        memory: of blocks that this reader holds at most.
        timeout: seconds without progress after which `Stalled` says what is waited for; the service is waited for as long. None: 600, and as long as
            `connect` says for the service.
        on_restart: an earlier start of this consumer has received rows, and no state is loaded: "error", "continue" (after what it asked for
            last: a few rows may come twice), or "restart" (the job begins again, for all consumers).
        on_death: what becomes of the lanes of a consumer that died: "hold" (they wait for it), "redeliver" (others get them), or "auto": hold
            where num_consumers is declared.
        places: in strict, from how many lanes batches are taken in turn: a part of the order. 0: as many as consumers at the first start. Other
            modes refuse it.
        attempt: how often the launcher has started the ranks anew; None: what torchrun, Slurm or TFJob says.
        compression: of what workers send: "lz4" or "zstd" wherever it goes over TCP; None or "none"; "auto": never within one host, and over a
            network where the link is what limits and workers find that the rows come faster so.
        """
        from penstock import _options, reader
        from penstock import service as services

        wanted = _options.check(options)
        where = services.resolve(service, wanted["timeout"])
        if where.kind == "off":
            return self
        _identity.check_shared(where, wanted["num_consumers"])
        return reader.open_reader(self, where, wanted)

    def __iter__(self) -> Iterator[Any]:
        from penstock import _options, reader
        from penstock import service as services

        return iter(reader.open_reader(self, services.connect("inline"), _options.check({})))

    # ---- what is known without reading

    @property
    def element_spec(self) -> ElementSpec:
        """What the loop will see: the nested structure, with dtype and shape at the leaves."""
        from penstock.spec import element_spec

        return element_spec(self._facts)

    def cardinality(self) -> int:
        """Elements of one epoch; -1: not known without reading, -2: endless."""
        return int(self._facts["cardinality"])

    @property
    def purity(self) -> str:
        """ "pure": the same rows each time; "pure identity": the same rows, with other values; "impure": others each time."""
        return str(self._facts["purity"])

    def fingerprint(self) -> str:
        """The dataset's id: the same for the same plan, on every machine."""
        return self._plan.fingerprint()

    def explain(self) -> str:
        """How each operator meets lanes, and what that means for order and memory."""
        return str(self._facts["explain"])

    def __repr__(self) -> str:
        return f"<penstock.Dataset {self.fingerprint()[:12]}>"

    @property
    def _facts(self) -> dict[str, Any]:
        if self._known_facts is None:
            self._known_facts = self._plan.facts()
        return self._known_facts

    def _array_columns(self, unbatched: bool = False) -> frozenset[int]:
        """Places of the ragged columns whose rows are arrays. `unbatched`: of rows before a last batching."""
        from penstock._executor import rows

        if not any(None in shape[1:] for _, _, shape in self._facts["element_columns"]):
            return frozenset()
        nodes = self._plan.nodes()
        return rows.array_columns(nodes, len(nodes) - 1, (name for name, _, _ in self._facts["element_columns"]), unbatched)

    def _value_types(self) -> Any:
        """Of which Python type each value was that user code gave (`Column.type`), in the structure of an element."""
        from penstock import _columns
        from penstock._executor import rows

        facts, nodes = self._facts, self._plan.nodes()
        names = (name for name, _, _ in facts["element_columns"])
        return _columns.builder(facts["element_structure"])(rows.value_types(nodes, len(nodes) - 1, names, facts["batch"] > 0))

    def _then(self, op: str, *others: Dataset, **attrs: Any) -> Dataset:
        return Dataset(lambda: _core.Plan.over([self._plan, *(other._plan for other in others)], op, attrs), self, *others)


def _source(op: str, **attrs: Any) -> Dataset:
    return Dataset(_core.Plan.over([], op, attrs))
