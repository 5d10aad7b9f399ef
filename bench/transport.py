"""Elements of 64 B to 16 MiB from readers to a loop on the same host: nothing is computed, all of it is handing over.

Elements lie in the readers' memory. penstock, tf.data service and DataLoader have two readers, and so has Ray Data, whose tasks fill blocks of its
object store; Arrow Flight and the bare socket, which is no more than two processes that send and receive as far as they have credit, have one.
Flight sends an element a message: its client and server are Python's, or where it says so bench/cpp/flight.cc. memcpy is no peer but a limit: one
core copies each element once, into the same memory each time.
"""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import resource
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from side_by_side import Case, Stopwatch, main

READERS = 2
# Bytes of an element, and how many of them the slowest takes. The others take more, so that each is measured for 0.2 s at least.
SIZES = {"64 B": (64, 8_000), "64 KiB": (64 << 10, 4_000), "1 MiB": (1 << 20, 1_500), "16 MiB": (16 << 20, 80)}
MORE = {"64 B": 100, "64 KiB": 16, "1 MiB": 4, "16 MiB": 5}
CPP_MORE = {**MORE, "64 B": 800}
FLIGHT_MORE = {"64 B": 20, "64 KiB": 3, "1 MiB": 1, "16 MiB": 1}
MEMCPY_MORE = {"1 MiB": 16, "16 MiB": 10}
WARM_UP = 16
KEPT = 32 << 20  # bytes of rows that readers have
PROGRAMS = Path(__file__).parents[1] / "build/release/bin"


def _timed(elements: Iterable[Any], count: int, watch: Stopwatch) -> float:
    """The time of `count` elements, after some to warm up."""
    iterator = iter(elements)
    for _ in range(WARM_UP):
        next(iterator)
    watch.start()
    for _ in range(count):
        next(iterator)
    watch.stop()
    return count


def _penstock(size: str, to_torch: bool = False, **options: Any) -> Callable[[Path, Stopwatch], float]:
    bytes_each, count = SIZES[size][0], SIZES[size][1] * MORE[size]

    def run(_: Path, watch: Stopwatch) -> float:
        import penstock

        dataset = _kept(bytes_each, count)
        with penstock.local(workers=READERS) as service, penstock.connect(service.address, **options) as client:
            if to_torch:
                from penstock.torch import DataLoader

                return _timed(DataLoader(dataset, service=client, batch_size=None), count, watch)
            with dataset.distribute(client) as reader:
                return _timed(reader, count, watch)

    return run


def _kept(bytes_each: int, count: int, shuffled: bool = False) -> Any:
    """Rows that lie in memory, at least so many. Shuffled ones are gathered from there: they are made on the way."""
    from penstock import Dataset

    kept = np.zeros((max(1, min(count, KEPT // bytes_each)), bytes_each), np.uint8)
    dataset = Dataset.from_arrays({"x": kept})
    if shuffled:
        dataset = dataset.shuffle(len(kept))
    return dataset.repeat(2 + (count + WARM_UP) // len(kept))


def _penstock_in_cpp(size: str, way: str, shuffled: bool = False) -> Callable[[Path, Stopwatch], float]:
    bytes_each, count = SIZES[size][0], SIZES[size][1] * CPP_MORE[size]

    def run(_: Path, watch: Stopwatch) -> float:
        import penstock
        from penstock.dds import register_dataset

        with penstock.local(workers=1) as service:
            dataset_id, _job = register_dataset(_kept(bytes_each, count, shuffled), service.address)
            return _told(watch, "bench_consume", service.address, dataset_id, str(count), way)

    return run


def _bare_socket(size: str, blocks: str) -> Callable[[Path, Stopwatch], float]:
    bytes_each, count = SIZES[size][0], SIZES[size][1] * MORE[size]
    return lambda _, watch: _told(watch, "bench_bare_socket", blocks, str(bytes_each), str(count))


def _handover(size: str) -> Callable[[Path, Stopwatch], float]:
    """Microseconds from a block that is complete in the worker to the loop that has it."""

    def run(_: Path, watch: Stopwatch) -> float:
        _told(watch, "bench_handover", str(SIZES[size][0]), "300")
        return watch.seconds * 1e6

    return run


def _told(watch: Stopwatch, program: str | Path, *arguments: str) -> float:
    """What a program says of the time between its own start and stop; CPU and memory are of all of it."""
    watch.start()
    done = subprocess.run([PROGRAMS / program, *arguments], capture_output=True, text=True, check=True)  # an absolute path stays what it is
    watch.stop()
    told = json.loads(done.stdout)
    watch.seconds = told["seconds"]
    watch.rss += resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10  # it has ended
    return float(told["elements"])


def _tf_data_service(size: str) -> Callable[[Path, Stopwatch], float]:
    bytes_each, count = SIZES[size]

    def run(_: Path, watch: Stopwatch) -> float:
        import tensorflow as tf

        servers = TfServers(READERS)
        dataset = tf.data.Dataset.from_tensors(tf.zeros(bytes_each, tf.uint8)).repeat()
        policy = tf.data.experimental.service.ShardingPolicy.OFF
        dataset = dataset.apply(tf.data.experimental.service.distribute(policy, servers.address))
        taken = _timed(dataset, count, watch)
        servers.stop()
        return taken

    return run


class TfServers:
    """A dispatcher and its workers, as processes."""

    def __init__(self, readers: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._ends: list[Any] = []
        self._processes: list[Any] = []
        self.address = self._start(spawn, _tf_dispatcher)
        for _ in range(readers):
            self._start(spawn, _tf_worker, self.address)

    def _start(self, spawn: Any, serve: Callable[..., None], *arguments: str) -> str:
        here, there = spawn.Pipe()
        process = spawn.Process(target=serve, args=(there, *arguments), daemon=True)
        process.start()
        self._ends.append(here)
        self._processes.append(process)
        return str(here.recv())

    def stop(self) -> None:
        for process in self._processes:
            process.kill()


def _tf_dispatcher(there: Any) -> None:
    import tensorflow as tf

    server = tf.data.experimental.service.DispatchServer()
    there.send(server.target.split("://")[1])
    there.recv()


def _tf_worker(there: Any, dispatcher: str) -> None:
    import tensorflow as tf

    config = tf.data.experimental.service.WorkerConfig(dispatcher_address=dispatcher)
    server = tf.data.experimental.service.WorkerServer(config)
    there.send("up")
    there.recv()
    del server


class _Rows:
    """A map-style dataset: the same bytes each time."""

    def __init__(self, bytes_each: int, count: int) -> None:
        self.row, self.count = np.zeros(bytes_each, np.uint8), count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        import torch

        return torch.from_numpy(self.row)


def _dataloader(size: str) -> Callable[[Path, Stopwatch], float]:
    bytes_each, count = SIZES[size]

    def run(_: Path, watch: Stopwatch) -> float:
        from torch.utils.data import DataLoader

        return _timed(DataLoader(_Rows(bytes_each, count + 2 * WARM_UP), batch_size=None, num_workers=READERS), count, watch)

    return run


def _flight(size: str) -> Callable[[Path, Stopwatch], float]:
    bytes_each, count = SIZES[size][0], SIZES[size][1] * FLIGHT_MORE[size]

    def run(_: Path, watch: Stopwatch) -> float:
        from pyarrow import flight

        spawn = multiprocessing.get_context("spawn")
        here, there = spawn.Pipe()
        server = spawn.Process(target=_flight_server, args=(there, bytes_each, count + 2 * WARM_UP), daemon=True)
        server.start()
        client = flight.connect(f"grpc://127.0.0.1:{here.recv()}")
        reader = client.do_get(flight.Ticket(b"rows"))
        taken = _timed((chunk.data["x"].to_numpy(zero_copy_only=False) for chunk in reader), count, watch)
        server.kill()
        return taken

    return run


def _flight_server(there: Any, bytes_each: int, count: int) -> None:
    """One element a message."""
    import pyarrow as pa
    from pyarrow import flight

    batch = pa.record_batch({"x": pa.array(np.zeros(bytes_each, np.uint8))})

    class Server(flight.FlightServerBase):  # type: ignore[misc]
        def do_get(self, context: Any, ticket: Any) -> Any:
            return flight.GeneratorStream(batch.schema, (batch for _ in range(count)))

    server = Server("grpc://127.0.0.1:0")
    there.send(server.port)
    server.serve()


def prepare(directory: Path) -> None:
    """Flight's program in C++, where the wheel of pyarrow is there with its headers and libraries."""
    if importlib.util.find_spec("pyarrow") is None:
        return
    import pyarrow

    wheel = Path(pyarrow.__file__).parent
    libraries = [f"-l:{next(wheel.glob(f'lib{name}.so.*')).name}" for name in ("arrow_flight", "arrow")]
    source = Path(__file__).parent / "cpp/flight.cc"
    link = [f"-L{wheel}", f"-Wl,-rpath,{wheel}", *libraries]
    subprocess.run(["c++", "-std=c++20", "-O2", f"-isystem{wheel / 'include'}", source, *link, "-o", directory / "flight"], check=True)


def _flight_in_cpp(size: str) -> Callable[[Path, Stopwatch], float]:
    bytes_each, count = SIZES[size][0], SIZES[size][1] * FLIGHT_MORE[size]
    return lambda directory, watch: _told(watch, directory / "flight", str(bytes_each), str(count))


RAY_MORE = {"64 KiB": 8, "1 MiB": 2, "16 MiB": 3}  # so that what tasks made while the loop warmed up is a small part
RAY_STORE = 1 << 30


def _ray_data(size: str, by_rows: bool) -> Callable[[Path, Stopwatch], float]:
    bytes_each, count = SIZES[size][0], SIZES[size][1] * RAY_MORE[size]
    together = max(1, (1 << 20) // bytes_each)

    def run(_: Path, watch: Stopwatch) -> float:
        import ray
        import ray.data

        ray.init(num_cpus=READERS, object_store_memory=RAY_STORE, log_to_driver=False, include_dashboard=False, _node_ip_address="127.0.0.1")
        ray.data.DataContext.get_current().enable_progress_bars = False
        made = ray.data.range(count + 2 * WARM_UP).map_batches(
            lambda rows: {"x": np.zeros((len(rows["id"]), bytes_each), np.uint8)}, batch_size=together
        )
        batches = made.iter_batches(batch_size=together, batch_format="numpy")
        rows = iter(made.iter_rows()) if by_rows else (row for batch in batches for row in batch["x"])
        taken = _timed(rows, count, watch)
        for _ in rows:  # threads that still fetch die in a shutdown, and the process with them
            pass
        ray.shutdown()
        return taken

    return run


def _memcpy(size: str) -> Callable[[Path, Stopwatch], float]:
    bytes_each, count = SIZES[size][0], SIZES[size][1] * MEMCPY_MORE[size]

    def run(_: Path, watch: Stopwatch) -> float:
        kept, place = np.ones(bytes_each, np.uint8), np.zeros(bytes_each, np.uint8)
        return _timed(iter(lambda: np.copyto(place, kept), 0), count, watch)

    return run


FLIGHT_CPP, FLIGHT_PYTHON = "Arrow Flight in C++, one a message", "Arrow Flight in Python, one a message"
AIMS = {"64 B": 40.0, "64 KiB": 25.0, "1 MiB": 5.0, "16 MiB": 8.0}
NEEDS = {
    "Arrow Flight": "pyarrow.flight",
    FLIGHT_CPP: "pyarrow.flight",
    FLIGHT_PYTHON: "pyarrow.flight",
    "tf.data service": "tensorflow",
    "DataLoader": "torch",
}
NEEDS |= {"Ray Data, iter_rows": "pandas", "Ray Data, iter_batches": "pandas"}  # which ray alone does without, and ray.data does not


def _cases() -> list[Case]:
    cases = []
    for size, aim in AIMS.items():
        peers = {"tf.data service": _tf_data_service(size), "Arrow Flight": _flight(size)}
        if size in RAY_MORE:
            peers |= {"Ray Data, iter_batches": _ray_data(size, False), "Ray Data, iter_rows": _ray_data(size, True)}
        if size in ("1 MiB", "16 MiB"):
            peers["memcpy, a limit"] = _memcpy(size)
        cases.append(Case(f"{size}, numpy", "elements/s", _penstock(size), peers, at_least={"tf.data service": aim}, needs=NEEDS))
    for size in ("64 KiB", "1 MiB", "16 MiB"):
        aims = {"DataLoader": 5.0} if size == "1 MiB" else {}
        cases.append(
            Case(f"{size}, torch", "elements/s", _penstock(size, to_torch=True), {"DataLoader": _dataloader(size)}, at_least=aims, needs=NEEDS)
        )
        plain = _penstock(size, shared_memory=False)
        cases.append(Case(f"{size}, numpy, over a socket", "elements/s", plain, {"Arrow Flight": _flight(size)}, needs=NEEDS))
    for size in ("64 KiB", "1 MiB", "16 MiB"):
        aims = {"bare socket": 0.9}
        kept = {"bare socket": _bare_socket(size, "kept")}
        made = {"bare socket": _bare_socket(size, "made")}
        cases.append(Case(f"{size}, C++, over a socket", "elements/s", _penstock_in_cpp(size, "socket"), kept, at_least=aims))
        gathered = _penstock_in_cpp(size, "socket", shuffled=True)
        cases.append(Case(f"{size}, C++, over a socket, made on the way", "elements/s", gathered, made, at_least=aims))
    small = {"the same, 64 KiB": _handover("64 KiB")}
    once_and_a_half = {"the same, 64 KiB": 0.67}
    cases.append(Case("16 MiB, handover alone", "us", _handover("16 MiB"), small, lower_is_better=True, at_least=once_and_a_half))
    flight = {FLIGHT_CPP: _flight_in_cpp("64 B"), FLIGHT_PYTHON: _flight("64 B")}
    cases.append(Case("64 B, C++", "elements/s", _penstock_in_cpp("64 B", "shared"), flight, at_least={FLIGHT_CPP: 5.0}, needs=NEEDS))
    return cases


if __name__ == "__main__":
    main("transport", _cases(), prepare)
