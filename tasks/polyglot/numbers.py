"""Functions on numbers and lists of them."""

from __future__ import annotations

from itertools import pairwise

from .problem import FunctionProblem


def _next_bus(departures: list[int], now: int) -> int | None:
    return min((time for time in departures if time >= now), default=None)


NEXT_BUS = FunctionProblem(
    name="next_bus",
    words="Return the earliest of the departures that is not before now, or no value if all of them have gone. The "
    "departures are in no order.",
    arguments=[("departures", "list[int]"), ("now", "int")],
    returns="optional[int]",
    solve=_next_bus,
    inputs=[
        ([620, 540, 700], 600),
        ([500], 501),
        ([480, 480, 455], 455),
        ([], 0),
        ([-3, -20, -7], -10),
        ([900, 30, 615, 614, 616], 615),
        ([2**40, 2**41], 2**40 + 1),
    ],
    solutions={
        "c": """
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct { int64_t *items; size_t length; } list_int;
typedef struct { bool present; int64_t value; } optional_int;

optional_int next_bus(list_int departures, int64_t now) {
    optional_int next = {false, 0};
    for (size_t i = 0; i < departures.length; i++) {
        int64_t time = departures.items[i];
        if (time @>=@>@ now && (!next.present || time < next.value)) next = (optional_int){true, time};
    }
    return next;
}
""",
        "cpp": """
#include <optional>
#include <vector>

std::optional<long long> next_bus(const std::vector<long long> &departures, long long now) {
    std::optional<long long> next;
    for (long long time : departures)
        if (time @>=@>@ now && (!next || time < *next)) next = time;
    return next;
}
""",
        "go": """
package main

func next_bus(departures []int, now int) *int {
	var next *int
	for _, time := range departures {
		if time @>=@>@ now && (next == nil || time < *next) {
			value := time
			next = &value
		}
	}
	return next
}
""",
        "java": """
import java.util.*;

class Solution {
    static Optional<Long> next_bus(List<Long> departures, long now) {
        return departures.stream().filter(time -> time @>=@>@ now).min(Long::compare);
    }
}
""",
        "javascript": """
function next_bus(departures, now) {
    const left = departures.filter((time) => time @>=@>@ now);
    return left.length ? Math.min(...left) : null;
}
""",
        "rust": """
fn next_bus(departures: Vec<i64>, now: i64) -> Option<i64> {
    departures.into_iter().filter(|time| *time @>=@>@ now).min()
}
""",
    },
)


def _mean_gap(times: list[float]) -> float:
    ordered = sorted(times)
    return (ordered[-1] - ordered[0]) / (len(ordered) - 1) if len(ordered) > 1 else 0.0


MEAN_GAP = FunctionProblem(
    name="mean_gap",
    words="Sort the times and return the mean of the distances between neighbours; 0 if there are less than two.",
    arguments=[("times", "list[float]")],
    returns="float",
    solve=_mean_gap,
    inputs=[
        ([1.0, 4.0, 2.0],),
        ([0.5],),
        ([],),
        ([-1.5, 2.25],),
        ([3.0, 3.0, 3.0, 3.0],),
        ([0.1, 0.4, 0.2, 0.9, 0.75],),
        ([1e9, -1e9, 0.0],),
    ],
    solutions={
        "c": """
#include <stddef.h>

typedef struct { double *items; size_t length; } list_float;

double mean_gap(list_float times) {
    if (times.length < 2) return 0;
    double least = times.items[0], most = times.items[0];
    for (size_t i = 1; i < times.length; i++) {
        if (times.items[i] < least) least = times.items[i];
        if (times.items[i] > most) most = times.items[i];
    }
    return (most - least) / @(times.length - 1)@times.length@;
}
""",
        "cpp": """
#include <algorithm>
#include <vector>

double mean_gap(const std::vector<double> &times) {
    if (times.size() < 2) return 0;
    auto [least, most] = std::minmax_element(times.begin(), times.end());
    return (*most - *least) / @(times.size() - 1)@times.size()@;
}
""",
        "go": """
package main

import "sort"

func mean_gap(times []float64) float64 {
	if len(times) < 2 {
		return 0
	}
	sort.Float64s(times)
	return (times[len(times)-1] - times[0]) / float64(@len(times)-1@len(times)@)
}
""",
        "java": """
import java.util.*;

class Solution {
    static double mean_gap(List<Double> times) {
        if (times.size() < 2) return 0;
        return (Collections.max(times) - Collections.min(times)) / @(times.size() - 1)@times.size()@;
    }
}
""",
        "javascript": """
function mean_gap(times) {
    if (times.length < 2) return 0;
    return (Math.max(...times) - Math.min(...times)) / @(times.length - 1)@times.length@;
}
""",
        "rust": """
fn mean_gap(mut times: Vec<f64>) -> f64 {
    if times.len() < 2 {
        return 0.0;
    }
    times.sort_by(|a, b| a.partial_cmp(b).unwrap());
    (times[times.len() - 1] - times[0]) / (@times.len() - 1@times.len()@) as f64
}
""",
    },
)


def _is_mountain(heights: list[int]) -> bool:
    top = heights.index(max(heights)) if heights else 0
    rises = all(a < b for a, b in pairwise(heights[: top + 1]))
    falls = all(a > b for a, b in pairwise(heights[top:]))
    return 0 < top < len(heights) - 1 and rises and falls


IS_MOUNTAIN = FunctionProblem(
    name="is_mountain",
    words="Say whether the heights rise at every step up to some point and fall at every step after it, and do both.",
    arguments=[("heights", "list[int]")],
    returns="bool",
    solve=_is_mountain,
    inputs=[
        ([1, 3, 2],),
        ([1, 2, 3],),
        ([],),
        ([5],),
        ([1, 2, 2, 1],),
        ([3, 2, 1],),
        ([0, 4, 9, 8, 7, -2],),
        ([1, 3, 2, 3, 1],),
        ([2, 2],),
    ],
    solutions={
        "c": """
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct { int64_t *items; size_t length; } list_int;

bool is_mountain(list_int heights) {
    size_t i = 0;
    while (i + 1 < heights.length && heights.items[i] < heights.items[i + 1]) i++;
    size_t top = i;
    while (i + 1 < heights.length && heights.items[i] @>@>=@ heights.items[i + 1]) i++;
    return top > 0 && i > top && i + 1 == heights.length;
}
""",
        "cpp": """
#include <vector>

bool is_mountain(const std::vector<long long> &heights) {
    size_t i = 0, n = heights.size();
    while (i + 1 < n && heights[i] < heights[i + 1]) i++;
    size_t top = i;
    while (i + 1 < n && heights[i] @>@>=@ heights[i + 1]) i++;
    return top > 0 && i > top && i + 1 == n;
}
""",
        "go": """
package main

func is_mountain(heights []int) bool {
	i, n := 0, len(heights)
	for i+1 < n && heights[i] < heights[i+1] {
		i++
	}
	top := i
	for i+1 < n && heights[i] @>@>=@ heights[i+1] {
		i++
	}
	return top > 0 && i > top && i+1 == n
}
""",
        "java": """
import java.util.*;

class Solution {
    static boolean is_mountain(List<Long> heights) {
        int i = 0, n = heights.size();
        while (i + 1 < n && heights.get(i) < heights.get(i + 1)) i++;
        int top = i;
        while (i + 1 < n && heights.get(i) @>@>=@ heights.get(i + 1)) i++;
        return top > 0 && i > top && i + 1 == n;
    }
}
""",
        "javascript": """
function is_mountain(heights) {
    let i = 0;
    while (i + 1 < heights.length && heights[i] < heights[i + 1]) i++;
    const top = i;
    while (i + 1 < heights.length && heights[i] @>@>=@ heights[i + 1]) i++;
    return top > 0 && i > top && i + 1 === heights.length;
}
""",
        "rust": """
fn is_mountain(heights: Vec<i64>) -> bool {
    let n = heights.len();
    let mut i = 0;
    while i + 1 < n && heights[i] < heights[i + 1] {
        i += 1;
    }
    let top = i;
    while i + 1 < n && heights[i] @>@>=@ heights[i + 1] {
        i += 1;
    }
    top > 0 && i > top && i + 1 == n
}
""",
    },
)


def _first_below(moves: list[float], floor: float) -> int | None:
    total = 0.0
    for index, move in enumerate(moves):
        total += move
        if total < floor:
            return index
    return None


FIRST_BELOW = FunctionProblem(
    name="first_below",
    words="An account begins at 0, and each move is added to it. Return the position, counted from 0, of the first "
    "move after which the account is below the floor; no value if that never happens.",
    arguments=[("moves", "list[float]"), ("floor", "float")],
    returns="optional[int]",
    solve=_first_below,
    inputs=[
        ([5.0, -3.0, -4.0], 0.0),
        ([1.0, 1.0], 0.0),
        ([], -1.0),
        ([-2.0, -0.5], -2.0),
        ([-1.0, -1.0, -1.0], -2.0),
        ([0.5, -0.25, -0.25], 0.0),
        ([10.0, -20.0, 30.0, -40.0], -15.0),
    ],
    solutions={
        "c": """
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct { double *items; size_t length; } list_float;
typedef struct { bool present; int64_t value; } optional_int;

optional_int first_below(list_float moves, double floor) {
    double total = 0;
    for (size_t i = 0; i < moves.length; i++) {
        total += moves.items[i];
        if (total @<@<=@ floor) return (optional_int){true, (int64_t)i};
    }
    return (optional_int){false, 0};
}
""",
        "cpp": """
#include <optional>
#include <vector>

std::optional<long long> first_below(const std::vector<double> &moves, double floor) {
    double total = 0;
    for (size_t i = 0; i < moves.size(); i++)
        if ((total += moves[i]) @<@<=@ floor) return i;
    return std::nullopt;
}
""",
        "go": """
package main

func first_below(moves []float64, floor float64) *int {
	total := 0.0
	for i, move := range moves {
		total += move
		if total @<@<=@ floor {
			return &i
		}
	}
	return nil
}
""",
        "java": """
import java.util.*;

class Solution {
    static Optional<Long> first_below(List<Double> moves, double floor) {
        double total = 0;
        for (int i = 0; i < moves.size(); i++) {
            total += moves.get(i);
            if (total @<@<=@ floor) return Optional.of((long) i);
        }
        return Optional.empty();
    }
}
""",
        "javascript": """
function first_below(moves, floor) {
    let total = 0;
    const index = moves.findIndex((move) => (total += move) @<@<=@ floor);
    return index < 0 ? null : index;
}
""",
        "rust": """
fn first_below(moves: Vec<f64>, floor: f64) -> Option<i64> {
    let mut total = 0.0;
    for (index, step) in moves.iter().enumerate() {
        total += step;
        if total @<@<=@ floor {
            return Some(index as i64);
        }
    }
    None
}
""",
    },
)
