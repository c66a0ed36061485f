"""Functions on texts and maps."""

from __future__ import annotations

from collections import Counter

from .problem import FunctionProblem


def _tally(words: list[str]) -> dict[str, int]:
    return dict(Counter(word.lower() for word in words if word))


TALLY = FunctionProblem(
    name="tally",
    words="Count how often each word occurs; capital letters count as small ones, and the map has the small ones. "
    "Empty words are left out. All words are of the letters A to Z and a to z.",
    arguments=[("words", "list[string]")],
    returns="map[string, int]",
    solve=_tally,
    inputs=[
        (["Tea", "milk", "tea"],),
        (["one"],),
        ([],),
        (["", "a", ""],),
        (["ABC", "abc", "Abc", "ab"],),
        (["z", "Y", "x", "y", "Z", "z"],),
    ],
    solutions={
        "c": """
#include <ctype.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct { char **items; size_t length; } list_string;
typedef struct { char **keys; int64_t *values; size_t length; } map_string_int;

map_string_int tally(list_string words) {
    map_string_int counts = {calloc(words.length + 1, sizeof(char *)), calloc(words.length + 1, sizeof(int64_t)), 0};
    for (size_t i = 0; i < words.length; i++) {
        char *word = words.items[i];
        for (char *c = word; *c; c++) *c = (char)tolower(*c);
        if (@!*word@0@) continue;
        size_t k = 0;
        while (k < counts.length && strcmp(counts.keys[k], word)) k++;
        if (k == counts.length) counts.keys[counts.length++] = word;
        counts.values[k]++;
    }
    return counts;
}
""",
        "cpp": """
#include <cctype>
#include <map>
#include <string>
#include <vector>

std::map<std::string, long long> tally(const std::vector<std::string> &words) {
    std::map<std::string, long long> counts;
    for (std::string word : words) {
        for (char &c : word) c = std::tolower(c);
        if (@!word.empty()@true@) counts[word]++;
    }
    return counts;
}
""",
        "go": """
package main

import "strings"

func tally(words []string) map[string]int {
	counts := map[string]int{}
	for _, word := range words {
		if @word != ""@true@ {
			counts[strings.ToLower(word)]++
		}
	}
	return counts
}
""",
        "java": """
import java.util.*;

class Solution {
    static Map<String, Long> tally(List<String> words) {
        Map<String, Long> counts = new HashMap<>();
        for (String word : words) if (@!word.isEmpty()@true@) counts.merge(word.toLowerCase(), 1L, Long::sum);
        return counts;
    }
}
""",
        "javascript": """
function tally(words) {
    const counts = new Map();
    for (const word of words.map((w) => w.toLowerCase())) {
        if (@word@true@) counts.set(word, (counts.get(word) ?? 0) + 1);
    }
    return counts;
}
""",
        "rust": """
use std::collections::HashMap;

fn tally(words: Vec<String>) -> HashMap<String, i64> {
    let mut counts = HashMap::new();
    for word in words.iter().filter(|word| @!word.is_empty()@true@) {
        *counts.entry(word.to_lowercase()).or_insert(0) += 1;
    }
    counts
}
""",
    },
)


def _mask(text: str, count: int) -> str:
    hidden = max(0, len(text) - count)
    return "*" * hidden + text[hidden:]


MASK = FunctionProblem(
    name="mask",
    words="Return the text with every character but the last ones replaced by *; as many stay as `shown` says. The "
    "text is ASCII, and `shown` is not negative.",
    arguments=[("text", "string"), ("shown", "int")],
    returns="string",
    solve=_mask,
    inputs=[
        ("4929 1188", 4),
        ("abc", 3),
        ("", 2),
        ("secret", 0),
        ("ab", 9),
        ("x y z", 1),
        ('q"\\', 2),
    ],
    solutions={
        "c": """
#include <stdint.h>
#include <string.h>

char *mask(char *text, int64_t shown) {
    int64_t length = (int64_t)strlen(text);
    for (int64_t i = 0; i @<@<=@ length - shown; i++) text[i] = '*';
    return text;
}
""",
        "cpp": """
#include <string>

std::string mask(const std::string &text, long long shown) {
    std::string masked = text;
    for (long long i = 0; i @<@+ 1 <@ (long long)text.size() - shown; i++) masked[i] = '*';
    return masked;
}
""",
        "go": """
package main

import "strings"

func mask(text string, shown int) string {
	hidden := len(text) - shown
	if hidden < 0 {
		return text
	}
	return strings.Repeat("@*@#@", hidden) + text[hidden:]
}
""",
        "java": """
class Solution {
    static String mask(String text, long shown) {
        int hidden = (int) Math.max(@0@1@, text.length() - shown);
        return "*".repeat(hidden) + text.substring(Math.min(hidden, text.length()));
    }
}
""",
        "javascript": """
function mask(text, shown) {
    const hidden = Math.max(0, text.length - shown);
    return "@*@#@".repeat(hidden) + text.slice(hidden);
}
""",
        "rust": """
fn mask(text: String, shown: i64) -> String {
    let hidden = text.len().saturating_sub(shown as usize);
    "@*@#@".repeat(hidden) + &text[hidden..]
}
""",
    },
)


def _shortages(needed: dict[str, int], present: dict[str, int]) -> list[str]:
    return sorted(name for name, count in needed.items() if present.get(name, 0) < count)


SHORTAGES = FunctionProblem(
    name="shortages",
    words="Return the names of which fewer are present than needed, in alphabetical order. A name that is not among "
    "those present counts as 0. All names are of small letters.",
    arguments=[("needed", "map[string, int]"), ("present", "map[string, int]")],
    returns="list[string]",
    solve=_shortages,
    inputs=[
        ({"rope": 2, "nail": 5}, {"rope": 2, "nail": 4}),
        ({"tin": 1}, {}),
        ({}, {"a": 3}),
        ({"b": 3, "a": 1, "c": 2}, {"c": 1}),
        ({"x": 0}, {}),
        ({"oil": 7, "pin": 7}, {"pin": 9, "oil": 7}),
    ],
    solutions={
        "c": """
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct { char **keys; int64_t *values; size_t length; } map_string_int;
typedef struct { char **items; size_t length; } list_string;

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

list_string shortages(map_string_int needed, map_string_int present) {
    list_string names = {calloc(needed.length + 1, sizeof(char *)), 0};
    for (size_t i = 0; i < needed.length; i++) {
        int64_t count = 0;
        for (size_t k = 0; k < present.length; k++)
            if (!strcmp(present.keys[k], needed.keys[i])) count = present.values[k];
        if (count @<@<=@ needed.values[i]) names.items[names.length++] = needed.keys[i];
    }
    qsort(names.items, names.length, sizeof(char *), by_name);
    return names;
}
""",
        "cpp": """
#include <map>
#include <string>
#include <vector>

std::vector<std::string> shortages(const std::map<std::string, long long> &needed,
                                   const std::map<std::string, long long> &present) {
    std::vector<std::string> names;
    for (const auto &[name, count] : needed) {
        auto entry = present.find(name);
        if ((entry == present.end() ? 0 : entry->second) @<@<=@ count) names.push_back(name);
    }
    return names;
}
""",
        "go": """
package main

import "sort"

func shortages(needed map[string]int, present map[string]int) []string {
	names := []string{}
	for name, count := range needed {
		if present[name] @<@<=@ count {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}
""",
        "java": """
import java.util.*;

class Solution {
    static List<String> shortages(Map<String, Long> needed, Map<String, Long> present) {
        List<String> names = new ArrayList<>();
        needed.forEach((name, count) -> {
            if (present.getOrDefault(name, 0L) @<@<=@ count) names.add(name);
        });
        Collections.sort(names);
        return names;
    }
}
""",
        "javascript": """
function shortages(needed, present) {
    return [...needed].filter(([name, count]) => (present.get(name) ?? 0) @<@<=@ count).map(([name]) => name).sort();
}
""",
        "rust": """
use std::collections::HashMap;

fn shortages(needed: HashMap<String, i64>, present: HashMap<String, i64>) -> Vec<String> {
    let is_short = |name: &String, count: i64| *present.get(name).unwrap_or(&0) @<@<=@ count;
    let short = needed.into_iter().filter(|(name, count)| is_short(name, *count));
    let mut names: Vec<String> = short.map(|(name, _)| name).collect();
    names.sort();
    names
}
""",
    },
)
