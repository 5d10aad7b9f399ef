"""What the loops of other ranks see when a rank, the whole job or the dispatcher with all it knew is gone."""

import shutil
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

import penstock
from conftest import StartCluster
from penstock import Dataset
from support.consumers import read_in_threads
from support.data import Records, write_records
from support.ranks import ids_of, run_leg
from support.victims import victims
from support.waiting import wait_until

N = 32
MEMORY = "4MiB"


@pytest.fixture(scope="session")
def records(tmp_path_factory: pytest.TempPathFactory) -> Records:
    """More than ranks hold at a time."""
    return write_records(tmp_path_factory.mktemp("large"), files=24, rows=500, payload=4000)


def _dataset(records: Records) -> Dataset:
    return Dataset.from_tfrecord(records.pattern).parse_example({"id": "int64", "payload": "string"}).batch(N)


def _rank(records: Records, address: str, **options: object) -> penstock.Reader:
    settings = {"job_name": "job", "consumer_index": 0, "num_consumers": 1, "even": "uneven", "timeout": 60.0, "memory": MEMORY, **options}
    return _dataset(records).distribute(address, **settings)  # type: ignore[arg-type]


# ---- a rank that is started anew, without a state


def test_a_rank_that_is_started_anew_without_a_state_is_told_the_ways_on(start_cluster: StartCluster, records: Records) -> None:
    cluster = start_cluster(1)
    with victims(records.pattern, cluster.address, 1, batch=N, steps=10, job_name="job") as (victim,):
        wait_until(lambda: cluster.status()["jobs"][0]["rows"] > 0, "the dispatcher knows that rows were delivered")
        victim.kill()
        with _rank(records, cluster.address, attempt=1) as anew, pytest.raises(penstock.Error, match="load_state_dict") as told:
            next(iter(anew))
    assert 'on_restart="continue"' in str(told.value)
    assert 'on_restart="restart"' in str(told.value)


def test_on_restart_continue_goes_on_with_what_the_one_before_had_last(start_cluster: StartCluster, records: Records) -> None:
    cluster = start_cluster(1)
    with victims(records.pattern, cluster.address, 1, batch=N, steps=40, job_name="job", on_restart="continue") as (victim,):
        wait_until(lambda: cluster.status()["jobs"][0]["rows"] >= 40 * N, "the dispatcher knows of all batches")
        victim.kill()
        with _rank(records, cluster.address, attempt=1, on_restart="continue") as anew:
            rest = [i for batch in anew for i in ids_of(batch)]
    assert sorted({*victim.ids, *rest}) == records.ids
    assert max(Counter(rest).values()) == 1
    assert len(rest) <= records.rows - 39 * N, "only the last batch is in doubt: whether the loop was done with it"


def test_on_restart_restart_reads_all_of_it_again(start_cluster: StartCluster, records: Records) -> None:
    cluster = start_cluster(1)
    with victims(records.pattern, cluster.address, 1, batch=N, steps=10, job_name="job", on_restart="restart") as (victim,):
        wait_until(lambda: cluster.status()["jobs"][0]["rows"] > 0, "the dispatcher knows that rows were delivered")
        victim.kill()
        with _rank(records, cluster.address, attempt=1, on_restart="restart") as anew:
            assert sorted(i for batch in anew for i in ids_of(batch)) == records.ids


@pytest.mark.parametrize("even", ["drop", "pad"])
def test_where_all_end_at_one_step_the_steps_before_a_rank_was_killed_count(even: str, start_cluster: StartCluster, records: Records) -> None:
    cluster = start_cluster(2)
    options = {"num_consumers": 2, "even": even, "on_restart": "continue"}
    killed, in_step, saved = threading.Event(), threading.Barrier(2, timeout=60), threading.Event()
    state: dict[str, object] = {}
    with _rank(records, cluster.address, consumer_index=1, **options) as other, ThreadPoolExecutor(1) as pool:

        def read_other() -> list[list[int]]:
            batches = []
            for batch in other:
                batches.append(ids_of(batch))
                if len(batches) == 40:
                    killed.wait(60)
                if len(batches) >= 60:  # as ranks that synchronise gradients are
                    in_step.wait()
                if len(batches) == 60:
                    state.update(other.state_dict())
                    saved.set()
            return batches

        reading = pool.submit(read_other)
        with victims(records.pattern, cluster.address, 1, batch=N, steps=40, job_name="job", **options) as (victim,):
            wait_until(lambda: cluster.status()["jobs"][0]["rows"] >= 80 * N, "the dispatcher knows of all batches")
            victim.kill()
            killed.set()
            with _rank(records, cluster.address, attempt=1, **options) as anew:
                rest = []
                for batch in anew:
                    rest.append(ids_of(batch))
                    if len(rest) >= 21:  # what the victim had in its hands comes again
                        in_step.wait()
                        saved.wait(60)
        others = reading.result(60)
    assert {*victim.batches[-1]} <= {i for batch in rest for i in batch}, "in other company where it was joined of lanes' tails"
    assert len(victim.batches) - 1 + len(rest) == len(others)
    assert state["tag"] == 60, "the rank that was started anew has this step, too"
    again = sum(batch == before for rank in (rest, others) for before, batch in zip(rank, rank[1:], strict=False))
    assert again < 2, "only what pads the last step"
    rows = {i for rank in (victim.batches, rest, others) for batch in rank for i in batch}
    assert records.rows - len(rows) < 2 * N


# ---- a rank that died


def test_a_declared_rank_s_death_holds_its_rows_until_it_is_back(start_cluster: StartCluster, records: Records) -> None:
    cluster = start_cluster(2)
    options = {"num_consumers": 2, "on_restart": "continue"}
    with (
        victims(records.pattern, cluster.address, 1, batch=N, steps=10, job_name="job", **options) as (victim,),
        _rank(records, cluster.address, consumer_index=1, **options) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        got: list[int] = []
        reading = pool.submit(lambda: got.extend(i for batch in other for i in ids_of(batch)))
        wait_until(lambda: got, "the other rank reads")
        victim.kill()
        wait_until(lambda: other.stats().waiting_for, "the other rank has read all that is not held")
        assert not reading.done()
        assert len(set(got)) < records.rows
        with _rank(records, cluster.address, attempt=1, **options) as anew:
            rest = [i for batch in anew for i in ids_of(batch)]
        reading.result(60)
    assert sorted({*victim.ids, *got, *rest}) == records.ids
    assert max(Counter(got + rest).values()) == 1
    assert sum(Counter(victim.ids + got + rest).values()) - records.rows <= len(victim.ids)


def test_on_death_redeliver_gives_a_dead_rank_s_rows_to_the_living(start_cluster: StartCluster, records: Records) -> None:
    cluster = start_cluster(2)
    options = {"num_consumers": 2, "on_death": "redeliver"}
    with victims(records.pattern, cluster.address, 1, batch=N, steps=10, job_name="job", **options) as (victim,):
        victim.kill()
    with _rank(records, cluster.address, consumer_index=1, **options) as other:
        got = [i for batch in other for i in ids_of(batch)]
    assert sorted({*victim.ids, *got}) == records.ids
    assert max(Counter(got).values()) == 1


# ---- all ranks, or all that the dispatcher knew


@pytest.mark.parametrize("mode", ["shared", "strict"])
def test_a_job_whose_ranks_were_all_killed_goes_on_from_its_checkpoint_on_others(mode: str, start_cluster: StartCluster, records: Records) -> None:
    cluster = start_cluster(2)
    with victims(records.pattern, cluster.address, 2, batch=N, steps=20, save=True, job_name="job", processing_mode=mode) as killed:
        for victim in killed:
            victim.kill()
        rest = run_leg(_dataset(records), cluster.address, 3, state=killed[0].state, attempt=1, processing_mode=mode)
    assert sorted([i for victim in killed for i in victim.ids] + rest.ids()) == records.ids


@pytest.mark.parametrize("mode", ["shared", "strict"])
def test_a_dispatcher_that_lost_its_state_takes_the_job_up_again_from_the_loops(mode: str, start_cluster: StartCluster, records: Records) -> None:
    cluster = start_cluster(2)

    seen = Counter[int]()
    lost = threading.Event()

    def on_batch(rank: int, batch: object) -> None:
        seen[rank] += 1
        if rank == 0 and seen[rank] == 40:
            cluster.kill_dispatcher()
            shutil.rmtree(cluster.directory / "state")
            cluster.start_dispatcher()
            cluster.wait_until_ready()
            wait_until(lambda: "job.restore" in cluster.log("dispatcher"), "the dispatcher takes the job up again")
            lost.set()
        if rank == 1 and seen[rank] == 50:
            lost.wait(60)  # both have much to read when it happens, and are not at the same step

    options = {"job_name": "job", "num_consumers": 2, "processing_mode": mode, "memory": MEMORY}
    got = read_in_threads(_dataset(records), cluster.address, 2, on_batch=on_batch, **options)
    assert sorted(i for rank in got for batch in rank for i in batch) == records.ids
