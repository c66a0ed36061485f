"""`symbolic_maths`: the same answer however it is written, and nothing for those who try."""

from __future__ import annotations

import contextlib
import json
import time
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging import answered, make_trajectory

from agentgym import JudgeError, Task, load_reward
from agentgym.rewards.maths_notation import read
from agentgym.rewards.maths_tokens import NoMaths
from agentgym.rewards.symbolic_maths import equivalent, extracted

GSM8K = Path(__file__).parents[2] / "../shared/data/gsm8k/test.jsonl"

SAME = [
    (r"\sin^{-1} x", r"\arcsin x"),
    (r"\tan^{-1} 2x", r"\arctan(2x)"),
    (r"\cot^{-1} 1", r"\frac{\pi}{4}"),
    (r"1 \mp \sqrt{2}", r"1 \pm \sqrt{2}"),
    (r"\mp 3", "3, -3"),
    (r"0.\overline{3}", r"\frac13"),
    (r"2.1\overline{6}", r"\frac{13}{6}"),
    (r"\varnothing", r"\emptyset"),
    ("\u2205", r"\emptyset"),
    (r"x \equiv 3 \pmod 5", r"x \equiv 3 \pmod{5}"),
    ("x\u00b2 + x\u207b\u00b9", "x^2 + 1/x"),
    ("\u00bd", "1/2"),
    ("1\u00bd", "3/2"),
    ("1\u20442", "1/2"),
    ("10 cm\u00b2", "10"),
    ("5 m/s", "5"),
    (r"5\text{ m/s}", "5 meters per second"),
    ("60 mph", "60 miles per hour"),
    (r"20^{\circ}C", "20"),
    (r"20^\circ\text{C}", "20 \u00b0C"),
    (r"5\text{ m}", "5 meters"),
    ("y = 2x + 1", "2x + 1"),
    ("1/2", "0.5"),
    (r"\frac{1}{2}", "1/2"),
    (r"\frac12", "0.5"),
    (r"\dfrac{3}{4}\text{ cm}", "0.75"),
    ("1,234", "1234"),
    (r"\$1{,}234.50", "1234.5"),
    ("x=5", "5"),
    (r"2\sqrt{3}", "sqrt(12)"),
    ("sqrt(2)/2", r"\frac{1}{\sqrt{2}}"),
    ("(x+1)^2", "x^2+2x+1"),
    ("x(x+2)+1", "x^2+2*x+1"),
    (r"\sin^2 x+\cos^2 x", "1"),
    ("(1,2)", "(1, 2)"),
    (r"\{1,2\}", r"\{2,1\}"),
    ("1, 2", "2 and 1"),
    ("[1,2)", r"\left[1,2\right)"),
    ("3x+2y=6", "6x+4y-12=0"),
    (r"1 \pm \sqrt{2}", r"1+\sqrt2, 1-\sqrt2"),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{bmatrix} 1 & 2 \\ 3 & 4\end{bmatrix}"),
    (r"50\%", "50"),
    (r"90^\circ", "90"),
    (r"\log_{2} 8", "3"),
    (r"e^{i\pi}", "-1"),
    ("5!", "120"),
    (r"\binom{5}{2}", "10"),
    ("1 1/2", "3/2"),
    (r"1\frac{1}{2}", "1.5"),
    ("Monday", r"\text{Monday}"),
    ("(B)", r"\text{B}"),
    (r"\mathrm{(C)}", "C"),
    (r"x \in [1,2]", "[1,2]"),
    ("2^{100}", "1267650600228229401496703205376"),
    (r"-\frac{2}{3}", r"\frac{-2}{3}"),
    ("|-3|", "3"),
    (r"\pi r^2", "pi*r**2"),
    ("x<3", "3>x"),
    ("1.5e3", "1500"),
    (r"(-\infty, 2)\cup(3,\infty)", r"(3,oo) \cup (-\infty,2)"),
    (r"\sqrt[3]{-8}", "-2"),
    ("#### 42", "42"),
    (r"so it is \boxed{\frac{1}{3}}.", "1/3"),
    ("x_1+x_2", "x_{2}+x_{1}"),
    (r"\ln(e^2)", "2"),
    ("0", "0"),
    (r"2\pi", "6.283185307179586"),
    (r"\frac{\sqrt{3}}{3}", "1/sqrt(3)"),
    ("-5", "-5.0"),
    ("3:4", "3:4"),
    ("x = 1 or x = 2", "1, 2"),
    ("0.1 + 0.2", "0.3"),
    ("10080", r"10,\!080"),
    ("10,080", r"10,\!080"),
    ("1000", r"1\,000"),
    (r"$1{,}000{,}000$", "10^6"),
    (r"\frac{1\,000}{3}", "1000/3"),
    ("$52_8$", "52_8"),
    ("52_{8}", "52_8"),
    ("(52)_8", "052_8"),
    (r"$\text{Evelyn}$", "Evelyn"),
    (r"$\text{(C)}$", "C"),
    (r"\[\textbf{(C)}\]", "(C)"),
    (r"(n-2)2^n+1", r"(n-2)\cdot 2^n+1"),
    ("n 2^n", r"n \cdot 2^n"),
    ("3x 2", "6x"),
    (r"\frac{1}{2}3", "3/2"),
    (r"\log_2 8", "3"),
    (r"\frac 1 2", "0.5"),
    (r"$k \geqslant 2$", r"\boxed{k \geqslant 2}"),
    (r"k \geq 2", r"k\geqslant 2"),
    (r"\lfloor 7/2 \rfloor", "3"),
    (r"\left\lceil \frac{n}{2} \right\rceil", r"\lceil n/2 \rceil"),
    (r"\lvert -3 \rvert", "3"),
    (r"$f \mapsto g \circ f$", r"\boxed{f \mapsto g \circ f}"),
    (r"$\gcd(a, b) = 1$", r"\gcd (a,b)=1"),
    ("The answer is 9.", "9"),
    ("**9**", "9"),
    ("Final answer: $\\frac{1}{2}$", "0.5"),
    (r"\sin 2x", r"\sin(2x)"),
    (r"\ln 2x", r"\ln(2) + \ln(x)"),
    (r"\sin x \cos x", r"\frac{1}{2}\sin 2x"),
    (r"\cos^2 2x", r"1-\sin^2 2x"),
    (r"\sin\frac{\pi}{6}", "1/2"),
    (r"e^x\sin 3x", r"\sin(3x) e^x"),
    (r"\frac{5 \pm \sqrt{61}}{18}", r"\frac{5 \pm \sqrt{61}}{18}"),
    (r"x = \frac{5 \pm \sqrt{61}}{18}", r"\frac{5+\sqrt{61}}{18}, \frac{5-\sqrt{61}}{18}"),
    (r"\pm 1, 0", "-1, 0, 1"),
    (r"\begin{array}{cc} 1 & 2 \\ 3 & 4 \end{array}", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}"),
    (r"\left[\begin{array}{l|l} 1 & 2 \\ 3 & 4 \end{array}\right]", r"\begin{bmatrix}1&2\\3&4\end{bmatrix}"),
    (r"\frac12\begin{bmatrix}2&4\\6&8\end{bmatrix}", r"\begin{bmatrix}1&2\\3&4\end{bmatrix}"),
    (
        r"\begin{bmatrix}2\\4\end{bmatrix} \frac{t}{2} - \begin{bmatrix}t\\0\end{bmatrix}",
        r"\begin{bmatrix}0\\2t\end{bmatrix}",
    ),
    (r"-\begin{bmatrix}1&2\end{bmatrix}/2", r"\begin{bmatrix}-1/2&-1\end{bmatrix}"),
    (r"x^5 \left[e^{y}-1\right] d", r"x^5 d (e^y - 1)"),
    ("10 cm", "10"),
    (r"10\text{ cm}^2", "10"),
    ("18 dollars", "18"),
    ("90 degrees", r"90^\circ"),
    (r"5\text{ apples}", "5"),
    ("10 inches", "10 inch"),
    (r"\frac{1}{2} \text{ hours}", "0.5"),
    ("\u221e", r"\infty"),
    ("St. John\u2019s", "St. John's"),
]
OTHER = [
    ("5 m/s", "5 km/h"),
    ("60 miles per hour", "60 km per hour"),
    (r"20^\circ C", r"20^\circ F"),
    (r"\sin^{-1} x", r"\frac{1}{\sin x}"),
    (r"0.\overline{3}", "0.3"),
    ("2x = 6", "6"),
    ("x = x + 1", "x + 1"),
    ("10\u00b2", "102"),
    ("5m", "5"),
    ("0.333", "1/3"),
    ("on", "no"),
    ("2^{1000}+1", "2^{1000}"),
    ("(1,2)", "(2,1)"),
    ("[1,2)", "[1,2]"),
    ("", "5"),
    ("5 or 6", "5"),
    ("5, 6", "5"),
    ("5, 5", "5"),
    ("x", "5"),
    ("x=y", "5"),
    ("x+1", "x+2"),
    ("sqrt(x^2)", "x"),
    ("3x+2y=6", "3x+2y=7"),
    ("x<3", "x>3"),
    ("0", "1/10^60"),
    ("5=5", "5"),
    ("x=5=6", "5"),
    ("1", "x/x + 0*oo"),
    ("Tuesday", "Monday"),
    ("A", "B"),
    ("42", "24"),
    ("5 is not the answer", "5"),
    (r"\boxed{}", "5"),
    (r"\boxed{5} or rather \boxed{6}", "5"),
    ("\\boxed{5", "5"),
    ("(1,234)", "1234"),
    (r"(1,\,234)", "1234"),
    ("42", "52_8"),  # the question asks for the base
    ("52", "52_8"),
    ("52_9", "52_8"),
    ("9_8", "9"),
    ("(n-2)2^n+1", "(n-2)2^n"),
    ("A1", "1A"),
    (r"\lfloor x \rfloor", "x"),
    (r"\lfloor x \rfloor", r"\lceil x \rceil"),
    (r"k \leqslant 2", r"k \geqslant 2"),
    (r"A \cap \mathbb{R}", r"A \cup \mathbb{R}"),
    ("The answer is 5 or 6", "5"),
    ("The answer is not 5", "5"),
    ("**5** or **6**", "5"),
    (r"x\sin 2", r"\sin 2x"),
    (r"x\ln 2", r"\ln 2x"),
    (r"\frac{5+\sqrt{61}}{18}", r"\frac{5 \pm \sqrt{61}}{18}"),
    (r"\begin{array}{cc} 1 & 2 \\ 3 & 5 \end{array}", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}"),
    (r"\frac12\begin{bmatrix}2&4\\6&8\end{bmatrix}", r"\begin{bmatrix}1&2\\3&5\end{bmatrix}"),
    (r"\begin{bmatrix}1&2\end{bmatrix}+\begin{bmatrix}1&2&3\end{bmatrix}", r"2\begin{bmatrix}1&2\end{bmatrix}"),
    (r"2\begin{bmatrix}1&2\end{bmatrix}", "2"),
    (r"x^5 \left[e^{y}-1\right] d", r"x^5 d (e^y - 2)"),
    ("[5]", "5"),
    ("10 mm", "10 cm"),
    ("100", r"10\text{ cm}^2"),
    (r"5\text{ apples}", r"5\text{ pears}"),
    ("x cm", "5"),
]
HOSTILE = [
    "9**9**9**9",
    "9^{9^{9^{9}}}",
    "100000!",
    "((((9!)!)!)!)!",
    "exp(exp(exp(10)))",
    "sin(10^{10^{8}})",
    "1/0",
    "0^0",
    "oo-oo",
    "(" * 500 + "5" + ")" * 500,
    "1" * 700,
    "1e999^999",
    "__import__('os').system('true')",
    "5" + "\\" * 400,
    r"\begin{matrix}" * 30,
    "{" * 300,
    "|" * 300,
    r"\frac" * 90,
    r"\sqrt" * 90,
    "^" * 100,
    "-" * 599,
    "x_" * 200,
    "2^" * 190 + "2",
    "1+" * 250 + "1",
    r"\binom{10^{30}}{10^{29}}",
    "lambda: 5",
    "\\(" * 200 + "6" + "\\)" * 200,
    "**" * 49_000 + "5",
    "The answer is " * 7_000 + "5",
    r"\lfloor" * 90,
    "9_" * 200 + "9",
    r"1\,000" * 10_000,
    "5\x00",
    "5" + " " * 590 + "c",
    r"\pm" * 190 + "2",
    r"1\pm 2" * 90,
    r"\sin " * 100 + "2x" * 50,
    r"\begin{array}{" + "c" * 580,
    "\ud800",
]


@pytest.mark.parametrize(("given", "gold"), SAME)
def test_the_same_answer_may_be_written_in_another_way(given, gold):
    assert equivalent(given, gold)
    assert equivalent(gold, given)


@pytest.mark.parametrize(("given", "gold"), OTHER)
def test_another_answer_is_another_answer(given, gold):
    assert not equivalent(given, gold)


@pytest.mark.parametrize("given", HOSTILE)
def test_a_hostile_answer_is_wrong_and_costs_little(given):
    started = time.process_time()
    for gold in ("5", "x+1", r"\frac{\pi}{3}", "Monday"):
        assert not equivalent(given, gold)
    assert time.process_time() - started < 2.0  # processor time: milliseconds, with a wide margin


@pytest.mark.parametrize("text", ["1/0", "9^9^9^9", "0^0"])
def test_an_answer_without_a_value_is_none_even_if_gold_is_written_the_same(text):
    assert not equivalent(text, text)


@given(st.fractions(min_value=-(10**6), max_value=10**6, max_denominator=10**4), st.integers(-3, 3))
def test_fractions_are_exact(value, shift):
    written = f"\\frac{{{value.numerator}}}{{{value.denominator}}}"
    assert equivalent(written, f"{value.numerator}/{value.denominator}")
    assert equivalent(written, str(value + shift)) == (shift == 0)


@given(st.integers(-20, 20), st.integers(-20, 20))
def test_a_product_equals_its_expansion_and_no_neighbour(a, b):
    product, expanded = f"(x+({a}))(x+({b}))", f"x^2+({a + b})x+({a * b})"
    assert equivalent(product, expanded)
    assert not equivalent(product, expanded + "+1")


@given(st.text(max_size=60))
def test_no_text_makes_the_reader_raise_anything_but_its_own_error(text):
    with contextlib.suppress(NoMaths):
        read(text)
    equivalent(text, "x^2+1")


def test_a_gold_that_does_not_equal_itself_is_named():
    judge = load_reward("symbolic_maths")
    assert judge.task_fault(Task("t", "x/y-v1", truth={"answer": [r"\frac{5 \pm \sqrt{61}}{18}", "10 cm"]})) == ""
    assert "'1/0' does not equal itself" in judge.task_fault(Task("t", "x/y-v1", truth={"answer": "1/0"}))


def test_thousands_are_no_tuple_and_a_tuple_no_number():
    assert read("1,234") == ("num", "1234")
    assert read("(1,234)")[0] == "tuple"


def test_the_last_box_counts():
    assert extracted(r"first \boxed{1}, then \boxed{\frac{a}{b}} at last") == r"\frac{a}{b}"
    assert extracted("work\n#### 1,080") == "1,080"


def test_it_judges_final_answers_against_one_or_several_golds():
    judge = load_reward("symbolic_maths")
    assert judge.outcome(make_trajectory([answered(r"\frac{2}{4}")], truth={"answer": "0.5"})) == {"success": 1.0}
    assert judge.outcome(make_trajectory([answered("3")], truth={"answer": ["2", "3"]})) == {"success": 1.0}
    assert judge.outcome(make_trajectory("I give up", truth={"answer": "2"})) == {"success": 0.0}
    with pytest.raises(JudgeError, match="no truth"):
        judge.outcome(make_trajectory([answered("3")]))


@pytest.mark.skipif(not GSM8K.is_file(), reason="the GSM8K file is not in ../shared/data/gsm8k")
def test_all_1319_gold_answers_of_gsm8k_are_read_and_equal_themselves_alone():
    rows = [json.loads(line)["answer"] for line in GSM8K.read_text().splitlines()]
    golds = [row.rpartition("####")[2].strip() for row in rows]
    assert len(golds) == 1319
    assert all(equivalent(row, gold) for row, gold in zip(rows, golds, strict=True))
    wrong = [str(Fraction(gold.replace(",", "")) + 1) for gold in golds]
    assert not any(equivalent(given, gold) for given, gold in zip(wrong, golds, strict=True))


@pytest.mark.parametrize(
    "answer", ['"18"', "'18'", "`18`", "\u201c18\u201d", 'The answer is "18".', r'\boxed{"18"}', '"$18$"']
)
def test_an_answer_in_quotes_is_the_answer(answer):
    assert equivalent(answer, "18")
    assert not equivalent(answer, "19")


@pytest.mark.parametrize(
    ("answer", "gold"), [("6'2\"", "62"), ("f'(x)", "f(x)"), ('"1" or "8"', "18"), ("'1', '8'", "18")]
)
def test_quotes_and_primes_inside_of_an_answer_stay(answer, gold):
    assert not equivalent(answer, gold)
