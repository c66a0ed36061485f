"""The families written by hand: bands 1, 2, 3 and 6. `pipelines.py` composes those of bands 4 and 5."""

from __future__ import annotations

from .family import Family

_SMALL = range(2, 16)
_SIGNED = [*range(-12, -1), *range(2, 13)]
_CHARS = "abcdeghilmnoprstu"
_MARKS = ["-", "+", "*", "/", "_", "#", ":", "; "]

ONE_OPERATION = (
    Family("add_to_each", 1, "numbers", {"k": range(2, 60)}, "Return the numbers, each with $k added.",
           "return [x + $k for x in numbers]"),
    Family("multiply_each", 1, "numbers", {"k": range(2, 60)}, "Return the numbers, each multiplied by $k.",
           "return [x * $k for x in numbers]"),
    Family("keep_above", 1, "numbers", {"k": range(-15, 36)}, "Return the numbers above $k, in order.",
           "return [x for x in numbers if x > $k]"),
    Family("keep_below", 1, "numbers", {"k": range(-15, 36)}, "Return the numbers below $k, in order.",
           "return [x for x in numbers if x < $k]", held_out=True),
    Family("count_above", 1, "numbers", {"k": range(-15, 36)}, "Return how many of the numbers are above $k.",
           "return sum(1 for x in numbers if x > $k)"),
    Family("remainder_of_each", 1, "numbers", {"k": range(2, 40)}, "Return the remainder of each number divided by $k.",
           "return [x % $k for x in numbers]"),
    Family("linear", 1, "number", {"a": range(2, 12), "b": range(1, 12)}, "Return $a times n plus $b.",
           "return $a * n + $b"),
    Family("power_sum", 1, "number", {"k": range(2, 6), "b": range(1, 20)},
           "Return n to the power of $k, minus $b.", "return n ** $k - $b"),
    Family("difference_from", 1, "number", {"k": range(5, 500, 7)}, "Return how far n is from $k, never negative.",
           "return abs(n - $k)"),
    Family("repeat_text", 1, "text", {"k": range(2, 9), "mark": _MARKS},
           "Return the text $k times, with $mark between the copies.", "return $mark.join([text] * $k)"),
    Family("replace_letter", 1, "text", {"old": _CHARS, "new": _MARKS[:6]},
           "Return the text with every $old replaced by $new.", "return text.replace($old, $new)"),
    Family("wrap_text", 1, "text", {"left": _MARKS[:6], "right": _MARKS[:6]},
           "Return the text with $left before it and $right after it.", "return $left + text + $right", held_out=True),
)  # fmt: skip

WITH_CONDITION = (
    Family("sum_of_multiples", 2, "numbers", {"k": range(2, 10), "b": range(0, 9)},
           "Return $b plus the sum of the numbers that are divisible by $k.",
           "return $b + sum(x for x in numbers if x % $k == 0)"),
    Family("clip_each", 2, "numbers", {"low": range(-15, 0), "high": range(5, 25)},
           "Return the numbers with everything below $low raised to $low and everything above $high lowered to $high.",
           "return [min(max(x, $low), $high) for x in numbers]"),
    Family("every_kth", 2, "numbers", {"k": range(2, 5), "start": range(0, 4), "add": range(1, 7)},
           "Starting at index $start, take every item that is $k places after the last, and add $add to each.",
           "return [x + $add for x in numbers[$start::$k]]"),
    Family("rotate_left", 2, "numbers", {"k": range(1, 6), "times": range(2, 9)},
           "Multiply each number by $times, then rotate the list left by $k places. An empty list stays empty.",
           "made = [x * $times for x in numbers]\nk = $k % len(made) if made else 0\nreturn made[k:] + made[:k]"),
    Family("swap_small_and_large", 2, "numbers", {"k": range(-5, 25), "value": range(50, 60)},
           "Return the numbers with each one above $k replaced by $value and each other one by its negative.",
           "return [$value if x > $k else -x for x in numbers]"),
    Family("digit_sum_times", 2, "number", {"k": range(2, 20), "b": range(0, 6)},
           "Return the sum of the decimal digits of n, multiplied by $k, plus $b.",
           "return sum(int(d) for d in str(n)) * $k + $b"),
    Family("fizz_word", 2, "number", {"a": range(2, 8), "word": ["fizz", "buzz", "hop", "tick", "zip", "boom"]},
           "Return $word if n is divisible by $a, else n as a string.", "return $word if n % $a == 0 else str(n)"),
    Family("count_letters", 2, "text", {"letters": ["aeiou", "abc", "lmno", "rst", "etao", "xyzuv", "ie", "gh", "nop"],
           "k": range(1, 8)}, "Return $k times the number of characters of the text that are in $letters.",
           "return $k * sum(1 for c in text if c in $letters)"),
    Family("drop_letters", 2, "text", {"letters": ["aeiou", "abc", "lmno", "rst", "etao", "ie", "gh", "nop"],
           "mark": _MARKS[:6]}, "Return the text without the characters in $letters, and with $mark at its end.",
           'return "".join(c for c in text if c not in $letters) + $mark'),
    Family("long_words", 2, "words", {"k": range(2, 7), "mark": _MARKS},
           "Return the words of at least $k letters, joined by $mark.",
           "return $mark.join(w for w in words if len(w) >= $k)"),
    Family("pad_words", 2, "words", {"k": range(3, 10), "mark": _MARKS[:6]},
           "Return the words, each filled up on the right with $mark to $k characters. Longer words stay.",
           "return [w.ljust($k, $mark) for w in words]"),
    Family("alternate_sign", 2, "numbers", {"k": range(2, 12), "b": range(0, 7)},
           "Return the sum of the numbers at even indices minus $k times the sum of those at odd indices, plus $b.",
           "return sum(numbers[::2]) - $k * sum(numbers[1::2]) + $b", held_out=True),
    Family("words_ending", 2, "words", {"ends": ["aeiou", "aeist", "lmnorst", "aenrt", "eiost"], "k": range(1, 8)},
           "Return the words whose last letter is in $ends, each cut to its first $k letters.",
           "return [w[:$k] for w in words if w[-1] in $ends]", held_out=True),
)  # fmt: skip

GROUPING = (
    Family("count_by_remainder", 3, "numbers", {"k": range(2, 9), "low": range(-20, 0, 3)},
           "For the numbers above $low, return a dict from each remainder of division by $k that occurs to how often.",
           "found = {}\nfor x in numbers:\n    if x > $low:\n        found[x % $k] = found.get(x % $k, 0) + 1\n"
           "return found"),
    Family("group_by_length", 3, "words", {"k": range(1, 4), "mark": _MARKS},
           "Return a dict from word length to the words of that length joined by $mark, for lengths of at least $k.",
           "found = {}\nfor w in words:\n    if len(w) >= $k:\n        found.setdefault(len(w), []).append(w)\n"
           "return {size: $mark.join(group) for size, group in found.items()}"),
    Family("repeated_words", 3, "words", {"k": range(1, 3), "mark": _MARKS, "order": [True, False]},
           "Return the words that occur more than $k times, each once, sorted (in reverse order: $order), with $mark "
           "appended to each.",
           "kept = {w for w in words if words.count(w) > $k}\n"
           "return [w + $mark for w in sorted(kept, reverse=$order)]"),
    Family("best_names", 3, "scores", {"k": range(1, 5), "low": range(0, 20, 2)},
           "Return the names of the $k highest scores that are above $low, the highest first and equal scores by name.",
           "kept = [name for name in scores if scores[name] > $low]\n"
           "return sorted(kept, key=lambda name: (-scores[name], name))[:$k]"),
    Family("raise_scores", 3, "scores", {"k": range(2, 10), "low": range(5, 35, 3)},
           "Return a dict of the same names, in which every score below $low is multiplied by $k.",
           "return {name: score * $k if score < $low else score for name, score in scores.items()}"),
    Family("names_by_band", 3, "scores", {"k": range(3, 20), "b": range(0, 8)},
           "Return a dict from score divided by $k (rounded down) plus $b to the sorted list of names that have it.",
           "found = {}\nfor name in sorted(scores):\n    found.setdefault(scores[name] // $k + $b, []).append(name)\n"
           "return found"),
    Family("sum_by_name", 3, "pairs", {"k": range(2, 12), "b": range(0, 8)},
           "Return a dict from each name to the sum of its numbers, times $k, plus $b.",
           "found = {}\nfor name, number in pairs:\n    found[name] = found.get(name, 0) + number\n"
           "return {name: total * $k + $b for name, total in found.items()}"),
    Family("largest_by_name", 3, "pairs", {"k": range(1, 25), "b": range(1, 5)},
           "Return a dict from each name to its largest number minus $b, leaving out names whose largest is below $k.",
           "found = {}\nfor name, number in pairs:\n    found[name] = max(number, found.get(name, number))\n"
           "return {name: most - $b for name, most in found.items() if most >= $k}"),
    Family("row_sums_above", 3, "rows", {"k": range(-5, 30), "b": range(2, 5)},
           "Return $b times the sum of each row, for the rows whose sum is above $k.",
           "return [$b * sum(row) for row in rows if sum(row) > $k]"),
    Family("scale_columns", 3, "rows", {"k": range(2, 9), "b": range(1, 9)},
           "Return the sum of each column times $k, plus $b, as a list. No rows give an empty list.",
           "return [sum(column) * $k + $b for column in zip(*rows)]"),
    Family("letter_positions", 3, "text", {"letter": _CHARS, "b": range(1, 6)},
           "Return a list of the indices of $letter in the text, each plus $b.",
           "return [i + $b for i, c in enumerate(text) if c == $letter]"),
    Family("first_letters", 3, "words", {"k": range(1, 4), "b": range(1, 10)},
           "Return a dict from the first $k letters of each word to $b times the number of words that begin so.",
           "found = {}\nfor w in words:\n    found[w[:$k]] = found.get(w[:$k], 0) + $b\nreturn found", held_out=True),
    Family("pairs_to_text", 3, "pairs", {"mark": _MARKS, "k": range(0, 20, 2)},
           "Return one string: name and number of each pair with a number above $k, as in a5, joined by $mark.",
           'return $mark.join(f"{name}{number}" for name, number in pairs if number > $k)', held_out=True),
    Family("transpose_shift", 3, "rows", {"k": range(2, 30)},
           "Return the columns as a list of lists, with $k added to every number. No rows give an empty list.",
           "return [[x + $k for x in column] for column in zip(*rows)]", held_out=True),
)  # fmt: skip

ALGORITHMS = (
    Family("shift_cipher", 6, "text", {"k": range(1, 26), "vowels": [True, False]},
           "Shift every letter $k places forward in the alphabet, from z on to a; spaces stay. Vowels are shifted "
           "too: $vowels.",
           "out = []\nfor c in text:\n    if c == ' ' or (c in 'aeiou' and not $vowels):\n        out.append(c)\n"
           "    else:\n        out.append(chr((ord(c) - 97 + $k) % 26 + 97))\nreturn ''.join(out)"),
    Family("run_lengths", 6, "naturals", {"k": range(2, 16), "least": [1, 2]},
           "Replace each number by its remainder divided by $k, and return the runs of equal neighbours as a list of "
           "(value, length) tuples, leaving out runs shorter than $least.",
           "runs = []\nfor x in numbers:\n    if runs and runs[-1][0] == x % $k:\n        runs[-1][1] += 1\n    else:\n"
           "        runs.append([x % $k, 1])\nreturn [(x, n) for x, n in runs if n >= $least]"),
    Family("to_base", 6, "number", {"k": range(2, 10), "mark": ["", *_MARKS]},
           "Return n written in base $k, most significant digit first, with $mark between the digits. 0 is '0'.",
           "digits = []\nwhile n:\n    digits.append(str(n % $k))\n    n //= $k\n"
           "return $mark.join(digits[::-1]) or '0'"),
    Family("best_window", 6, "numbers", {"k": range(2, 5), "b": range(1, 20)},
           "Return the largest sum of $k neighbouring numbers, times $b. With fewer than $k numbers return None.",
           "sums = [sum(numbers[i:i + $k]) for i in range(len(numbers) - $k + 1)]\n"
           "return max(sums) * $b if sums else None"),
    Family("coin_ways", 6, "number", {"a": [1, 2], "b": range(3, 7), "c": range(7, 14)},
           "Return in how many ways the remainder of n divided by 100 can be paid with coins of $a, $b and $c, "
           "where the order of coins does not matter.",
           "n %= 100\nways = [1] + [0] * n\nfor coin in ($a, $b, $c):\n    for sum_ in range(coin, n + 1):\n"
           "        ways[sum_] += ways[sum_ - coin]\nreturn ways[n]"),
    Family("longest_climb", 6, "numbers", {"k": range(1, 20), "b": range(2, 6)},
           "Return $b times the length of the longest selection, in order but not necessarily neighbours, in which "
           "each number is at least $k above the one before.",
           "best = []\nfor i, x in enumerate(numbers):\n"
           "    best.append(1 + max((best[j] for j in range(i) if x - numbers[j] >= $k), default=0))\n"
           "return $b * max(best, default=0)"),
    Family("merge_close", 6, "naturals", {"k": range(1, 12), "b": range(0, 5)},
           "Sort the numbers and group neighbours that differ by at most $k. Return a (smallest + $b, largest) tuple "
           "for each group.",
           "groups = []\nfor x in sorted(numbers):\n    if groups and x - groups[-1][1] <= $k:\n"
           "        groups[-1][1] = x\n    else:\n        groups.append([x, x])\n"
           "return [(low + $b, high) for low, high in groups]"),
    Family("count_pairs", 6, "numbers", {"k": range(5, 40), "b": range(1, 4)},
           "Return $b times the number of pairs of different positions whose numbers add up to more than $k.",
           "n = len(numbers)\nreturn $b * sum(1 for i in range(n) for j in range(i) if numbers[i] + numbers[j] > $k)"),
    Family("primes_from", 6, "number", {"k": range(1, 5), "b": range(0, 12)},
           "Return the first $k primes above n, each plus $b, as a list.",
           "found = []\nwhile len(found) < $k:\n    n += 1\n"
           "    if n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1)):\n"
           "        found.append(n + $b)\nreturn found"),
    Family("josephus", 6, "number", {"k": range(2, 25), "b": range(1, 4)},
           "The people 0 to m - 1 stand in a circle, m being n divided by 10, rounded down, plus $b. Every $k-th is "
           "sent away, counting on from the last one sent, until one is left. Return that one.",
           "people, at = list(range(n // 10 + $b)), 0\nwhile len(people) > 1:\n    at = (at + $k - 1) % len(people)\n"
           "    people.pop(at)\nreturn people[0]", held_out=True),
    Family("balance_letters", 6, "text", {"up": "abcdeio", "down": "lnrstu", "b": [1, 2, 3]},
           "Read the text from the left with a counter at 0: $up adds $b, $down subtracts 1 but never below 0. Return "
           "the highest value the counter had.",
           "level = most = 0\nfor c in text:\n    if c == $up:\n        level += $b\n    elif c == $down:\n"
           "        level = max(0, level - 1)\n    most = max(most, level)\nreturn most"),
    Family("edit_words", 6, "words", {"word": ["lane", "oat", "stone", "pear", "tie", "grain"], "b": range(1, 10)},
           "For each word return $b times its edit distance to $word: the fewest letters to insert, remove or replace.",
           "def distance(a, b):\n    row = list(range(len(b) + 1))\n    for i, x in enumerate(a, 1):\n"
           "        last, row[0] = row[0], i\n        for j, y in enumerate(b, 1):\n"
           "            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))\n    return row[-1]\n"
           "return [$b * distance(w, $word) for w in words]", held_out=True),
    Family("spiral", 6, "rows", {"k": range(1, 9), "b": range(0, 6)},
           "Read the rows as a grid in a clockwise spiral from the top left inwards. Return every $k-th number read, "
           "beginning with the first, each plus $b.",
           "rows, seen = [list(row) for row in rows], []\nwhile rows and rows[0]:\n    seen += rows.pop(0)\n"
           "    rows = [list(column) for column in zip(*rows)][::-1]\nreturn [x + $b for x in seen[::$k]]"),
)  # fmt: skip

WRITTEN = (*ONE_OPERATION, *WITH_CONDITION, *GROUPING, *ALGORITHMS)
