"""The kinds of question about the store: text, gold query, and the queries (hops) that lead to the answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["customer", "product", "supplier", "employee", "order"]


@dataclass(frozen=True, slots=True)
class QuestionTemplate:
    """One kind of question.

    Attributes:
        name: a tag of its tasks.
        kind: the kind of entity that the question names.
        question: the text, with `{name}` in place of the entity.
        gold: one SELECT that returns the answer, also with `{name}`.
        steps: the queries that an agent needs, in order. `{0}` and `{1}` are replaced by the values of earlier steps.
            Each query returns one value; the last value is the answer, the others are the evidence.
    """

    name: str
    kind: Kind
    question: str
    gold: str
    steps: tuple[str, ...]

    @property
    def hops(self) -> int:
        return len(self.steps)

    def named_in(self, prompt: str) -> str | None:
        """Return the entity that a prompt names; None if this template did not write the prompt."""
        match = re.fullmatch(re.escape(self.question).replace(re.escape("{name}"), "(.+)"), prompt)
        return match[1] if match else None


def _one_hop(name: str, kind: Kind, question: str, query: str) -> QuestionTemplate:
    return QuestionTemplate(name, kind, question, query, (query,))


TRAIN = (
    _one_hop(
        "customer_phone",
        "customer",
        "What is the phone number of '{name}'?",
        "SELECT phone FROM customers WHERE name = '{name}'",
    ),
    _one_hop(
        "customer_email",
        "customer",
        "What is the e-mail of '{name}'?",
        "SELECT email FROM customers WHERE name = '{name}'",
    ),
    _one_hop(
        "product_price",
        "product",
        "What is the price of '{name}'?",
        "SELECT price FROM products WHERE name = '{name}'",
    ),
    _one_hop(
        "product_sku",
        "product",
        "What is the SKU of '{name}'?",
        "SELECT sku FROM products WHERE name = '{name}'",
    ),
    _one_hop(
        "supplier_email",
        "supplier",
        "What is the e-mail of the supplier '{name}'?",
        "SELECT email FROM suppliers WHERE name = '{name}'",
    ),
    _one_hop(
        "order_date",
        "order",
        "When was order '{name}' placed?",
        "SELECT placed FROM orders WHERE code = '{name}'",
    ),
    QuestionTemplate(
        "product_supplier_phone",
        "product",
        "What is the phone number of the supplier of '{name}'?",
        "SELECT s.phone FROM products p JOIN suppliers s ON s.id = p.supplier_id WHERE p.name = '{name}'",
        ("SELECT supplier_id FROM products WHERE name = '{name}'", "SELECT phone FROM suppliers WHERE id = {0}"),
    ),
    QuestionTemplate(
        "order_customer_email",
        "order",
        "What is the e-mail of the customer of order '{name}'?",
        "SELECT c.email FROM orders o JOIN customers c ON c.id = o.customer_id WHERE o.code = '{name}'",
        ("SELECT customer_id FROM orders WHERE code = '{name}'", "SELECT email FROM customers WHERE id = {0}"),
    ),
    QuestionTemplate(
        "order_customer_phone",
        "order",
        "What is the phone number of the customer of order '{name}'?",
        "SELECT c.phone FROM orders o JOIN customers c ON c.id = o.customer_id WHERE o.code = '{name}'",
        ("SELECT customer_id FROM orders WHERE code = '{name}'", "SELECT phone FROM customers WHERE id = {0}"),
    ),
    QuestionTemplate(
        "employee_manager_phone",
        "employee",
        "What is the phone number of the manager of '{name}'?",
        "SELECT m.phone FROM employees e JOIN employees m ON m.id = e.manager_id WHERE e.name = '{name}'",
        ("SELECT manager_id FROM employees WHERE name = '{name}'", "SELECT phone FROM employees WHERE id = {0}"),
    ),
)

HELD_OUT = (
    QuestionTemplate(
        "order_employee_email",
        "order",
        "What is the e-mail of the employee who took order '{name}'?",
        "SELECT e.email FROM orders o JOIN employees e ON e.id = o.employee_id WHERE o.code = '{name}'",
        ("SELECT employee_id FROM orders WHERE code = '{name}'", "SELECT email FROM employees WHERE id = {0}"),
    ),
    QuestionTemplate(
        "order_total",
        "order",
        "What is the total value of order '{name}'?",
        "SELECT ROUND(SUM(l.quantity * l.unit_price), 2) FROM orders o JOIN order_lines l ON l.order_id = o.id "
        "WHERE o.code = '{name}'",
        (
            "SELECT id FROM orders WHERE code = '{name}'",
            "SELECT ROUND(SUM(quantity * unit_price), 2) FROM order_lines WHERE order_id = {0}",
        ),
    ),
    QuestionTemplate(
        "customer_last_order",
        "customer",
        "What is the code of the latest order of '{name}'?",
        "SELECT o.code FROM customers c JOIN orders o ON o.customer_id = c.id WHERE c.name = '{name}' "
        "ORDER BY o.placed DESC LIMIT 1",
        (
            "SELECT id FROM customers WHERE name = '{name}'",
            "SELECT code FROM orders WHERE customer_id = {0} ORDER BY placed DESC LIMIT 1",
        ),
    ),
    QuestionTemplate(
        "supplier_dearest_sku",
        "supplier",
        "What is the SKU of the dearest product of the supplier '{name}'?",
        "SELECT p.sku FROM suppliers s JOIN products p ON p.supplier_id = s.id WHERE s.name = '{name}' "
        "ORDER BY p.price DESC, p.id LIMIT 1",
        (
            "SELECT id FROM suppliers WHERE name = '{name}'",
            "SELECT sku FROM products WHERE supplier_id = {0} ORDER BY price DESC, id LIMIT 1",
        ),
    ),
    QuestionTemplate(
        "last_order_employee_phone",
        "customer",
        "What is the phone number of the employee who took the latest order of '{name}'?",
        "SELECT e.phone FROM customers c JOIN orders o ON o.customer_id = c.id "
        "JOIN employees e ON e.id = o.employee_id WHERE c.name = '{name}' ORDER BY o.placed DESC LIMIT 1",
        (
            "SELECT id FROM customers WHERE name = '{name}'",
            "SELECT employee_id FROM orders WHERE customer_id = {0} ORDER BY placed DESC LIMIT 1",
            "SELECT phone FROM employees WHERE id = {1}",
        ),
    ),
)

COMBINED = (
    _one_hop(
        "supplier_phone",
        "supplier",
        "What is the phone number of the supplier '{name}'?",
        "SELECT phone FROM suppliers WHERE name = '{name}'",
    ),
    QuestionTemplate(
        "product_supplier_email",
        "product",
        "What is the e-mail of the supplier of '{name}'?",
        "SELECT s.email FROM products p JOIN suppliers s ON s.id = p.supplier_id WHERE p.name = '{name}'",
        ("SELECT supplier_id FROM products WHERE name = '{name}'", "SELECT email FROM suppliers WHERE id = {0}"),
    ),
    QuestionTemplate(
        "employee_manager_email",
        "employee",
        "What is the e-mail of the manager of '{name}'?",
        "SELECT m.email FROM employees e JOIN employees m ON m.id = e.manager_id WHERE e.name = '{name}'",
        ("SELECT manager_id FROM employees WHERE name = '{name}'", "SELECT email FROM employees WHERE id = {0}"),
    ),
)
"""Kinds of question that no training task has, but whose words, tables, columns and query forms all occur in TRAIN."""

BY_NAME = {template.name: template for template in (*TRAIN, *HELD_OUT, *COMBINED)}
