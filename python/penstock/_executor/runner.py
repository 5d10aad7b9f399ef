"""Runs the programs of one plan, lane by lane. The same in an executor and for `inline`."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from penstock import _core
from penstock._executor import doing, environment, process, rows, seeds
from penstock._executor.collate import Collator, view
from penstock._executor.failures import CodeError, from_exception
from penstock._executor.specs import Column, RowSpec
from penstock._executor.stages import FUNCTIONS, SOURCES, Function, HeldRows, Item, Part, Source

MAX_CHUNK = 64  # rows that pass through the functions together
SEND_AFTER = 0.02  # seconds: whole groups do not wait longer for more
# Seconds: then no other row of a chunk is begun. Longer than a busy machine keeps quick rows waiting: blocks that are cut anywhere cannot be compared
# with those of another worker.
PAUSE_AFTER = 0.1
ANSWER_AFTER = 1.0  # seconds: nothing waits longer, so that who watches sees that it works
LOOK_AFTER = 0.0002  # seconds: whether a call has come, while rows are made that nobody has asked for
LANE_END = (1 << 64) - 1

Open = dict[str, Any]
Rows = Collator | HeldRows


class Program:
    """Consecutive code operators: a source, or rows that are fed to it, and functions."""

    def __init__(self, nodes: list[tuple[str, list[int], dict[str, Any]]], numbers: list[int]) -> None:
        self.source: Source | None = None
        self.source_label = ""
        self.nodes, self.first = nodes, numbers[0]
        self.functions: list[Function] = []
        for number in numbers:
            op, _, attrs = nodes[number]
            doing.begin(f"the loading of {op}({attrs.get('label', '')})")
            with environment.loading(op, attrs):
                if op in SOURCES:
                    self.source = SOURCES[op](attrs)
                    self.source_label = f"{op}({attrs.get('label', '')})"
                else:
                    self.functions.append(FUNCTIONS[op](op, number, attrs))
            self.spec = RowSpec.from_attrs(attrs)
        doing.end()
        self.keeps_rows = all(function.op in ("map", "map_batch") for function in self.functions)
        self.chunk = max([MAX_CHUNK, *(function.batch_size for function in self.functions)])
        self.batched = max([1, *(function.batch_size for function in self.functions)])

    def array_inputs(self, input: RowSpec) -> frozenset[int]:
        """Places of the columns whose rows its first function sees as arrays, though they are ragged."""
        if not any(column.nested for column in input.columns):
            return frozenset()
        op, inputs, _ = self.nodes[self.first]
        return rows.array_columns(self.nodes, inputs[0], (column.name for column in input.columns), unbatched=op == "map_batch")


class Lane:
    """One lane of a program: rows wait here until they are written into a block."""

    def __init__(self, program: Program, open: Open) -> None:
        self.program = program
        self.key = seeds.Key(open["seed"], open["epoch"], open["replica"], open["ordinal"])
        self.first = (open["from_seq"], open["from_child"])
        self.rows: Rows = Collator(program.spec, program.keeps_rows)
        self.reached = self.first  # what was written ends here: a block begins where the last one ended, though rows were filtered between
        self.next_seq = open["from_seq"]  # of the source row to take next
        self.ended = False
        self.error: CodeError | None = None
        self.told: dict[str, Any] | None = None
        self.wanted: dict[str, Any] | None = None  # of the block that was written last; of the next it will be about the same
        self.input_spec = _input_spec(open["input"]) if open.get("input") else None
        self.input: Iterator[Any] = iter(())
        self.array_inputs = program.array_inputs(self.input_spec) if self.input_spec else frozenset()
        self.part = Part(self.key, open["part"], open["parts"])
        self.source: Iterator[Any] | None = None
        self.back: deque[Any] = deque()  # source rows that were taken and no function has seen
        self.behind: CodeError | None = None  # what the source raised after those

    def answer(self, want: dict[str, Any], block: memoryview | None, input_over: bool) -> dict[str, Any]:
        """What is there for the next block. Rows that were told are told again until they are written."""
        if block is not None and self.input_spec is not None:
            self._take(block)
        if self.told is not None:
            return self.told
        self.wanted = want
        told = self._work_here(want, input_over)
        self.told = told if told["rows"] else None
        return told

    def work_ahead(self) -> bool:
        """One row for the next block; whether there is more to do for it."""
        want = self.wanted
        if want is None or self.told is not None or self.program.batched > 1:
            return False
        if self._over(want) or self._complete(want, waited=0.0):
            return False
        return self._advance(want, ahead=True) > 0

    def write(self, places: list[list[int]], block: memoryview) -> list[int]:
        """CRC-32C of the buffers, where it was taken; else none."""
        assert self.told is not None
        crcs = self.rows.write(self.told["rows"], places, block)
        self.reached = (self.told["end_seq"], self.told["end_child"])
        if self.wanted is not None:
            self.wanted["phase"] = (self.wanted["phase"] + self.told["rows"]) % self.wanted["group"]
        self.told = None
        return crcs

    def _take(self, block: memoryview) -> None:
        # A copy: functions may keep or return views of what they were given, and the memory is used again.
        _, count, leaves = view(self.input_spec, memoryview(bytearray(block)))  # type: ignore[arg-type]
        build = self.input_spec.build  # type: ignore[union-attr]
        self.input = (build(row) for row in rows.split(leaves, self.array_inputs)) if count else iter(())

    # ---- work

    def _work_here(self, want: dict[str, Any], input_over: bool) -> dict[str, Any]:
        if process.in_executor:
            return self._work(want, input_over)
        with seeds.kept():  # the loop draws from the same generators
            return self._work(want, input_over)

    def _work(self, want: dict[str, Any], input_over: bool) -> dict[str, Any]:
        begin = time.monotonic()
        while True:
            waited = time.monotonic() - begin
            if self._complete(want, waited):
                return self._tell(want, over=waited >= ANSWER_AFTER)
            if self._over(want):
                return self._finish(want, over=self.ended)
            if waited >= ANSWER_AFTER:
                return self._answer(again=True)
            got = self._advance(want)
            if got == 0 and self.program.source is None and self.error is None:
                # The input's end may be that of a range, and more may follow.
                return self._finish(want, over=True) if input_over else self._answer(hungry=True)

    def _over(self, want: dict[str, Any]) -> bool:
        """No row comes behind those that wait."""
        return self.error is not None or self.ended or bool(self.next_seq >= want["to"])

    def _complete(self, want: dict[str, Any], waited: float) -> bool:
        if not len(self.rows):
            return False
        if want["by_group"]:
            return len(self.rows) >= int(want["group"])
        if self.rows.bytes >= want["cap"] or waited >= ANSWER_AFTER:
            return True
        return self._groups(want) > 0 and (self.rows.bytes >= want["target"] or waited >= SEND_AFTER)

    def _groups(self, want: dict[str, Any]) -> int:
        if want["by_group"]:
            return int(want["group"]) if len(self.rows) >= want["group"] else 0
        end = want["phase"] + len(self.rows)
        return int(max(end - end % want["group"] - want["phase"], 0))

    def _quantum(self, want: dict[str, Any]) -> int:
        """Rows to take next: about what is missing to the target, by the size of rows so far."""
        limit = int(min(want["to"] - self.next_seq, self.program.chunk))
        if not len(self.rows):
            return min(self.program.batched, limit)
        missing = max(int(want["target"]) - self.rows.bytes, 1)
        return max(1, min(limit, max(missing * len(self.rows) // max(self.rows.bytes, 1), self.program.batched)))

    def _advance(self, want: dict[str, Any], ahead: bool = False) -> int:
        """Takes source rows through the functions; how many there were. Ahead of a call as few as can be, since it may come."""
        try:
            if self.source is None and self.program.source is not None:
                doing.begin(f"{self.program.source_label}, from row", self.next_seq)
                self._open_source(self.program.source)
        except BaseException as error:
            self.error = from_exception(error, self.program.source_label, self.next_seq)
            return 0
        if not isinstance(self.rows, Collator):
            return self._take_held(self.rows, want, LOOK_AFTER if ahead else SEND_AFTER)
        return self._pass(1 if ahead else self._quantum(want))

    def _open_source(self, source: Source) -> None:
        held = None if self.program.functions else source.held(self.part, self.next_seq)
        if held is not None:
            self.rows, self.source = held, iter(())
        else:
            self.source = source.rows(self.part, self.next_seq)

    def _take_held(self, rows: HeldRows, want: dict[str, Any], seconds: float) -> int:
        """Of a source whose rows wait outside Python."""
        before = len(rows)
        doing.begin(f"{self.program.source_label}, from row", self.next_seq)
        try:
            rows.take(*self._missing(want), seconds)
        except BaseException as error:
            self.error = from_exception(error, self.program.source_label, self.next_seq + len(rows) - before)
        doing.end()
        self.ended = rows.ended
        taken = len(rows) - before
        self.next_seq += taken
        return taken

    def _missing(self, want: dict[str, Any]) -> tuple[int, int]:
        """Rows and bytes, of which the sooner completes the block: those to the target, then those to the end of the group."""
        rows, size = int(want["to"] - self.next_seq), int(want["target"] - self.rows.bytes)
        if size > 0 and not want["by_group"]:
            return rows, size
        end_of_group = want["group"] - (want["phase"] + len(self.rows)) % want["group"]
        return min(rows, end_of_group), LANE_END if want["by_group"] else max(want["cap"] - self.rows.bytes, 1)

    def _pass(self, rows: int) -> int:
        """Takes up to so many source rows through the functions; none is begun when this has taken long."""
        items: list[Item] = []
        until = time.monotonic() + PAUSE_AFTER
        at = doing.begin(f"{self.program.source_label}, on row" if self.source is not None else "", self.next_seq)
        try:
            for row in self._source_rows(rows):
                items.append(Item((self.next_seq + len(items), 0), row))
                at[0] = self.next_seq + len(items)
                if time.monotonic() >= until:
                    break
        except BaseException as error:
            self.error = from_exception(error, self.program.source_label, self.next_seq + len(items))
        taken = len(items)
        for place, function in enumerate(self.program.functions):
            done: list[Item] = []
            try:
                seen = function.apply(self.key, items, done, math.inf if place else until)
                if seen < len(items):
                    self._put_back(items[seen:])
                    taken = seen
            except CodeError as error:
                self.error = error  # of an earlier row than the source's
            items = done
        doing.end()
        self._keep(items)
        self.next_seq += taken
        return taken

    def _put_back(self, items: list[Item]) -> None:
        """Source rows that no function has seen yet: they are the next ones, and how the source ended comes behind them."""
        self.back.extendleft(item.row for item in reversed(items))
        self.behind, self.error, self.ended = self.error or self.behind, None, False

    def _source_rows(self, rows: int) -> Iterator[Any]:
        while self.back and rows > 0:
            rows -= 1
            yield self.back.popleft()
        if self.behind is not None and rows > 0:
            raise self.behind
        if self.source is None:
            for _, row in zip(range(rows), self.input):
                yield row
            return
        for _ in range(rows):
            try:
                row = next(self.source)
            except StopIteration:
                self.ended = True
                return
            yield row

    def _keep(self, items: list[Item]) -> None:
        assert isinstance(self.rows, Collator)
        for cursor, row in items:
            if cursor < self.first:
                continue
            try:
                self.rows.add(cursor, row)
            except BaseException as error:
                self.error = from_exception(error, "a row of the dataset", cursor[0])
                return

    # ---- answers

    def _finish(self, want: dict[str, Any], over: bool) -> dict[str, Any]:
        if len(self.rows):
            return self._tell(want, over=True)
        if self.error is not None:
            raise self.error
        return self._answer(ended=over)

    def _answer(self, **flags: bool) -> dict[str, Any]:
        cursor = max((self.next_seq, 0), self.first)
        answer = {"rows": 0, "first_seq": cursor[0], "first_child": cursor[1], "end_seq": cursor[0], "end_child": cursor[1]}
        flags = {"has_cursors": False, "hungry": False, "ended": False, "again": False, **flags}
        return {**answer, **flags, "lengths": [], "held_bytes": self.rows.bytes}

    def _tell(self, want: dict[str, Any], over: bool) -> dict[str, Any]:
        groups = self._groups(want)
        over = over or self.error is not None or self.ended
        rows = groups or len(self.rows)
        if not want["by_group"]:
            rows = len(self.rows) if over and self.rows.bytes <= want["target"] else rows
            rows = min(rows, self.rows.rows_within(want["cap"]))
        if want["by_group"]:  # of the group alone: whoever makes it again has taken others behind it, and tells the same
            end = _after(self.rows.cursor(rows - 1), (0, 0), self.program.keeps_rows)
        elif rows < len(self.rows):
            end = self.rows.cursor(rows)
        else:
            end = _after(self.rows.cursor(rows - 1), (self.next_seq, 0), self.program.keeps_rows)
        return {
            "rows": rows,
            "first_seq": self.reached[0],
            "first_child": self.reached[1],
            "end_seq": end[0],
            "end_child": end[1],
            "has_cursors": not self.program.keeps_rows,
            "hungry": False,
            "ended": False,
            "again": False,
            "lengths": self.rows.lengths(rows),
            "held_bytes": self.rows.bytes,
        }


def _after(last: tuple[int, int], reached: tuple[int, int], keeps_rows: bool) -> tuple[int, int]:
    """The cursor after the last row that was made: rows that were filtered behind it are done with too."""
    return (last[0] + 1, 0) if keeps_rows else max(reached, (last[0], last[1] + 1))


def _input_spec(given: dict[str, Any]) -> RowSpec:
    columns = tuple(Column(name, dtype, tuple(shape)) for name, dtype, shape in given["columns"])
    return RowSpec(columns, _structure(given["structure"]))


def _structure(node: Any) -> Any:
    if node is None:
        return None
    if "names" in node:
        return dict(zip(node["names"], map(_structure, node["children"])))
    return tuple(map(_structure, node["children"]))


class Runner:
    """All lanes of one plan in this process."""

    def __init__(self, plan: bytes) -> None:
        self.nodes = _core.Plan.parse(plan).nodes()
        environment.check(self.nodes)
        self.programs: dict[tuple[int, ...], Program] = {}
        self.lanes: dict[int, Lane] = {}

    def open(self, lane: int, open: Open) -> None:
        numbers = tuple(open["nodes"])
        if numbers not in self.programs:
            self.programs[numbers] = Program(self.nodes, list(numbers))
        self.lanes[lane] = Lane(self.programs[numbers], open)

    def fill(self, lane: int, want: dict[str, Any], block: memoryview | None, input_over: bool) -> dict[str, Any]:
        return self.lanes[lane].answer(want, block, input_over)

    def write(self, lane: int, places: list[list[int]], block: memoryview) -> list[int]:
        return self.lanes[lane].write(places, block)

    def work_ahead(self, lane: int) -> bool:
        return lane in self.lanes and self.lanes[lane].work_ahead()

    def close(self, lane: int) -> None:
        self.lanes.pop(lane, None)
