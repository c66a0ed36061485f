"""The families of problems: a question, Python code that solves it with the standard library, and the answer.

Where there is a closed form, the answer comes from it and not from the code, so that tests can compare the two.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from fractions import Fraction

Problem = tuple[str, str, str]
"""The question, Python code that prints the answer, and the answer."""


def power_remainder(rng: random.Random) -> Problem:
    """Ask for a power modulo a number."""
    a, n, m = rng.randint(3, 99), rng.randint(50, 5_000), rng.randint(11, 999)
    return f"What is the remainder of {a}^{n} divided by {m}?", f"print({a} ** {n} % {m})", str(pow(a, n, m))


def digit_sum(rng: random.Random) -> Problem:
    """Ask for the sum of the digits of a power."""
    a, n = rng.randint(2, 40), rng.randint(20, 200)
    code = f"print(sum(int(d) for d in str({a} ** {n})))"
    return f"What is the sum of the decimal digits of {a}^{n}?", code, str(sum(map(int, str(a**n))))


def multiples_below(rng: random.Random) -> Problem:
    """Ask for the sum of the multiples of two numbers. The answer comes from inclusion and exclusion."""
    a, b, n = *rng.sample(range(3, 20), 2), rng.randint(200, 9_000)

    def total(k: int) -> int:
        count = (n - 1) // k
        return k * count * (count + 1) // 2

    return (
        f"What is the sum of all positive whole numbers below {n} that are divisible by {a} or by {b}?",
        f"print(sum(x for x in range({n}) if x % {a} == 0 or x % {b} == 0))",
        str(total(a) + total(b) - total(math.lcm(a, b))),
    )


def trailing_zeros(rng: random.Random) -> Problem:
    """Ask for the number of zeros at the end of a factorial. The answer comes from Legendre's formula."""
    n = rng.randint(20, 1_400)
    answer, power = 0, 5
    while power <= n:
        answer, power = answer + n // power, power * 5
    code = f"import math\ntext = str(math.factorial({n}))\nprint(len(text) - len(text.rstrip('0')))"
    return f"With how many zeros does {n}! (factorial) end?", code, str(answer)


def divisors(rng: random.Random) -> Problem:
    """Ask for the number of divisors of a product of prime powers."""
    primes = rng.sample((2, 3, 5, 7, 11, 13), 3)
    exponents = [rng.randint(1, 4) for _ in primes]
    n = math.prod(p**e for p, e in zip(primes, exponents, strict=True))
    code = (
        f"n, count = {n}, 0\nfor d in range(1, int(n ** 0.5) + 1):\n"
        "    if n % d == 0:\n        count += 1 + (d * d != n)\nprint(count)"
    )
    return f"How many positive divisors does {n} have?", code, str(math.prod(e + 1 for e in exponents))


def committees(rng: random.Random) -> Problem:
    """Ask for the number of committees that meet a condition."""
    women, men, size = rng.randint(4, 12), rng.randint(4, 12), rng.randint(3, 6)
    least = rng.randint(1, 2)
    answer = sum(math.comb(women, k) * math.comb(men, size - k) for k in range(least, size + 1))
    bad = sum(math.comb(women, k) * math.comb(men, size - k) for k in range(least))
    return (
        f"From {women} women and {men} men a committee of {size} is chosen. In how many ways, if at least {least} "
        f"of its members must be {'a woman' if least == 1 else 'women'}?",
        f"from math import comb\nprint(comb({women + men}, {size}) - {bad})",
        str(answer),
    )


def arithmetic_word(rng: random.Random) -> Problem:
    """Ask a word problem of a few everyday steps."""
    boxes, each, broken, price = rng.randint(4, 40), rng.randint(6, 48), rng.randint(2, 20), rng.randint(2, 15)
    rent = rng.randint(5, 60)
    answer = (boxes * each - broken) * price - rent
    return (
        f"A shop buys {boxes} boxes of {each} cups. {broken} cups are broken; every other one is sold for {price} "
        f"euros. The stand costs {rent} euros. How many euros are left?",
        f"cups = {boxes} * {each}\ncups -= {broken}\nprint(cups * {price} - {rent})",
        str(answer),
    )


def two_unknowns(rng: random.Random) -> Problem:
    """Ask for a combination of the two unknowns of a linear system with an integer solution."""
    x, y = rng.randint(-12, 25), rng.randint(-12, 25)
    a, b, c, d = (rng.choice([k for k in range(-7, 8) if k]) for _ in range(4))
    if a * d == b * c:
        d += 1 if d != -1 else 2
    if a * d == b * c:
        return two_unknowns(rng)
    e, f, p, q = a * x + b * y, c * x + d * y, rng.randint(2, 9), rng.randint(2, 9)
    code = (
        f"from fractions import Fraction\ndet = {a} * {d} - {b} * {c}\nx = Fraction({e} * {d} - {b} * {f}, det)\n"
        f"y = Fraction({a} * {f} - {e} * {c}, det)\nprint({p} * x + {q} * y)"
    )
    question = f"If {a}x + ({b})y = {e} and ({c})x + ({d})y = {f}, what is {p}x + {q}y?"
    return question, code, str(p * x + q * y)


def definite_integral(rng: random.Random) -> Problem:
    """Ask for the integral of a polynomial, as a fraction."""
    cs = [rng.randint(-6, 6) for _ in range(3)] + [rng.randint(1, 6)]
    low, high = rng.randint(-3, 1), rng.randint(2, 5)
    answer = sum((Fraction(c, n + 1) * (high ** (n + 1) - low ** (n + 1)) for n, c in enumerate(cs)), Fraction(0))
    terms = " + ".join(f"({c})x^{n}" for n, c in reversed(list(enumerate(cs))))
    code = (
        f"from fractions import Fraction as F\nc = {cs}\nup = lambda x: sum(F(k) * x ** (n + 1) / (n + 1) "
        f"for n, k in enumerate(c))\nprint(up(F({high})) - up(F({low})))"
    )
    question = f"What is the integral of {terms} from x = {low} to x = {high}? Give a whole number or a fraction a/b."
    return question, code, str(answer)


def recurrence(rng: random.Random) -> Problem:
    """Ask for a term of a linear recurrence."""
    a, b, start, second, n = (
        rng.randint(1, 4),
        rng.randint(1, 4),
        rng.randint(0, 5),
        rng.randint(1, 6),
        rng.randint(9, 25),
    )
    x, y = start, second
    for _ in range(n - 1):
        x, y = y, a * y + b * x
    code = f"s = [{start}, {second}]\nwhile len(s) <= {n}:\n    s.append({a} * s[-1] + {b} * s[-2])\nprint(s[{n}])"
    question = f"A sequence has s(0) = {start}, s(1) = {second} and s(k) = {a} s(k-1) + {b} s(k-2). What is s({n})?"
    return question, code, str(y)


def lattice_paths(rng: random.Random) -> Problem:
    """Ask for the number of paths on a grid through a point."""
    w, h = rng.randint(4, 12), rng.randint(4, 12)
    x, y = rng.randint(1, w - 1), rng.randint(1, h - 1)
    answer = math.comb(x + y, x) * math.comb(w - x + h - y, w - x)
    code = (
        "from functools import cache\n@cache\ndef ways(i, j):\n    if i == 0 or j == 0:\n        return 1\n"
        f"    return ways(i - 1, j) + ways(i, j - 1)\nprint(ways({x}, {y}) * ways({w - x}, {h - y}))"
    )
    question = (
        f"On a grid one goes from (0, 0) to ({w}, {h}) by steps of 1 to the right or up. How many ways lead through "
        f"({x}, {y})?"
    )
    return question, code, str(answer)


def dice(rng: random.Random) -> Problem:
    """Ask for a probability with dice, as a fraction."""
    count, sides = rng.randint(2, 4), rng.choice((4, 6, 8))
    target = rng.randint(count + 2, count * sides - 2)
    ways = {0: 1}
    for _ in range(count):
        ways = {s: sum(ways.get(s - k, 0) for k in range(1, sides + 1)) for s in range(count * sides + 1)}
    answer = Fraction(ways[target], sides**count)
    code = (
        f"from fractions import Fraction\nfrom itertools import product\nrolls = list(product(range(1, {sides + 1}), "
        f"repeat={count}))\nprint(Fraction(sum(sum(r) == {target} for r in rolls), len(rolls)))"
    )
    question = (
        f"{count} fair dice with the sides 1 to {sides} are thrown. What is the probability that they add up to "
        f"{target}? Give a fraction a/b in lowest terms."
    )
    return question, code, str(answer)


def remainders(rng: random.Random) -> Problem:
    """Ask for the smallest number with given remainders."""
    a, b, c = rng.sample((5, 7, 8, 9, 11, 13, 17), 3)
    number = rng.randrange(a * b * c)
    code = f"n = 0\nwhile (n % {a}, n % {b}, n % {c}) != {(number % a, number % b, number % c)}:\n    n += 1\nprint(n)"
    question = (
        f"What is the smallest whole number, 0 or more, that leaves the remainders {number % a}, {number % b} and "
        f"{number % c} when divided by {a}, {b} and {c}?"
    )
    return question, code, str(number)


def square_free(rng: random.Random) -> Problem:
    """Ask for the number of square-free numbers up to n. The answer comes from a sieve."""
    n = rng.randint(60, 3_000)
    is_square_free = [True] * (n + 1)
    for d in range(2, math.isqrt(n) + 1):
        for k in range(d * d, n + 1, d * d):
            is_square_free[k] = False
    code = f"print(sum(all(x % (d * d) for d in range(2, int(x ** 0.5) + 1)) for x in range(1, {n + 1})))"
    question = f"How many whole numbers from 1 to {n} are divisible by no square number above 1?"
    return question, code, str(sum(is_square_free[1:]))


KNOWN: Mapping[str, Callable[[random.Random], Problem]] = {
    family.__name__: family
    for family in (
        power_remainder,
        digit_sum,
        multiples_below,
        trailing_zeros,
        divisors,
        committees,
        arithmetic_word,
        two_unknowns,
        definite_integral,
        recurrence,
    )
}
UNSEEN: Mapping[str, Callable[[random.Random], Problem]] = {
    family.__name__: family for family in (lattice_paths, dice, remainders, square_free)
}
