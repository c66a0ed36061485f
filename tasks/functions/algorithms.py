"""The families of band 6: small algorithms."""

from __future__ import annotations

from .family import Family

_MARKS = ["-", "+", "*", "/", "_", "#", ":", "; "]

ALGORITHMS = (
    Family(
        "shift_cipher",
        6,
        "text",
        {"k": range(1, 26), "vowels": [True, False]},
        "Shift every letter $k places forward in the alphabet, from z on to a; spaces stay. Vowels are shifted "
        "too: $vowels.",
        "out = []\nfor c in text:\n    if c == ' ' or (c in 'aeiou' and not $vowels):\n        out.append(c)\n"
        "    else:\n        out.append(chr((ord(c) - 97 + $k) % 26 + 97))\nreturn ''.join(out)",
    ),
    Family(
        "run_lengths",
        6,
        "naturals",
        {"k": range(2, 16), "least": [1, 2]},
        "Replace each number by its remainder divided by $k, and return the runs of equal neighbours as a list of "
        "(value, length) tuples, leaving out runs shorter than $least.",
        "runs = []\nfor x in numbers:\n    if runs and runs[-1][0] == x % $k:\n        runs[-1][1] += 1\n    else:\n"
        "        runs.append([x % $k, 1])\nreturn [(x, n) for x, n in runs if n >= $least]",
    ),
    Family(
        "to_base",
        6,
        "number",
        {"k": range(2, 10), "mark": ["", *_MARKS]},
        "Return n written in base $k, most significant digit first, with $mark between the digits. 0 is '0'.",
        "digits = []\nwhile n:\n    digits.append(str(n % $k))\n    n //= $k\nreturn $mark.join(digits[::-1]) or '0'",
    ),
    Family(
        "best_window",
        6,
        "numbers",
        {"k": range(2, 5), "b": range(1, 20)},
        "Return the largest sum of $k neighbouring numbers, times $b. With fewer than $k numbers return None.",
        "sums = [sum(numbers[i:i + $k]) for i in range(len(numbers) - $k + 1)]\n"
        "return max(sums) * $b if sums else None",
    ),
    Family(
        "coin_ways",
        6,
        "number",
        {"a": [1, 2], "b": range(3, 7), "c": range(7, 14)},
        "Return in how many ways the remainder of n divided by 100 can be paid with coins of $a, $b and $c, "
        "where the order of coins does not matter.",
        "n %= 100\nways = [1] + [0] * n\nfor coin in ($a, $b, $c):\n    for sum_ in range(coin, n + 1):\n"
        "        ways[sum_] += ways[sum_ - coin]\nreturn ways[n]",
    ),
    Family(
        "longest_climb",
        6,
        "numbers",
        {"k": range(1, 20), "b": range(2, 6)},
        "Return $b times the length of the longest selection, in order but not necessarily neighbours, in which "
        "each number is at least $k above the one before.",
        "best = []\nfor i, x in enumerate(numbers):\n"
        "    best.append(1 + max((best[j] for j in range(i) if x - numbers[j] >= $k), default=0))\n"
        "return $b * max(best, default=0)",
    ),
    Family(
        "merge_close",
        6,
        "naturals",
        {"k": range(1, 12), "b": range(0, 5)},
        "Sort the numbers and group neighbours that differ by at most $k. Return a (smallest + $b, largest) tuple "
        "for each group.",
        "groups = []\nfor x in sorted(numbers):\n    if groups and x - groups[-1][1] <= $k:\n"
        "        groups[-1][1] = x\n    else:\n        groups.append([x, x])\n"
        "return [(low + $b, high) for low, high in groups]",
    ),
    Family(
        "count_pairs",
        6,
        "numbers",
        {"k": range(5, 40), "b": range(1, 4)},
        "Return $b times the number of pairs of different positions whose numbers add up to more than $k.",
        "n = len(numbers)\nreturn $b * sum(1 for i in range(n) for j in range(i) if numbers[i] + numbers[j] > $k)",
    ),
    Family(
        "primes_from",
        6,
        "number",
        {"k": range(1, 5), "b": range(0, 12)},
        "Return the first $k primes above n, each plus $b, as a list.",
        "found = []\nwhile len(found) < $k:\n    n += 1\n"
        "    if n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1)):\n"
        "        found.append(n + $b)\nreturn found",
    ),
    Family(
        "josephus",
        6,
        "number",
        {"k": range(2, 25), "b": range(1, 4)},
        "The people 0 to m - 1 stand in a circle, m being n divided by 10, rounded down, plus $b. Every $k-th is "
        "sent away, counting on from the last one sent, until one is left. Return that one.",
        "people, at = list(range(n // 10 + $b)), 0\nwhile len(people) > 1:\n    at = (at + $k - 1) % len(people)\n"
        "    people.pop(at)\nreturn people[0]",
        held_out=True,
    ),
    Family(
        "balance_letters",
        6,
        "text",
        {"up": "abcdeio", "down": "lnrstu", "b": [1, 2, 3]},
        "Read the text from the left with a counter at 0: $up adds $b, $down subtracts 1 but never below 0. Return "
        "the highest value the counter had.",
        "level = most = 0\nfor c in text:\n    if c == $up:\n        level += $b\n    elif c == $down:\n"
        "        level = max(0, level - 1)\n    most = max(most, level)\nreturn most",
    ),
    Family(
        "edit_words",
        6,
        "words",
        {"word": ["lane", "oat", "stone", "pear", "tie", "grain"], "b": range(1, 10)},
        "For each word return $b times its edit distance to $word: the fewest letters to insert, remove or replace.",
        "def distance(a, b):\n    row = list(range(len(b) + 1))\n    for i, x in enumerate(a, 1):\n"
        "        last, row[0] = row[0], i\n        for j, y in enumerate(b, 1):\n"
        "            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))\n    return row[-1]\n"
        "return [$b * distance(w, $word) for w in words]",
        held_out=True,
    ),
    Family(
        "spiral",
        6,
        "rows",
        {"k": range(1, 9), "b": range(0, 6)},
        "Read the rows as a grid in a clockwise spiral from the top left inwards. Return every $k-th number read, "
        "beginning with the first, each plus $b.",
        "rows, seen = [list(row) for row in rows], []\nwhile rows and rows[0]:\n    seen += rows.pop(0)\n"
        "    rows = [list(column) for column in zip(*rows)][::-1]\nreturn [x + $b for x in seen[::$k]]",
    ),
)
