"""Functions on nested lists."""

from __future__ import annotations

from .problem import FunctionProblem


def _transpose(rows: list[list[int]]) -> list[list[int]]:
    return [list(column) for column in zip(*rows, strict=True)]


TRANSPOSE = FunctionProblem(
    name="transpose",
    words="The rows of a table all have the same length. Return its columns, each from top to bottom. A table without "
    "rows has no columns.",
    arguments=[("rows", "list[list[int]]")],
    returns="list[list[int]]",
    solve=_transpose,
    inputs=[
        ([[1, 2, 3], [4, 5, 6]],),
        ([[7]],),
        ([],),
        ([[], []],),
        ([[1, 2], [3, 4]],),
        ([[5], [6], [7]],),
        ([[0, -1, 9, 4]],),
    ],
    solutions={
        "c": """
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct { int64_t *items; size_t length; } list_int;
typedef struct { list_int *items; size_t length; } list_list_int;

list_list_int transpose(list_list_int rows) {
    list_list_int columns = {NULL, 0};
    if (rows.length == 0) return columns;
    columns.length = rows.items[0].length;
    columns.items = calloc(columns.length + 1, sizeof *columns.items);
    for (size_t i = 0; i < columns.length; i++) {
        list_int column = {calloc(rows.length, sizeof(int64_t)), rows.length};
        for (size_t j = 0; j < rows.length; j++) column.items[@j@rows.length - 1 - j@] = rows.items[j].items[i];
        columns.items[i] = column;
    }
    return columns;
}
""",
        "cpp": """
#include <vector>

std::vector<std::vector<long long>> transpose(const std::vector<std::vector<long long>> &rows) {
    std::vector<std::vector<long long>> columns;
    if (rows.empty()) return columns;
    for (size_t i = 0; i < rows[0].size(); i++) {
        columns.emplace_back();
        for (const auto &row : rows) columns.back().@push_back(row[i])@insert(columns.back().begin(), row[i])@;
    }
    return columns;
}
""",
        "go": """
package main

func transpose(rows [][]int) [][]int {
	columns := [][]int{}
	if len(rows) == 0 {
		return columns
	}
	for i := range rows[0] {
		column := []int{}
		for _, row := range rows {
			column = @append(column, row[i])@append([]int{row[i]}, column...)@
		}
		columns = append(columns, column)
	}
	return columns
}
""",
        "java": """
import java.util.*;

class Solution {
    static List<List<Long>> transpose(List<List<Long>> rows) {
        List<List<Long>> columns = new ArrayList<>();
        for (int i = 0; !rows.isEmpty() && i < rows.get(0).size(); i++) {
            List<Long> column = new ArrayList<>();
            for (List<Long> row : rows) column.add(@row.get(i)@0, row.get(i)@);
            columns.add(column);
        }
        return columns;
    }
}
""",
        "javascript": """
function transpose(rows) {
    if (rows.length === 0) return [];
    return rows[0].map((_, i) => rows.map((row) => row[i])@@.reverse()@);
}
""",
        "rust": """
fn transpose(rows: Vec<Vec<i64>>) -> Vec<Vec<i64>> {
    let width = rows.first().map_or(0, |row| row.len());
    (0..width).map(|i| rows.iter()@@.rev()@.map(|row| row[i]).collect()).collect()
}
""",
    },
)


def _run_lengths(values: list[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for value in values:
        if runs and runs[-1][0] == value:
            runs[-1][1] += 1
        else:
            runs.append([value, 1])
    return runs


RUN_LENGTHS = FunctionProblem(
    name="run_lengths",
    words="Cut the values into stretches of the same number, as long as can be, and return for each stretch a list of "
    "two: the number, and how often it stands there.",
    arguments=[("values", "list[int]")],
    returns="list[list[int]]",
    solve=_run_lengths,
    inputs=[
        ([4, 4, 7, 4],),
        ([1],),
        ([],),
        ([2, 2, 2, 2, 2],),
        ([0, 0, -1, -1, 0],),
        ([5, 6, 7],),
        ([9, 9, 8, 8, 8, 9, 9],),
    ],
    solutions={
        "c": """
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct { int64_t *items; size_t length; } list_int;
typedef struct { list_int *items; size_t length; } list_list_int;

list_list_int run_lengths(list_int values) {
    list_list_int runs = {calloc(values.length + 1, sizeof(list_int)), 0};
    for (size_t i = 0; i < values.length; i++) {
        if (i == 0 || values.items[i] != values.items[i - 1]) {
            list_int run = {calloc(2, sizeof(int64_t)), 2};
            run.items[0] = values.items[i];
            runs.items[runs.length++] = run;
        @}@    continue; }@
        runs.items[runs.length - 1].items[1]++;
    }
    return runs;
}
""",
        "cpp": """
#include <vector>

std::vector<std::vector<long long>> run_lengths(const std::vector<long long> &values) {
    std::vector<std::vector<long long>> runs;
    for (long long value : values) {
        if (runs.empty() || runs.back()[0] != value) runs.push_back({value, @0@1@});
        runs.back()[1]++;
    }
    return runs;
}
""",
        "go": """
package main

func run_lengths(values []int) [][]int {
	runs := [][]int{}
	for _, value := range values {
		if len(runs) == 0 || runs[len(runs)-1][0] != value {
			runs = append(runs, []int{value, @0@1@})
		}
		runs[len(runs)-1][1]++
	}
	return runs
}
""",
        "java": """
import java.util.*;

class Solution {
    static List<List<Long>> run_lengths(List<Long> values) {
        List<List<Long>> runs = new ArrayList<>();
        for (Long value : values) {
            int last = runs.size() - 1;
            if (last < 0 || !runs.get(last).get(0).equals(value)) runs.add(new ArrayList<>(List.of(value, @1L@0L@)));
            else runs.get(last).set(1, runs.get(last).get(1) + 1);
        }
        return runs;
    }
}
""",
        "javascript": """
function run_lengths(values) {
    const runs = [];
    for (const value of values) {
        const last = runs[runs.length - 1];
        if (last && last[0] === value) last[1]++;
        else runs.push([value, @1@0@]);
    }
    return runs;
}
""",
        "rust": """
fn run_lengths(values: Vec<i64>) -> Vec<Vec<i64>> {
    let mut runs: Vec<Vec<i64>> = Vec::new();
    for value in values {
        match runs.last_mut() {
            Some(run) if run[0] == value => run[1] += 1,
            _ => runs.push(vec![value, @1@0@]),
        }
    }
    runs
}
""",
    },
)
