"""The families of designs: each draws parameters and returns a description, a Python model and a Verilog reference."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from .design import Design, Values


def _each(step: Callable[[Values], Values]) -> Callable[[Sequence[Values]], list[Values]]:
    """Return the model of a design without state."""
    return lambda vectors: [step(values) for values in vectors]


def _from(start: int, step: Callable[[int, Values], int], show: Callable[[int], Values]) -> Callable[..., list[Values]]:
    """Return the model of a clocked design whose state is one number."""

    def model(vectors: Sequence[Values]) -> list[Values]:
        state, outputs = start, []
        for values in vectors:
            state = step(state, values)
            outputs.append(show(state))
        return outputs

    return model


def linear(rng: random.Random) -> Design:
    """Return a design of a * K + C, cut to the width."""
    w, k, c = rng.randint(4, 12), rng.randint(2, 7), rng.randint(1, 15)
    return Design(
        "linear",
        f"y is a multiplied by {k} plus {c}, cut to {w} bits.",
        {"a": w},
        {"y": w},
        _each(lambda v: {"y": (v["a"] * k + c) % 2**w}),
        f"assign y = a * {k} + {c};",
    )


def extremes(rng: random.Random) -> Design:
    """Return a design of the larger and the smaller of two numbers, with an offset."""
    w, c = rng.randint(3, 10), rng.randint(1, 6)
    return Design(
        "extremes",
        f"big is the larger of the unsigned a and b; little is the smaller one plus {c}, cut to {w} bits.",
        {"a": w, "b": w},
        {"big": w, "little": w},
        _each(lambda v: {"big": max(v["a"], v["b"]), "little": (min(v["a"], v["b"]) + c) % 2**w}),
        f"assign big = a > b ? a : b;\nassign little = (a > b ? b : a) + {c};",
    )


def choice(rng: random.Random) -> Design:
    """Return a multiplexer with its inputs in some order."""
    w, order = rng.randint(1, 8), rng.sample("abcd", 4)
    words = ", ".join(f"{name} when s is {index}" for index, name in enumerate(order))
    body = f"assign y = s == 0 ? {order[0]} : s == 1 ? {order[1]} : s == 2 ? {order[2]} : {order[3]};"
    inputs = {"s": 2, **dict.fromkeys("abcd", w)}
    return Design("choice", f"y is {words}.", inputs, {"y": w}, _each(lambda v: {"y": v[order[v["s"]]]}), body)


def masked_parity(rng: random.Random) -> Design:
    """Return a design of the parity of some bits."""
    w = rng.randint(4, 12)
    bits = sorted(rng.sample(range(w), rng.randint(2, w - 1)))
    mask = sum(1 << bit for bit in bits)
    listed = ", ".join(map(str, bits))
    return Design(
        "masked_parity",
        f"p is 1 if an odd number of the bits {listed} of a are 1 (bit 0 is the lowest), else 0.",
        {"a": w},
        {"p": 1},
        _each(lambda v: {"p": (v["a"] & mask).bit_count() % 2}),
        f"assign p = ^(a & {w}'d{mask});",
    )


def many_ones(rng: random.Random) -> Design:
    """Return a design that counts the set bits, and says whether there are enough."""
    w = rng.randint(4, 10)
    k = rng.randint(2, w - 1)
    total = " + ".join(f"a[{bit}]" for bit in range(w))
    return Design(
        "many_ones",
        f"n is how many bits of a are 1; enough is 1 if there are at least {k}, else 0.",
        {"a": w},
        {"n": 4, "enough": 1},
        _each(lambda v: {"n": v["a"].bit_count(), "enough": int(v["a"].bit_count() >= k)}),
        f"assign n = {total};\nassign enough = n >= {k};",
    )


def turn(rng: random.Random) -> Design:
    """Return a design that rotates by a fixed number of places if an input is 1."""
    w = rng.randint(4, 12)
    k = rng.randint(1, w - 1)
    return Design(
        "turn",
        f"y is a rotated to the left by {k} places if go is 1 (the highest bits come in again below), else a.",
        {"a": w, "go": 1},
        {"y": w},
        _each(lambda v: {"y": ((v["a"] << k) | (v["a"] >> (w - k))) % 2**w if v["go"] else v["a"]}),
        f"assign y = go ? {{a[{w - k - 1}:0], a[{w - 1}:{w - k}]}} : a;",
    )


def logic(rng: random.Random) -> Design:
    """Return a design of a random expression of bitwise operators."""
    w = rng.randint(1, 6)
    first_operator, second_operator = rng.choice("&|^"), rng.choice("&|^")
    names = rng.sample("abc", 3)
    flip = rng.choice(("", "~"))
    text = f"({names[0]} {first_operator} {flip}{names[1]}) {second_operator} {names[2]}"

    def step(v: Values) -> Values:
        apply = {"&": int.__and__, "|": int.__or__, "^": int.__xor__}
        second = v[names[1]] ^ (2**w - 1) if flip else v[names[1]]
        return {"y": apply[second_operator](apply[first_operator](v[names[0]], second), v[names[2]])}

    words = f"y is {text}, bit by bit: & is and, | is or, ^ is exclusive or, ~ is not."
    return Design("logic", words, dict.fromkeys("abc", w), {"y": w}, _each(step), f"assign y = {text};")


def saturating(rng: random.Random) -> Design:
    """Return a design of a sum with an upper bound."""
    w = rng.randint(3, 8)
    limit = rng.randint(2 ** (w - 1), 2**w - 1)
    return Design(
        "saturating",
        f"y is the sum of a and b, but {limit} if the sum is larger than {limit}.",
        {"a": w, "b": w},
        {"y": w},
        _each(lambda v: {"y": min(v["a"] + v["b"], limit)}),
        f"wire [{w}:0] sum = a + b;\nassign y = sum > {limit} ? {limit} : sum[{w - 1}:0];",
    )


def unit(rng: random.Random) -> Design:
    """Return an arithmetic unit with operations in some order."""
    w = rng.randint(3, 8)
    table = {
        "a plus b": ("a + b", int.__add__),
        "a minus b": ("a - b", int.__sub__),
        "a and b": ("a & b", int.__and__),
        "a or b": ("a | b", int.__or__),
        "a exclusive-or b": ("a ^ b", int.__xor__),
    }
    chosen = rng.sample(list(table), 4)
    words = "; ".join(f"{name} when op is {index}" for index, name in enumerate(chosen))
    cases = "\n".join(f"    {index}: y = {table[name][0]};" for index, name in enumerate(chosen))
    return Design(
        "unit",
        f"y, cut to {w} bits, is: {words}.",
        {"op": 2, "a": w, "b": w},
        {"y": w},
        _each(lambda v: {"y": table[chosen[v["op"]]][1](v["a"], v["b"]) % 2**w}),
        f"always @* case (op)\n{cases}\nendcase",
        registers=True,
    )


def counter(rng: random.Random) -> Design:
    """Return a counter with a step and an upper bound."""
    limit, step = rng.randint(5, 60), rng.randint(1, 4)
    w = 7
    return Design(
        "counter",
        f"At every rising edge of clk, n becomes 0 if rst is 1; else, if en is 1, it grows by {step}, and "
        f"becomes 0 in place of any value above {limit}; else it stays.",
        {"en": 1},
        {"n": w},
        _from(0, lambda s, v: (0 if s + step > limit else s + step) if v["en"] else s, lambda s: {"n": s}),
        f"always @(posedge clk)\n    if (rst) n <= 0;\n    else if (en) n <= n + {step} > {limit} ? 0 : n + {step};",
        registers=True,
        clocked=True,
    )


def delay(rng: random.Random) -> Design:
    """Return a shift register with a tap in between."""
    length = rng.randint(3, 9)
    tap = rng.randint(1, length - 1)
    return Design(
        "delay",
        "At every rising edge of clk a bit d is taken in. late is the bit that was taken in "
        f"{length - 1} edges before the newest one, mid the one that was taken in {tap} before the newest. After the "
        "synchronous rst all earlier bits count as 0.",
        {"d": 1},
        {"late": 1, "mid": 1},
        _from(
            0, lambda s, v: ((s << 1) | v["d"]) % 2**length, lambda s: {"late": s >> (length - 1), "mid": s >> tap & 1}
        ),
        f"reg [{length - 1}:0] s;\nalways @(posedge clk) s <= rst ? 0 : {{s[{length - 2}:0], d}};\n"
        f"assign late = s[{length - 1}];\nassign mid = s[{tap}];",
        clocked=True,
    )


def feedback(rng: random.Random) -> Design:
    """Return a linear feedback shift register that also takes a bit in."""
    w = rng.randint(4, 9)
    tap_a, tap_b = sorted(rng.sample(range(w), 2))
    return Design(
        "feedback",
        f"q has {w} bits and is 0 after the synchronous rst. At every other rising edge of clk it is shifted left by "
        f"one, and its new lowest bit is the exclusive or of d and of the old bits {tap_a} and {tap_b} of q.",
        {"d": 1},
        {"q": w},
        _from(0, lambda s, v: ((s << 1) | (v["d"] ^ (s >> tap_a & 1) ^ (s >> tap_b & 1))) % 2**w, lambda s: {"q": s}),
        f"always @(posedge clk) q <= rst ? 0 : {{q[{w - 2}:0], d ^ q[{tap_a}] ^ q[{tap_b}]}};",
        registers=True,
        clocked=True,
    )


def pattern(rng: random.Random) -> Design:
    """Return a detector of a bit sequence, which may overlap."""
    length = rng.randint(3, 5)
    sequence = rng.randrange(1, 2**length)
    text = format(sequence, f"0{length}b")
    return Design(
        "pattern",
        f"Bits come in on d at rising edges of clk. hit is 1 after an edge at which the last {length} bits, the "
        f"oldest first, are {text}, else 0; sequences may overlap. After the synchronous rst all earlier bits "
        f"count as 0.",
        {"d": 1},
        {"hit": 1},
        _from(0, lambda s, v: ((s << 1) | v["d"]) % 2**length, lambda s: {"hit": int(s == sequence)}),
        f"reg [{length - 1}:0] s;\nalways @(posedge clk) s <= rst ? 0 : {{s[{length - 2}:0], d}};\n"
        f"assign hit = s == {length}'b{text};",
        clocked=True,
    )


def total(rng: random.Random) -> Design:
    """Return a design of a running sum that an input clears."""
    w, k = rng.randint(4, 9), rng.randint(1, 6)
    return Design(
        "total",
        f"At every rising edge of clk, sum becomes 0 if rst or clear is 1, else it grows by a plus "
        f"{k}, cut to "
        f"{w} bits.",
        {"clear": 1, "a": 3},
        {"sum": w},
        _from(0, lambda s, v: 0 if v["clear"] else (s + v["a"] + k) % 2**w, lambda s: {"sum": s}),
        f"always @(posedge clk) sum <= rst || clear ? 0 : sum + a + {k};",
        registers=True,
        clocked=True,
    )


def highest(rng: random.Random) -> Design:
    """Return a priority encoder."""
    w, none = rng.randint(4, 9), rng.randint(10, 15)
    chain = "".join(f"a[{bit}] ? {bit} : " for bit in reversed(range(w)))
    return Design(
        "highest",
        f"y is the number of the highest bit of a that is 1 (bit 0 is the lowest), or {none} if none is.",
        {"a": w},
        {"y": 4},
        _each(lambda v: {"y": v["a"].bit_length() - 1 if v["a"] else none}),
        f"assign y = {chain}{none};",
    )


def rising(rng: random.Random) -> Design:
    """Return a counter of rising edges of a signal."""
    w, k = rng.randint(3, 7), rng.randint(1, 5)

    def step(state: int, v: Values) -> int:
        count, before = state >> 1, state & 1
        count = (count + (k if v["d"] and not before else 0)) % (1 << w)
        return count << 1 | v["d"]

    return Design(
        "rising",
        f"At every rising edge of clk, n grows by {k}, cut to {w} bits, if d is 1 and was 0 at the "
        f"edge before; "
        "else it stays. After the synchronous rst n is 0, and d counts as 0 before.",
        {"d": 1},
        {"n": w},
        _from(0, step, lambda s: {"n": s >> 1}),
        f"reg was;\nalways @(posedge clk) begin\n    was <= rst ? 0 : d;\n"
        f"    n <= rst ? 0 : n + (d && !was ? {k} : 0);\nend",
        registers=True,
        clocked=True,
    )


def steady(rng: random.Random) -> Design:
    """Return a debouncer."""
    k = rng.randint(2, 6)

    def step(state: int, v: Values) -> int:
        count, value = state >> 1, state & 1
        count = count + 1 if v["d"] != value else 0
        return (0 << 1 | v["d"]) if count == k else (count << 1 | value)

    return Design(
        "steady",
        f"q is 0 after the synchronous rst. At a rising edge of clk q takes the value of d if d has "
        f"differed from "
        f"q at this edge and at the {k - 1} edges just before it; else it stays.",
        {"d": 1},
        {"q": 1},
        _from(0, step, lambda s: {"q": s & 1}),
        f"reg [3:0] n;\nalways @(posedge clk)\n    if (rst) begin q <= 0; n <= 0; end\n    else if (d == q) n <= 0;\n"
        f"    else if (n == {k - 1}) begin q <= d; n <= 0; end\n    else n <= n + 1;",
        registers=True,
        clocked=True,
    )


def gray(rng: random.Random) -> Design:
    """Return a design of the Gray code of a number plus an offset."""
    w, c = rng.randint(3, 10), rng.randint(0, 7)

    def step(v: Values) -> Values:
        number = (v["a"] + c) % 2**w
        return {"g": number ^ (number >> 1)}

    return Design(
        "gray",
        f"g is the reflected Gray code (a number exclusive-or itself shifted right by one) of a plus "
        f"{c}, the sum "
        f"cut to {w} bits.",
        {"a": w},
        {"g": w},
        _each(step),
        f"wire [{w - 1}:0] n = a + {c};\nassign g = n ^ (n >> 1);",
    )


KNOWN: Mapping[str, Callable[[random.Random], Design]] = {
    family.__name__: family
    for family in (
        linear,
        extremes,
        choice,
        masked_parity,
        many_ones,
        turn,
        logic,
        saturating,
        unit,
        counter,
        delay,
        feedback,
        pattern,
        total,
    )
}
UNSEEN: Mapping[str, Callable[[random.Random], Design]] = {
    family.__name__: family for family in (highest, rising, steady, gray)
}
